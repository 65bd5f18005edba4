"""Suites as matrices: dimensions with values, expanded to cells. Pure functions and data."""
