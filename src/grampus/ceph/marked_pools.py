"""Pools that Grampus makes on a cluster of somebody else's, and takes away again.

Each bears a mark in its application's metadata, and no pool without it is touched. Everything is
asked of the program `ceph`, which says what each command did. What is the owner's stays as it is:
the leave to remove pools is taken for one removal alone, is in the state before it is taken, and
what was there before is put back, also by whoever comes after a killed process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict

from grampus.ceph.cluster import CephCluster
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.models import Model
from grampus.state.store import Store

MARK = "grampus_bench"
OBJECTS = "grampus-bench"  # the application of pools that hold no images
IMAGES = "rbd"
LEAVE_RECORD = "pool-removal-leave"
LEAVE = "cluster"
ALLOW_REMOVAL = "mon_allow_pool_delete"
# Less specific sections are the owner's as well, and need no change for it.
_SECTION = "mon"
_TAKEN = "true"


class RemovalLeave(Model):
    """That pools may be removed for a moment, and what the option was before (None: not set)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    found: str | None


@dataclass(frozen=True)
class PoolShape:
    """A replicated pool to be made. It takes no more than `quota_bytes` of data."""

    copies: int
    placement_groups: int
    rule: str
    quota_bytes: int


class MarkedPools:
    """The pools of one cluster that bear the mark `token`. `key` is what records are kept under."""

    def __init__(self, cluster: CephCluster, store: Store, key: str, token: str) -> None:
        self._cluster = cluster
        self._store = store
        self._key = key
        self._token = token

    def is_there(self, pool: str) -> bool:
        """Whether the cluster has a pool of that name, marked or not."""
        return pool in self._applications()

    def others(self) -> list[str]:
        """Pools with a mark that is not ours, sorted: another Grampus made them."""
        return sorted(
            pool
            for pool, applications in self._applications().items()
            if parse_mark(applications) not in (None, self._token)
        )

    def ensure(self, pool: str, shape: PoolShape, *, application: str) -> None:
        """The pool, marked, of that shape; for `IMAGES` one that takes images.

        Raises RefusedError (`not-ours`) for one that is there and is not ours.
        """
        applications = self._applications().get(pool)
        if applications is None:
            groups = str(shape.placement_groups)
            self._cluster.ceph(
                *("osd", "pool", "create", pool, groups, groups, "replicated", shape.rule),
                "--autoscale-mode=off",
            )
        elif not is_ours(pool, applications, self._token):
            raise self._not_ours(pool)
        self._cluster.ceph("osd", "pool", "application", "enable", pool, application)
        self._cluster.ceph(
            *("osd", "pool", "application", "set", pool, application, MARK, self._token)
        )
        self._cluster.ceph("osd", "pool", "set-quota", pool, "max_bytes", str(shape.quota_bytes))
        self._cluster.ceph("osd", "pool", "set", pool, "size", str(shape.copies))
        if application == IMAGES:
            self._cluster.runner.run(["rbd", "pool", "init", pool])

    def ensure_absent(self, pool: str) -> None:
        """Remove a pool of ours with all that is in it; nothing happens when it is not there.

        Raises RefusedError (`not-ours`) for a pool without our mark, GrampusError (`pool-kept`)
        while images are in it, or when the cluster does not let it go.
        """
        applications = self._applications().get(pool)
        if applications is None:
            return
        if not is_ours(pool, applications, self._token):
            raise self._not_ours(pool)
        if IMAGES in applications:
            self._require_no_images(pool)
        self._remove(pool)

    def restore_leave(self) -> None:
        """Put the owner's setting back, if a process was killed that had taken the leave."""
        record = self._store.get(LEAVE_RECORD, self._key, LEAVE, RemovalLeave)
        if record is None:
            return
        # Whoever set anything else meanwhile wants that.
        if self._observe_leave() == _TAKEN and record.found != _TAKEN:
            if record.found is None:
                self._cluster.ceph("config", "rm", _SECTION, ALLOW_REMOVAL)
            else:
                self._cluster.ceph("config", "set", _SECTION, ALLOW_REMOVAL, record.found)
        self._store.remove(LEAVE_RECORD, self._key, LEAVE)

    def has_leave(self) -> bool:
        """Whether a leave is recorded that was not given back."""
        return self._store.get(LEAVE_RECORD, self._key, LEAVE, RemovalLeave) is not None

    def _remove(self, pool: str) -> None:
        argv = ("osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it")
        first = self._cluster.ceph(*argv, check=False)
        if first.returncode == 0:
            return
        # What the MONs say where pools may not be removed: "pool deletion is disabled; you must
        # first set the mon_allow_pool_delete config option to true".
        if ALLOW_REMOVAL not in first.stderr:
            raise _kept(pool, first.stderr)
        self.restore_leave()
        record = RemovalLeave(found=self._observe_leave())
        self._store.put(LEAVE_RECORD, self._key, LEAVE, record)
        try:
            self._cluster.ceph("config", "set", _SECTION, ALLOW_REMOVAL, _TAKEN)
            removed = self._cluster.ceph(*argv, check=False)
        finally:
            self.restore_leave()
        if removed.returncode != 0:
            raise _kept(pool, removed.stderr)

    def _observe_leave(self) -> str | None:
        return parse_setting(
            self._cluster.query("config", "dump"), section=_SECTION, name=ALLOW_REMOVAL
        )

    def _require_no_images(self, pool: str) -> None:
        for listed in (("ls",), ("namespace", "ls"), ("trash", "ls", "--all")):
            argv = ["rbd", *listed, "--format", "json", pool]
            if json.loads(self._cluster.runner.run(argv).stdout or "[]"):
                raise GrampusError(
                    f"The pool {pool} still has images, and is kept.",
                    f"Check the owner of the images with `rbd ls {pool}`. Images of a "
                    "benchmark begin with bench-. `grampus bench tidy --conf FILE` tries to "
                    "remove them again.",
                    code="pool-kept",
                )

    def _applications(self) -> dict[str, Mapping[str, Mapping[str, str]]]:
        """Of each pool the metadata of its applications."""
        return {
            pool["pool_name"]: pool.get("application_metadata", {})
            for pool in self._cluster.query("osd", "pool", "ls", "detail")
        }

    def _not_ours(self, pool: str) -> RefusedError:
        return RefusedError(
            f"The pool {pool} does not have the mark of this Grampus, and is kept.",
            f"Check the owner of the pool with `ceph osd pool application get {pool}`.",
            code="not-ours",
        )


