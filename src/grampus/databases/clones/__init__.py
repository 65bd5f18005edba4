"""Copies of databases: golden volumes, clones, and how a copy becomes a database of its own."""
