"""Databases that run on again after their host was lost."""
