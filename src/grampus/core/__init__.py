"""Identifiers, units, errors, clock and progress; imports nothing of ours."""
