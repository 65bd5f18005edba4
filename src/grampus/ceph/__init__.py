"""Typed access to a Ceph cluster, through its own command line with JSON output.

- `CephCluster` (`cluster.py`) asks the MONs; `rbd.py`, `snapshots.py`, `migrations.py`,
  `trash.py` and `encryption.py` work on images; `pools.py` and `fullness.py` on pools.
- `CommandRunner` (`ports.py`) runs the commands, on a host of a lab or on this machine.

Failure and recovery: a failed command raises an error, and *unknown* is never taken for *absent*.
A command that waits for a full pool says so. Nothing here is journaled: whoever changes something
does that in a step of an operation.
"""
