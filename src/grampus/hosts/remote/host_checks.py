"""Whether a machine can be a host of a site: one script for its sh, and what its answers mean."""

from __future__ import annotations

from grampus.core.checks import Check

MIN_SYSTEMD = 245  # the first release with all properties of `units.py`
MIN_MEMORY_BYTES = 1024**3
MAX_CLOCK_DIFFERENCE_S = 2.0

# DIRECTORY PLACE... ; each line is `name value`. `timeout bash` is not there on every machine, so
# places are asked by the host image (`probing.py`) once it is there.
OBSERVE = """
dir=$1
echo "systemd $(systemctl --version 2>/dev/null | sed -n '1s/systemd \\([0-9]*\\).*/\\1/p')"
echo "state $(systemctl is-system-running 2>/dev/null)"
for program in tar mount umount nsenter chroot flock sha256sum awk findmnt; do
  command -v $program >/dev/null || echo "missing $program"
done
test -c /dev/fuse && echo "fuse yes" || echo "fuse no"
test -c /dev/loop-control && echo "loop yes" || echo "loop no"
grep -qw xfs /proc/filesystems || modprobe xfs 2>/dev/null || true
grep -qw xfs /proc/filesystems && echo "xfs yes" || echo "xfs no"
grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || true
grep -qw overlay /proc/filesystems && echo "overlay yes" || echo "overlay no"
echo "kernel $(uname -r)"
echo "uring $(cat /sys/module/fuse/parameters/enable_uring 2>/dev/null || echo N)"
echo "memory $(awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo)"
at=$dir; while ! test -d "$at"; do at=$(dirname "$at"); done
echo "disk $(df -Pk "$at" | awk 'NR == 2 { print $4 }')"
echo "clock $(date +%s.%N)"
"""


def observe_argv(directory: str) -> list[str]:
    """The command on the machine whose output `classify_machine` reads."""
    return ["sh", "-c", OBSERVE, "grampus-check", directory]


def classify_machine(text: str, *, image_bytes: int, own_clock_s: float) -> list[Check]:
    """What a machine can do, from what OBSERVE found; `image_bytes` is what is to be copied."""
    found: dict[str, str] = {}
    missing: list[str] = []
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "missing":
            missing.append(value)
        else:
            found[name] = value.strip()
    return [
        _systemd(found.get("systemd", ""), found.get("state", "")),
        Check(
            "programs",
            "refused" if missing else "ok",
            f"Missing: {', '.join(missing)}." if missing else "All programs are there.",
            "Install util-linux, coreutils, tar and mawk." if missing else "",
        ),
        _device("fuse", found, "/dev/fuse", "volumed offers block devices through FUSE"),
        _device("loop", found, "/dev/loop-control", "file systems are on loop devices"),
        _module("xfs", found),
        _module("overlay", found),
        _uring(found),
        _memory(_number(found.get("memory", "")) * 1024),
        _disk(_number(found.get("disk", "")) * 1024, image_bytes),
        _clock(found.get("clock", ""), own_clock_s),
    ]


def _systemd(version: str, state: str) -> Check:
    if not version:
        return Check(
            "systemd",
            "refused",
            "systemd does not run there.",
            "Use a machine whose services systemd starts.",
        )
    if _number(version) < MIN_SYSTEMD:
        return Check(
            "systemd",
            "refused",
            f"systemd {version} is too old: {MIN_SYSTEMD} or later is needed.",
            "Upgrade the machine (Debian 11, Ubuntu 20.04 and RHEL 9 have a newer one).",
        )
    if state == "degraded":
        return Check(
            "systemd",
            "warning",
            f"systemd {version} runs, and services of the machine have failed.",
            "`systemctl --failed` on the host lists them.",
        )
    return Check("systemd", "ok", f"systemd {version} runs.")


def _device(name: str, found: dict[str, str], path: str, why: str) -> Check:
    if found.get(name) == "yes":
        return Check(name, "ok", f"{path} is there.")
    return Check(
        name, "refused", f"{path} is missing, and {why}.", f"Load the kernel module {name}."
    )


def _module(name: str, found: dict[str, str]) -> Check:
    if found.get(name) == "yes":
        return Check(name, "ok", f"The kernel has {name}.")
    return Check(
        name,
        "refused",
        f"The kernel has no {name}.",
        f"Install a kernel with the module {name}, and load it.",
    )


def _uring(found: dict[str, str]) -> Check:
    kernel = found.get("kernel", "unknown")
    if found.get("uring", "N").upper() in ("Y", "1"):
        return Check("fuse-uring", "ok", f"FUSE over io_uring is enabled (kernel {kernel}).")
    return Check(
        "fuse-uring",
        "warning",
        f"FUSE over io_uring is not enabled (kernel {kernel}), so volumes use the slower one.",
        "With Linux 6.14 or later: `echo Y > /sys/module/fuse/parameters/enable_uring`.",
    )


def _memory(memory_bytes: int) -> Check:
    text = f"{memory_bytes / 1024**3:.1f} GiB of memory."
    if memory_bytes < MIN_MEMORY_BYTES:
        return Check("memory", "refused", text, "Use a machine with at least 1 GiB.")
    return Check("memory", "ok", text)


def _disk(free_bytes: int, image_bytes: int) -> Check:
    # The image, and as much again for overlays, logs and the write path `cache`.
    text = f"{free_bytes / 1024**3:.1f} GiB are free for Grampus."
    if free_bytes < 2 * image_bytes:
        return Check(
            "disk",
            "refused",
            text,
            f"Make {2 * image_bytes / 1024**3:.1f} GiB of space below /var/lib.",
        )
    return Check("disk", "ok", text)


def _clock(text: str, own_clock_s: float) -> Check:
    try:
        difference_s = abs(float(text) - own_clock_s)
    except ValueError:
        return Check(
            "clock", "warning", "The machine does not say what time it is.", "Run `date` there."
        )
    if difference_s > MAX_CLOCK_DIFFERENCE_S:
        return Check(
            "clock",
            "warning",
            f"Its clock differs by {difference_s:.1f} s from that of this machine.",
            "Run an NTP client there (chrony, systemd-timesyncd).",
        )
    return Check("clock", "ok", "Its clock agrees with that of this machine.")


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
