"""Benchmarks on a cluster that is somebody's own and no lab."""
