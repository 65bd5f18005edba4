"""Looks at a site's cluster with the key of Grampus, and has it judged (`adoption_checks`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from grampus.ceph.cluster import CephCluster
from grampus.core.checks import Check
from grampus.core.errors import GrampusError
from grampus.sites.adoption_checks import (
    classify_clocks,
    classify_health,
    classify_release,
    classify_space,
)
from grampus.sites.pool_checks import (
    classify_failure_domain,
    classify_journals,
    classify_other_users,
    classify_pool,
    find_pool,
)
from grampus.sites.required_caps import (
    find_denied,
    find_missing,
    has_too_much,
    is_denied,
    render_update,
    required_caps,
)

# A volume's namespace, as `make_namespace` of volumes names it.
_OWN_NAMESPACE = re.compile(r"[a-z][a-z0-9-]*\.[0-9a-f]{8}", re.ASCII)
# librados says so of a cluster that it did not get into.
_CONNECTING = "error connecting to the cluster"


@dataclass(frozen=True)
class SiteAccess:
    """Whose access to which pools is looked at."""

    site: str
    user: str  # without `client.`
    pools: tuple[str, ...]
    # Pools of images whose journals are in another pool, and that pool.
    journals: frozenset[tuple[str, str]] = frozenset()


def explain_connection(error: GrampusError, user: str) -> GrampusError:
    """Why the cluster does not let us in, if `error` says that; otherwise `error` itself."""
    text = str(error)
    # The first is librados for Python, the second `ceph` and `rbd`.
    if _CONNECTING not in text and "error calling conf_read_file" not in text:
        return error
    if is_denied(text):
        return GrampusError(
            f"The cluster does not accept the key of client.{user}.",
            f"`ceph auth get client.{user}` on a host with the admin key shows the present key.",
            code="key-refused",
        )
    return GrampusError(
        "The cluster cannot be reached from this machine.",
        "Check `mon_host` in ceph.conf, and whether this machine reaches the ports 3300 and 6789 "
        "of the MONs.",
        code="cluster-unreachable",
    )


def observe_fsid(cluster: CephCluster, user: str) -> str:
    """The cluster's id. Raises GrampusError with code `key-refused` or `cluster-unreachable`."""
    try:
        return str(cluster.ask("fsid")["fsid"])
    except GrampusError as error:
        raise explain_connection(error, user) from error


def observe_checks(cluster: CephCluster, access: SiteAccess) -> list[Check]:
    """All checks of a cluster that can be reached."""
    observer = _Observer(cluster, access)
    capabilities = observer.capabilities()
    try:
        return [capabilities, *observer.rest()]
    except _DeniedError as denied:
        # What the user has no capability for cannot be looked at.
        return [capabilities if capabilities.verdict == "refused" else denied.check]


class _DeniedError(Exception):
    def __init__(self, check: Check) -> None:
        super().__init__(check.sentence)
        self.check = check


class _Observer:
    def __init__(self, cluster: CephCluster, access: SiteAccess) -> None:
        self._cluster = cluster
        self._access = access
        self._needed = required_caps(access.site, access.user, access.pools)

    def capabilities(self) -> Check:
        """What the user may do, against what Grampus needs."""
        try:
            found = self._cluster.find_capabilities(self._access.user)
        except GrampusError as error:
            denied = self._denied("auth get", error)
            if denied is None:
                raise
            return denied
        return self._judge(found or {})

    def rest(self) -> list[Check]:
        """All other checks. Raises _DeniedError."""
        status = self._ask("status")
        checks = [
            classify_release(self._ask("versions")),
            classify_health(status),
            classify_clocks(self._ask("time-sync-status")),
            classify_space(
                self._ask("df", detail="detail"), self._ask("osd dump"), status["health"]
            ),
        ]
        checks += (check for pool in self._access.pools for check in self._of_pool(pool))
        if self._access.journals:
            pools = self._ask("osd pool ls", detail="detail")
            checks += (classify_journals(pools, *pair) for pair in sorted(self._access.journals))
        return checks

    def _of_pool(self, pool: str) -> list[Check]:
        """Those of one pool. Raises _DeniedError."""
        pools = self._ask("osd pool ls", detail="detail")
        found = find_pool(pools, pool)
        checks = classify_pool(found, pool, [str(one["pool_name"]) for one in pools])
        if found is not None:
            rules = self._ask("osd crush rule dump")
            checks.append(classify_failure_domain(rules, int(found["crush_rule"]), pool))
        if all(one.verdict != "refused" for one in checks if one.name == "pool"):
            checks.append(classify_other_users(self._foreign_images(pool), pool))
        return checks

    def _judge(self, found: Mapping[str, str]) -> Check:
        user = self._access.user
        missing = find_missing(self._needed, found)
        if missing:
            shown = "\n".join(f"  {one}" for one in missing)
            return Check(
                "capabilities",
                "refused",
                f"client.{user} lacks capabilities:\n{shown}",
                self._update(),
            )
        if powerful := has_too_much(found):
            return Check(
                "capabilities",
                "warning",
                f"client.{user} may do everything ({', '.join(powerful)}). Grampus needs less.",
                "`grampus site caps` prints the command that creates a user with less.",
            )
        return Check("capabilities", "ok", f"client.{user} has the capabilities that are needed.")

    def _denied(self, command: str, error: GrampusError) -> Check | None:
        grant = find_denied(command, str(error), self._needed)
        if grant is None:
            return None
        return Check(
            "capabilities",
            "refused",
            f"client.{self._access.user} may not run `{command}`. It lacks:\n  {grant}",
            self._update(),
        )

    def _update(self) -> str:
        command = render_update(self._access.site, self._access.user, self._access.pools)
        return f"On a host with the admin key, run:\n{command}"

    def _ask(self, prefix: str, to: Literal["mon", "mgr"] = "mon", **arguments: Any) -> Any:
        try:
            return self._cluster.ask(prefix, to=to, **arguments)
        except GrampusError as error:
            denied = self._denied(prefix, error)
            if denied is None:
                raise
            raise _DeniedError(denied) from error

    def _foreign_images(self, pool: str) -> list[str]:
        """Images in the default namespace, and namespaces that no volume has."""
        images = self._rbd("rbd ls", "ls", "--format", "json", pool)
        namespaces = self._rbd("rbd namespace ls", "namespace", "ls", "--format", "json", pool)
        names = [str(one["name"]) for one in namespaces]
        foreign = [name for name in names if _OWN_NAMESPACE.fullmatch(name) is None]
        return [*map(str, images), *(f"{name}/" for name in foreign)]

    def _rbd(self, command: str, *arguments: str) -> list[Any]:
        try:
            listed = self._cluster.runner.run(["rbd", *arguments])
        except GrampusError as error:
            denied = self._denied(command, error)
            if denied is None:
                raise
            raise _DeniedError(denied) from error
        found: list[Any] = json.loads(listed.stdout or "[]")
        return found
