"""Runs of matrix suites: each cell is visited once a round, and what came of it is kept."""
