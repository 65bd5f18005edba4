"""What a database is called and where it goes: labels, names, the trash, its history."""
