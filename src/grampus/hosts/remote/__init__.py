"""Hosts that Grampus did not make: reached by SSH, with daemons as systemd services.

`remote_host.RemoteHost` is the `Host`, `remote_fleet.RemoteFleet` the `Fleet`. `ssh` has the
command lines of the OpenSSH client and explains its errors; `host_root` the host image that
commands and daemons run in; `units` turns a `DaemonSpec` into a transient service (pure);
`host_checks` says whether a machine can be a host.

A host needs `sh`, `tar`, `mount`, `nsenter` and systemd, and no Python: commands run in the host
image by `chroot`, in the host's own mount namespace.

Failure and recovery: a command ends with its connection; one that is read while it runs ends when
it next writes. Services are transient, so none is started at boot: a host that returns runs nothing
until Grampus starts it. What is mounted is mounted again when the next command connects.
"""
