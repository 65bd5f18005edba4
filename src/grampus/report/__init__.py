"""Archived runs made readable."""