def is_ours(pool: str, applications: Mapping[str, Mapping[str, str]], token: str) -> bool:
    """Whether a pool with these applications is one of ours.

    It bears our mark; or it has our token in its name and nothing at all of anybody's in it: then
    its creation was cut off before it had its mark.
    """
    mark = parse_mark(applications)
    if mark is not None:
        return mark == token
    is_bare = set(applications) <= {OBJECTS, IMAGES} and not any(applications.values())
    return is_bare and f"-{token}-" in pool


def parse_mark(applications: Mapping[str, Mapping[str, str]]) -> str | None:
    """The token in the metadata of a pool's applications; None: it bears no mark."""
    return next((found[MARK] for found in applications.values() if MARK in found), None)


def parse_setting(dump: Sequence[Mapping[str, Any]], *, section: str, name: str) -> str | None:
    """What `ceph config dump` says that is set for exactly that section; None: nothing."""
    for option in dump:
        if option["section"] == section and option["name"] == name and not option.get("mask"):
            return str(option["value"])
    return None


def _kept(pool: str, said: str) -> GrampusError:
    lines = said.strip().splitlines()
    reason = lines[-1].rstrip(".") if lines else "the cluster gives no reason"
    return GrampusError(
        f"The cluster does not remove the pool {pool}: {reason}.",
        f"Allow the removal (`ceph config set mon {ALLOW_REMOVAL} true`), then run `grampus "
        "bench tidy --conf FILE`.",
        code="pool-kept",
    )
