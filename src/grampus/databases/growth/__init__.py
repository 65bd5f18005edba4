"""Volumes that grow by rule, and the guard that keeps a database off a full disk."""
