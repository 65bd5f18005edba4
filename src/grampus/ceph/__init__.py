"""Typed access to a Ceph cluster."""
