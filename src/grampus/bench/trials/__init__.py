"""Runs of matrix suites: each cell is measured once a round, and what came of it is kept."""
