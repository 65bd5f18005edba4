"""What of a pool can hurt databases: its copies, where they are, and who else uses it. All pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grampus.core.checks import Check
from grampus.core.errors import closest_name
from grampus.sites.adoption_checks import Document

SAFE_COPIES, SAFE_MIN_SIZE = 3, 2
# Below, few OSDs share the load of a pool.
FEW_GROUPS = 32
# Buckets of CRUSH that are no protection against the loss of a host.
_WITHIN_A_HOST = ("osd",)
_ERASURE = 3  # `type` of a pool in the OSD map


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


def classify_pool(found: Document | None, pool: str, known: Iterable[str] = ()) -> list[Check]:
    """Whether the pool is there and for RBD images, how many copies it has, and its autoscaler.

    `known` are the pools of the cluster.
    """
    if found is None:
        meant = closest_name(pool, known)
        return [
            Check(
                "pool",
                "refused",
                f"The cluster has no pool named '{pool}'."
                + (f" Did you mean '{meant}'?" if meant else ""),
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


def classify_journals(pools: Iterable[Document], pool: str, journal_pool: str) -> Check:
    """Whether journals in `journal_pool` are as safe as the images in `pool` that they are of.

    `pools` is the document of `ceph osd pool ls detail`.
    """
    known = list(pools)
    images, journals = find_pool(known, pool), find_pool(known, journal_pool)
    of_volumes = f"journals of volumes in '{pool}'"
    if images is None or journals is None:
        missing = pool if images is None else journal_pool
        return Check(
            "journals",
            "refused",
            f"The pool '{journal_pool}' has {of_volumes}, and the cluster has no pool named "
            f"'{missing}'.",
            "Create the pool again under its name, and restore its objects or the databases.",
        )
    weaker = [
        f"ceph osd pool set {journal_pool} {key} {images[key]}"
        for key in ("size", "min_size")
        if int(journals[key]) < int(images[key])
    ]
    if weaker:
        return Check(
            "journals",
            "warning",
            f"The pool '{journal_pool}' has {of_volumes}, and fewer copies (size "
            f"{journals['size']}, min_size {journals['min_size']}) than '{pool}' (size "
            f"{images['size']}, min_size {images['min_size']}): new commits are less safe.",
            "\n".join(weaker),
        )
    sentence = f"The pool '{journal_pool}' has {of_volumes}, and as many copies."
    return Check("journals", "ok", sentence)


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
