"""Drivers: from an RBD image to a block device on a host, and back."""
