"""Newer servers for databases that are there."""
