"""Typed access to a Ceph cluster, through commands on any reachable host."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Literal

from pydantic import ConfigDict

from grampus.ceph.full_pools import WaitExplainer, require_writable
from grampus.ceph.mon_commands import CONNECT_TIMEOUT_S, ask_mons, parse_command, render_ask
from grampus.ceph.ports import CommandOutput, CommandRunner
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.models import Model

# How long a client that was shut out stays so: every fence of Grampus, and of the volumed that it
# starts. `volumes/fencing.py` says why a day.
BLOCKLIST_EXPIRE_S = 24 * 3600
# The least that `osd_memory_target` takes (`ceph config help osd_memory_target`: min 896Mi).
MIN_OSD_MEMORY_TARGET_MIB = 896


class PoolUsage(Model):
    """Room in one pool, in bytes that a client may store (copies taken into account)."""

    model_config = ConfigDict(frozen=True)

    name: str
    stored_bytes: int
    available_bytes: int
    copies: int


class ClusterStatus(Model):
    """What `ceph status` says, as far as Grampus shows it."""

    model_config = ConfigDict(frozen=True)

    health: str  # HEALTH_OK, HEALTH_WARN or HEALTH_ERR
    checks: tuple[str, ...]  # one sentence a health check
    mons: tuple[str, ...]
    mons_in_quorum: tuple[str, ...]
    mgr_active: str | None
    osds: int
    osds_up: int
    osds_in: int
    placement_groups: int
    placement_groups_clean: int
    raw_total_bytes: int
    raw_available_bytes: int


def parse_available_bytes(stats: Mapping[str, Any]) -> int:
    """What a client may still store in a pool, by its `stats` in `ceph df detail`."""
    room_bytes = int(stats["max_avail"])  # which knows nothing of a quota
    quota_bytes = stats.get("quota_bytes", 0)
    return min(room_bytes, max(0, quota_bytes - stats["stored"])) if quota_bytes else room_bytes


def parse_status(document: Mapping[str, Any], mgr_active: str | None) -> ClusterStatus:
    """A ClusterStatus from the JSON document of `ceph status`."""
    quorum = tuple(document.get("quorum_names", ()))
    osdmap = document.get("osdmap", {})
    pgmap = document.get("pgmap", {})
    clean = sum(
        state["count"]
        for state in pgmap.get("pgs_by_state", ())
        if state["state_name"].startswith("active+clean")
    )
    checks = document["health"].get("checks", {})
    return ClusterStatus(
        health=document["health"]["status"],
        checks=tuple(
            f"{code}: {check['summary']['message']}"
            for code, check in checks.items()
            if not check.get("muted")  # somebody has seen it, and does not count it as a problem
        ),
        mons=quorum,
        mons_in_quorum=quorum,
        mgr_active=mgr_active,
        osds=osdmap.get("num_osds", 0),
        osds_up=osdmap.get("num_up_osds", 0),
        osds_in=osdmap.get("num_in_osds", 0),
        placement_groups=pgmap.get("num_pgs", 0),
        placement_groups_clean=clean,
        raw_total_bytes=pgmap.get("bytes_total", 0),
        raw_available_bytes=pgmap.get("bytes_avail", 0),
    )


class CephCluster:
    """One Ceph cluster as seen with the key of Grampus, in a lab the administrator's.

    `image_pools` are the only pools whose images the key opens; None: it opens all. Without
    `has_bindings`, where Ceph's Python bindings may not be there, only its programs are run.
    """

    def __init__(
        self,
        runner: CommandRunner,
        *,
        image_pools: Collection[str] | None = None,
        has_bindings: bool = True,
    ) -> None:
        self.runner = WaitExplainer(runner)
        self.image_pools = image_pools
        self._has_bindings = has_bindings

    def ceph(
        self,
        *arguments: str,
        stdin: str | None = None,
        check: bool = True,
        timeout_s: float = CONNECT_TIMEOUT_S + 40,
    ) -> CommandOutput:
        """What `ceph ARGUMENTS` does. Raises GrampusError on a non-zero code, when `check`."""
        command = parse_command(arguments) if self._has_bindings else None
        if command is None:
            # By itself it waits for ever when no MON answers.
            argv = ["ceph", "--connect-timeout", str(CONNECT_TIMEOUT_S), *arguments]
        else:
            argv = render_ask(command.document, command.to, has_input=command.has_input)
        return self.runner.run(argv, stdin=stdin, check=check, timeout_s=timeout_s)

    def query(self, *arguments: str) -> Any:
        """The JSON document that `ceph ARGUMENTS --format json` prints."""
        return json.loads(self.ceph(*arguments, "--format", "json").stdout)

    def ask(self, prefix: str, *, to: Literal["mon", "mgr"] = "mon", **arguments: Any) -> Any:
        """The JSON document that `ask_mons` answers."""
        return json.loads(ask_mons(self.runner, prefix, to=to, format="json", **arguments).stdout)

    def observe_status(self) -> ClusterStatus:
        """Health, quorum, OSDs and capacity, now."""
        document = self.ask("status")
        mgr = document.get("mgrmap", {})
        active = mgr.get("active_name") or ("" if mgr.get("available") else None)
        status = parse_status(document, active)
        names = tuple(mon["name"] for mon in self.ask("mon dump")["mons"])
        return status.model_copy(update={"mons": names})

    def observe_pool(self, pool: str) -> PoolUsage:
        """Room in a pool. Raises GrampusError when there is no such pool."""
        stats = self._find_pool_stats(pool)
        if stats is None:
            raise GrampusError(f"The cluster has no pool named '{pool}'.", code="no-pool")
        copies = self.query("osd", "pool", "get", pool, "size")["size"]
        return PoolUsage(
            name=pool,
            stored_bytes=stats["stored"],
            available_bytes=stats["max_avail"],
            copies=copies,
        )

    def find_available_bytes(self, pool: str) -> int | None:
        """What a client may still store in a pool; None when the MGR has not counted it.

        It counts a new pool seconds after the MONs know of it.
        """
        stats = self._find_pool_stats(pool)
        return None if stats is None else parse_available_bytes(stats)

    def require_writable(self, pool: str) -> None:
        """Raise RefusedError with code `pool-full` when Ceph holds up every write in the pool."""
        require_writable(self.runner, pool)

    def _find_pool_stats(self, pool: str) -> dict[str, Any] | None:
        for entry in self.ask("df", detail="detail")["pools"]:
            if entry["name"] == pool:
                stats: dict[str, Any] = entry["stats"]
                return stats
        return None

    def observe_versions(self) -> str:
        """The cluster's version, such as `20.2.4 tentacle`."""
        words = self.ceph("version").stdout.split()
        return f"{words[2]} {words[4]}" if len(words) > 4 else " ".join(words)

    def ensure_pool(
        self,
        pool: str,
        *,
        placement_groups: int,
        copies: int,
        min_size: int,
        rule: str | None = None,
    ) -> None:
        """A replicated pool for RBD images, with the redundancy asked for.

        `rule` is the CRUSH rule of a new one; None: the cluster's own.
        """
        self.ensure_pool_created(pool, placement_groups=placement_groups, rule=rule)
        self.ceph("osd", "pool", "set", pool, "size", str(copies))
        self.ceph("osd", "pool", "set", pool, "min_size", str(min_size))
        self.runner.run(["rbd", "pool", "init", pool])

    def ensure_pool_created(self, pool: str, *, placement_groups: int, rule: str | None) -> None:
        """A replicated pool of that name, with what the cluster gives it; see `ensure_pool`."""
        if pool in self.query("osd", "pool", "ls"):
            return
        self.ceph(
            *("osd", "pool", "create", pool, str(placement_groups), str(placement_groups)),
            *("replicated", *(() if rule is None else (rule,)), "--autoscale-mode=off"),
        )

    def ensure_client(
        self, user: str, capabilities: Mapping[str, str], *, is_new: bool = False
    ) -> str:
        """The keyring of the cephx user `client.USER` with exactly these capabilities.

        Where `is_new`, one with other capabilities is somebody else's: it is left as it is, and
        RefusedError with code `client-exists` raised.
        """
        entity = f"client.{user}"
        caps = [word for pair in capabilities.items() for word in pair]
        create = "auth get-or-create"
        made = ask_mons(self.runner, create, entity=entity, caps=caps, check=False)
        if made.returncode != 0 and is_new and self.find_capabilities(user) is not None:
            raise RefusedError(
                f"The cluster already has a cephx user {entity} with other capabilities, "
                "which Grampus did not create for this volume.",
                f"`ceph auth get {entity}` shows it. Choose another name for the volume, or "
                f"remove the user with `ceph auth rm {entity}` if nobody needs it.",
                code="client-exists",
            )
        if made.returncode != 0:
            # It exists with other capabilities: an earlier version made it.
            ask_mons(self.runner, "auth caps", entity=entity, caps=caps)
            made = ask_mons(self.runner, create, entity=entity, caps=caps)
        return made.stdout

    def ensure_pending_key(self, user: str) -> str:
        """The keyring of `client.USER` with the key that shall follow the one it has.

        It is made if need be. Both let in, until the new one is used or committed.
        """
        entity = f"client.{user}"
        (found,) = self.query("auth", "get-or-create-pending", entity)
        return f"[{entity}]\n\tkey = {found['pending_key']}\n"

    def ensure_key_committed(self, user: str) -> None:
        """The pending key of `client.USER`, if there is one, is its only key from now on."""
        self.ceph("auth", "commit-pending", f"client.{user}")

    def find_capabilities(self, user: str) -> dict[str, str] | None:
        """What `client.USER` may do; None: there is no such user.

        Raises GrampusError when the cluster does not say.
        """
        result = ask_mons(
            self.runner, "auth get", entity=f"client.{user}", format="json", check=False
        )
        if result.returncode != 0:
            if "ENOENT" in result.stderr:
                return None
            # Once more, so that the runner raises its own error.
            result = ask_mons(self.runner, "auth get", entity=f"client.{user}", format="json")
        (found,) = json.loads(result.stdout)
        caps: dict[str, str] = found["caps"]
        return caps

    def ensure_client_absent(self, user: str) -> None:
        """Remove the cephx user `client.USER`."""
        ask_mons(self.runner, "auth rm", entity=f"client.{user}")

    def ensure_blocklisted(self, client_address: str) -> None:
        """Fence exactly one RADOS client (address:port/nonce) for `BLOCKLIST_EXPIRE_S` seconds."""
        ask_mons(
            *(self.runner, "osd blocklist"),
            blocklistop="add",
            addr=client_address,
            expire=float(BLOCKLIST_EXPIRE_S),
        )

    def observe_blocklist(self) -> list[str]:
        """Addresses (address:port/nonce) of the clients that are fenced now."""
        # Two documents, one after the other: single addresses, and ranges.
        text = ask_mons(self.runner, "osd blocklist ls", format="json").stdout.strip()
        entries, _ = json.JSONDecoder().raw_decode(text)
        return [entry["addr"] for entry in entries]

    def observe_client_entities(self) -> dict[str, str]:
        """The entity (such as `client.admin`) of each connected client, by address:port/nonce.

        Each client has its session with one MON: those in quorum are asked.
        """
        entities: dict[str, str] = {}
        for mon in self.query("quorum_status")["quorum_names"]:
            for session in self.query("tell", f"mon.{mon}", "sessions"):
                if session["con_type"] == "client":
                    socket = session["socket_addr"]
                    entities[f"{socket['addr']}/{socket['nonce']}"] = session["entity_name"]
        return entities

    def observe_serving_groups(self) -> tuple[int, int]:
        """How many placement groups are active, and how many there are, as the MGR knows it."""
        pgmap = self.ask("status")["pgmap"]
        states = pgmap.get("pgs_by_state", ())
        serving = sum(s["count"] for s in states if "active" in s["state_name"].split("+"))
        return serving, pgmap["num_pgs"]

    def observe_acting_sets(self) -> list[tuple[int, ...]]:
        """For each placement group, the OSDs that held its copies when it last reported."""
        return [tuple(group["acting"]) for group in self._groups()]

    def count_unclean_groups(self) -> int:
        """How many placement groups were not active and clean when they last reported.

        The MGR's own answer: what `status` counts is a digest, which the MONs get every few
        seconds (`mgr_tick_period`).
        """
        states = [set(group["state"].split("+")) for group in self._groups()]
        return sum(not {"active", "clean"} <= state for state in states)

    def _groups(self) -> list[Any]:
        stats = self.query("pg", "dump", "pgs_brief")
        groups: list[Any] = stats["pg_stats"] if isinstance(stats, dict) else stats
        return groups


# Source: Ceph's release notes of Reef (18), which starts no OSD on FileStore.
LAST_FILESTORE_RELEASE = 17


def parse_release(version: str) -> int | None:
    """20 of `20.2.4`; None when it does not begin with a number."""
    release = version.partition(".")[0]
    return int(release) if release.isdecimal() else None


def explain_no_filestore(version: str) -> str | None:
    """Why a cluster of that version has no FileStore, without a full stop; None: it has."""
    release = parse_release(version)
    if release is not None and release <= LAST_FILESTORE_RELEASE:
        return None
    return f"Ceph {version} has no FileStore: {LAST_FILESTORE_RELEASE} was the last release with it"
