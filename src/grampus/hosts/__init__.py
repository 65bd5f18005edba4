"""Machines that run processes, and the ways to run them there."""
