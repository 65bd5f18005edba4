"""The Debian package: what is in it (`control.py`, pure) and how it is built (`tree.py`)."""
