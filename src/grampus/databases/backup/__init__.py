"""Backups of databases: taken from snapshots, sealed, kept outside the cluster, restored."""
