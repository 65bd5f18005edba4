"""Snapshots of databases: taken, listed, rolled back to, by schedule."""
