"""Users of a database's clients, and passwords of all accounts."""
