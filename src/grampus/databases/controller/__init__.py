"""The controller: what databases need done by itself, found out and done again and again."""
