"""Suites, runs and samples: how fast a database is, and why."""
