"""What of a cluster can hurt databases, judged before Grampus uses it. All pure.

`pool_checks` judges the pool.

Each check takes JSON documents as Ceph prints them. `refused` means that databases would not work
or would lose data; `warning` is for the administrator to judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grampus.ceph.cluster import parse_release
from grampus.core.checks import Check

Document = Mapping[str, Any]

# Ceph's releases that the lab's host images have, and that Grampus is tested with.
OLDEST_RELEASE, NEWEST_RELEASE = 16, 20
# As the MONs count it (`mon_clock_drift_allowed`).
MAX_SKEW_S = 0.05
_FULL_CHECKS = ("OSD_FULL", "OSD_BACKFILLFULL", "OSD_NEARFULL", "POOL_FULL", "POOL_NEARFULL")


def parse_version(versions: Document) -> list[str]:
    """The releases that daemons run, such as `20.2.4`, from `ceph versions`."""
    names = versions.get("overall", {})
    return sorted({name.split()[2] for name in names if len(name.split()) > 2})


def classify_release(versions: Document) -> Check:
    """Whether Grampus knows the cluster's release."""
    found = parse_version(versions)
    releases = [release for one in found if (release := parse_release(one)) is not None]
    shown = ", ".join(found) or "an unknown release"
    if not releases:
        return Check("release", "warning", f"The cluster runs {shown} of Ceph.")
    if min(releases) < OLDEST_RELEASE:
        return Check(
            "release",
            "refused",
            f"The cluster runs Ceph {shown}. Grampus needs release {OLDEST_RELEASE} or later.",
            "Upgrade the cluster.",
        )
    if max(releases) > NEWEST_RELEASE:
        return Check(
            "release",
            "warning",
            f"The cluster runs Ceph {shown}. Grampus is tested up to release {NEWEST_RELEASE}.",
            "Try a database that you can lose first.",
        )
    if len(found) > 1:
        return Check(
            "release",
            "warning",
            f"Daemons of the cluster run different releases: {shown}.",
            "Finish the upgrade: ceph versions",
        )
    return Check("release", "ok", f"The cluster runs Ceph {shown}.")


def classify_clocks(time_sync: Document) -> Check:
    """Whether the MONs agree on the time, by `ceph time-sync-status`."""
    skews = {
        name: float(one.get("skew", 0.0))
        for name, one in time_sync.get("time_skew_status", {}).items()
    }
    apart = sorted(name for name, skew in skews.items() if abs(skew) > MAX_SKEW_S)
    if apart:
        worst = max(abs(skews[name]) for name in apart)
        return Check(
            "clocks",
            "warning",
            f"The clocks of the MONs {', '.join(apart)} differ by up to {worst:.2f} s.",
            "Run chrony or another time service on the hosts of the MONs.",
        )
    return Check("clocks", "ok", "The clocks of the MONs agree.")


def classify_health(status: Document) -> Check:
    """Whether the cluster works, by `ceph status`."""
    health = str(status["health"]["status"])
    checks = status["health"].get("checks", {})
    said = "; ".join(str(one["summary"]["message"]) for one in checks.values())
    if health == "HEALTH_OK":
        return Check("health", "ok", "The cluster is healthy.")
    return Check(
        "health",
        "warning",
        f"The cluster reports {health}{f': {said}' if said else ''}.",
        "Repair the cluster first: ceph health detail",
    )


def classify_space(usage: Document, osd_map: Document, health: Document) -> Check:
    """whether there is space, by `ceph df detail`, `ceph osd dump` and the health."""
    raised = [name for name in _FULL_CHECKS if name in health.get("checks", {})]
    remedy = "Add OSDs, or delete data."
    if any(name.endswith("_FULL") for name in raised):
        return Check("space", "refused", f"The cluster is full ({', '.join(raised)}).", remedy)
    if raised:
        return Check(
            "space", "warning", f"The cluster is nearly full ({', '.join(raised)}).", remedy
        )
    stats = usage["stats"]
    total = int(stats.get("total_bytes", 0))
    used_ratio = int(stats.get("total_used_raw_bytes", 0)) / total if total else 0.0
    nearfull = float(osd_map.get("nearfull_ratio", 0.85))
    if used_ratio > nearfull - 0.1:
        return Check(
            "space",
            "warning",
            f"{used_ratio:.0%} of the cluster is used. Ceph warns at {nearfull:.0%} and blocks "
            f"writes at {float(osd_map.get('full_ratio', 0.95)):.0%}.",
            remedy,
        )
    return Check("space", "ok", f"{used_ratio:.0%} of the cluster is used.")
