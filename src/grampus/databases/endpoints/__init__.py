"""Read-only endpoints: one address a database, that leads to whichever replicas can be read."""
