"""Tests of grampus.bench.statistics."""
