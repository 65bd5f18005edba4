"""Which system calls a daemon that is not privileged cannot make: pure.

A list of refusals and not of permissions: mysqld, Ceph's daemons and their libraries gain new
system calls with each release, and a list of permissions that lags behind breaks them. What is
refused is what none of them needs and what exploits of kernels begin with. Source of the choice:
the calls that the default profile of containerd refuses without capabilities (its documentation,
2026-11), without those that a missing capability refuses already.
"""

from __future__ import annotations

from typing import Any

REFUSED_SYSTEM_CALLS = (
    # Mounts and namespaces.
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "pivot_root",
    "setns",
    "umount2",
    "unshare",
    # Other processes' memory.
    "kcmp",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    # The kernel and the machine.
    "acct",
    "bpf",
    "clock_settime",
    "delete_module",
    "finit_module",
    "init_module",
    "ioperm",
    "iopl",
    "kexec_file_load",
    "kexec_load",
    "lookup_dcookie",
    "nfsservctl",
    "open_by_handle_at",
    "perf_event_open",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "settimeofday",
    "swapoff",
    "swapon",
    "userfaultfd",
    "vhangup",
    # Keys of the kernel, which know no containers.
    "add_key",
    "keyctl",
    "request_key",
)


def render_seccomp() -> dict[str, Any]:
    """The profile as the OCI runtime reads it: a refused call fails with EPERM.

    Without `architectures` the profile binds the machine's own one; calls of another one (32-bit
    programs on a 64-bit machine) end the process (seccomp(2)).
    """
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": list(REFUSED_SYSTEM_CALLS), "action": "SCMP_ACT_ERRNO"}],
    }
