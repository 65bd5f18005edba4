"""Tests of grampus.bench."""
