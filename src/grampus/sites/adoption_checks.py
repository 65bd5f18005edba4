"""What of a cluster can hurt databases, judged before Grampus uses it. All pure.

Each check takes JSON documents as Ceph prints them. `refused` means that databases would not work
or would lose data; `warning` is for the administrator to judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from grampus.ceph.cluster import parse_release

Verdict = Literal["ok", "warning", "refused"]
Document = Mapping[str, Any]

# Ceph's releases that the lab's host images have, and that Grampus is tested with.
OLDEST_RELEASE, NEWEST_RELEASE = 16, 20
SAFE_COPIES, SAFE_MIN_SIZE = 3, 2
# Below, few OSDs share the load of a pool.
FEW_GROUPS = 32
# Buckets of CRUSH that are no protection against the loss of a host.
_WITHIN_A_HOST = ("osd",)
_ERASURE = 3  # `type` of a pool in the OSD map
# As the MONs count it (`mon_clock_drift_allowed`).
MAX_SKEW_S = 0.05
_FULL_CHECKS = ("OSD_FULL", "OSD_BACKFILLFULL", "OSD_NEARFULL", "POOL_FULL", "POOL_NEARFULL")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    verdict: Verdict
    sentence: str
    remedy: str = ""

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "remedy": self.remedy or None,
        }


def render_pool_creation(pool: str) -> str:
    """The commands that create a pool for databases."""
    return "\n".join(
        [
            f"ceph osd pool create {pool} --autoscale-mode=on",
            f"ceph osd pool set {pool} size {SAFE_COPIES}",
            f"ceph osd pool set {pool} min_size {SAFE_MIN_SIZE}",
            f"rbd pool init {pool}",
        ]
    )


def find_pool(pools: Iterable[Document], pool: str) -> Document | None:
    """The pool's entry in the document of `ceph osd pool ls detail`."""
    return next((one for one in pools if one["pool_name"] == pool), None)


def classify_pool(found: Document | None, pool: str) -> list[Check]:
    """Whether the pool is there and for RBD images, how many copies it has, and its autoscaler."""
    if found is None:
        return [
            Check(
                "pool",
                "refused",
                f"The cluster has no pool named '{pool}'.",
                f"Create it, or choose another one with --pool:\n{render_pool_creation(pool)}",
            )
        ]
    if found.get("type") == _ERASURE:
        return [
            Check(
                "pool",
                "refused",
                f"The pool '{pool}' is erasure-coded and cannot keep the metadata of images.",
                f"Create a replicated pool:\n{render_pool_creation(f'{pool}-replicated')}",
            )
        ]
    return [
        _classify_application(found, pool),
        _classify_copies(found, pool),
        _classify_autoscaler(found, pool),
    ]


def _classify_application(found: Document, pool: str) -> Check:
    applications = sorted(found.get("application_metadata", {}))
    if "rbd" not in applications:
        return Check(
            "pool",
            "refused",
            f"The pool '{pool}' is not enabled for RBD images.",
            f"If nothing else uses it: rbd pool init {pool}",
        )
    others = [one for one in applications if one != "rbd"]
    if others:
        return Check(
            "pool",
            "warning",
            f"The pool '{pool}' is also enabled for {', '.join(others)}.",
            "Use a separate pool for databases (--pool).",
        )
    return Check("pool", "ok", f"The pool '{pool}' is there and enabled for RBD images.")


def _classify_copies(found: Document, pool: str) -> Check:
    size, min_size = int(found["size"]), int(found["min_size"])
    wanted = f"ceph osd pool set {pool} size {SAFE_COPIES}\n"
    wanted += f"ceph osd pool set {pool} min_size {SAFE_MIN_SIZE}"
    if size < 2:
        sentence = f"The pool '{pool}' has one copy: the loss of one disk destroys databases."
        return Check("copies", "refused", sentence, wanted)
    if min_size < SAFE_MIN_SIZE:
        sentence = (
            f"The pool '{pool}' accepts writes with one copy (min_size {min_size}): the loss of "
            "that disk then loses commits."
        )
        return Check("copies", "warning", sentence, wanted)
    if size < SAFE_COPIES:
        sentence = (
            f"The pool '{pool}' has {size} copies and needs {min_size}: databases wait while "
            "one is missing."
        )
        return Check("copies", "warning", sentence, wanted)
    return Check("copies", "ok", f"The pool has {size} copies and needs {min_size} to write.")


def _classify_autoscaler(found: Document, pool: str) -> Check:
    mode, groups = str(found.get("pg_autoscale_mode", "")), int(found.get("pg_num", 0))
    target = int(found.get("pg_num_target", groups))
    if groups != target:
        return Check(
            "placement groups",
            "warning",
            f"The pool '{pool}' changes from {groups} to {target} placement groups, and moves "
            "data meanwhile.",
            "Wait until `ceph osd pool autoscale-status` shows no change before you measure.",
        )
    if mode == "on":
        sentence = f"The autoscaler manages the {groups} placement groups of the pool."
        return Check("placement groups", "ok", sentence)
    sentence = (
        f"The pool '{pool}' has {groups} placement groups; the autoscaler is {mode or 'off'}."
    )
    if mode != "warn" and groups >= FEW_GROUPS:
        return Check("placement groups", "ok", sentence)
    return Check(
        "placement groups",
        "warning",
        sentence,
        f"To let Ceph choose their number: ceph osd pool set {pool} pg_autoscale_mode on",
    )


def classify_failure_domain(rules: Sequence[Document], rule_id: int, pool: str) -> Check:
    """Whether the copies are on different hosts, by `ceph osd crush rule dump`."""
    rule = next((one for one in rules if one["rule_id"] == rule_id), None)
    kinds = [
        str(step["type"])
        for step in (rule or {}).get("steps", ())
        if str(step.get("op", "")).startswith("choose")
    ]
    if rule is None or not kinds:
        return Check(
            "failure domain",
            "warning",
            f"The CRUSH rule of the pool '{pool}' does not say where its copies are.",
            "Check that no two copies are on one host: ceph osd crush rule dump",
        )
    name = rule["rule_name"]
    if all(kind in _WITHIN_A_HOST for kind in kinds):
        return Check(
            "failure domain",
            "warning",
            f"The CRUSH rule '{name}' of the pool '{pool}' may place all copies on one host: "
            "its loss then destroys databases.",
            "ceph osd crush rule create-replicated by-host default host\n"
            f"ceph osd pool set {pool} crush_rule by-host",
        )
    kind = next(kind for kind in kinds if kind not in _WITHIN_A_HOST)
    return Check("failure domain", "ok", f"Each copy is on another {kind} (CRUSH rule '{name}').")


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


def classify_other_users(foreign: Sequence[str], pool: str) -> Check:
    """Images in the pool that Grampus did not create; `foreign` are their names."""
    if not foreign:
        return Check("other users", "ok", f"The pool '{pool}' has no images of anybody else.")
    shown = ", ".join(foreign[:3]) + (", ..." if len(foreign) > 3 else "")
    count = "1 image" if len(foreign) == 1 else f"{len(foreign)} images"
    return Check(
        "other users",
        "warning",
        f"The pool '{pool}' has {count} that Grampus did not create: {shown}.",
        "Grampus leaves them alone. They share its space and its disks with the databases; use a "
        "separate pool to set a quota (--pool).",
    )
