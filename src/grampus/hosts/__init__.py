"""Hosts: machines that run processes.

- `Host` and `Fleet` (`port.py`) are all that anything above knows of machines: run a command,
  keep a daemon, read a counter. `LabHost` is a host of the lab, `ThisMachine` the one of an
  existing cluster.
- Commands go through one process for each host (`command_server/`); daemons are OCI containers
  (`containers.py`, `oci_config.py`) with limits (`cgroups.py`).

Failure and recovery: a host that is away raises `HostUnreachableError`; a command that fails
raises `CommandFailedError`, never an answer. A command server that died is started again.
Commands have time limits; what Ctrl-C interrupts on a host is ended there.
"""
