"""The state of a site on one machine: its copy of the log in the cluster, and what comes with it.

The machine that adopts a site founds the log, others join it. Afterwards they are alike.

Failure and recovery: founding and joining can be repeated. The id of the log is in the copy before
the log is created, so a command that was killed in between is continued by the next one.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from grampus.ceph.state_log import StateLog, program_argv
from grampus.core.clock import Clock
from grampus.core.errors import RefusedError
from grampus.hosts.command_server.client import CommandServers
from grampus.sites.epochs import SiteEpochs, observe_machine
from grampus.sites.model import (
    EPOCH_RECORD,
    MACHINE_RECORD,
    SITE_HOST_RECORD,
    SITE_RECORD,
    ControllerEpoch,
    SiteMachine,
    SiteSpec,
    site_directory,
)
from grampus.sites.shared_home import SecretPlace, SharedHome
from grampus.sites.site_key import SiteKey, ensure_site_key, find_site_key, require_site_key
from grampus.state.home import Home
from grampus.state.log_port import StateUnansweredError
from grampus.state.replicated import ReplicatedStore
from grampus.state.shared_locks import SharedLocks
from grampus.state.store import Store

_STATE_FILE = "state.db"


class Answering(Protocol):
    """Runs programs where Ceph's libraries are, as `SiteClusterRunner`."""

    def answering(self, program: Sequence[str]) -> CommandServers: ...


@dataclass(frozen=True)
class SharedState:
    """The state of a site, opened. `home` takes locks and keeps secrets for all machines."""

    store: ReplicatedStore
    home: Home
    epochs: SiteEpochs
    log: StateLog

    def close(self) -> None:
        """Release the file and the connection to the cluster."""
        self.store.close()
        self.log.close()


# The log of a site's state: of its name and its pool, and what runs programs for it.
OpenLog = Callable[[str, str, Callable[[], Answering]], StateLog]


def state_file(home: Home, site: str) -> Path:
    """This machine's copy of the state."""
    return site_directory(home, site) / _STATE_FILE


def state_log(site: str, pool: str, runner: Callable[[], Answering]) -> StateLog:
    """The log in the cluster, which `runner` connects to."""
    return StateLog(site, lambda: runner().answering(program_argv(pool, site)))


def open_state(
    home: Home,
    site: str,
    log: StateLog,
    clock: Clock,
    *,
    command: str,
    on_silence: Callable[[StateUnansweredError], None],
    tell: Callable[[str], None] = lambda _: None,
) -> SharedState:
    """The copy of this machine with what others have changed since.

    If the cluster does not answer, `on_silence` decides whether the copy is used as it is: it may
    raise. `command` is what others are told that holds a lock, `tell` what the user is told who
    waits for one. Raises GrampusError with code
    `state-not-joined`, `no-site-key` and those of `ReplicatedStore.catch_up`.
    """
    key = require_site_key(site_directory(home, site), site)
    store = _replica(home, site, log, key, clock)
    try:
        try:
            store.catch_up()
        except StateUnansweredError as error:
            on_silence(error)
        return _with_epoch(home, site, store, log, key, clock, command, tell)
    except BaseException:
        store.close()
        raise


def found_state(
    home: Home, spec: SiteSpec, log: StateLog, clock: Clock, former: Store
) -> SharedState:
    """The state of a site that is being adopted: this machine's copy, or a new log.

    What an earlier release kept in `former` is moved. Raises RefusedError with code
    `site-joined-elsewhere` when the cluster has a state that this machine has not joined.
    """
    site, directory = spec.name, site_directory(home, spec.name)
    is_key_lost = find_site_key(directory) is None
    key = ensure_site_key(directory)
    store = _replica(home, site, log, key, clock)
    try:
        part, joined = log.read(0), store.log_id()
        if part is not None and part.log != joined:
            raise RefusedError(
                f"Another machine has adopted this cluster as '{site}'.",
                f"Run `grampus site key {site} --to FILE` there, and `grampus site join --from "
                "FILE` here. Or choose another name.",
                code="site-joined-elsewhere",
            )
        if part is None:
            joined = secrets.token_hex(8)
            store.join(joined)
            log.create(joined)
        store.catch_up()
        state = _with_epoch(home, site, store, log, key, clock, "grampus site adopt")
        if state.epochs.own() is None:
            known = former.get(EPOCH_RECORD, site, site, ControllerEpoch)
            state.epochs.begin("the site was adopted", after=0 if known is None else known.number)
        _move(home, site, former, state)
        if is_key_lost:
            _keep_secrets(home, site, state)
        note_machine(state, home, site, clock)
        store.put(SITE_RECORD, site, site, _keep_image(store, spec))
        return state
    except BaseException:
        store.close()
        raise


def _keep_image(store: Store, spec: SiteSpec) -> SiteSpec:
    """Hosts have the image of the site, which another machine may have changed meanwhile."""
    known = store.get(SITE_RECORD, spec.name, spec.name, SiteSpec)
    if known is None or not store.names(SITE_HOST_RECORD, spec.name):
        return spec
    names = ("image_name", "image_id", "image_digest")
    return spec.model_copy(update={name: getattr(known, name) for name in names})


def join_state(home: Home, site: str, log: StateLog, clock: Clock) -> SharedState:
    """The state of a site that other machines work on; the site's key is here already.

    Raises RefusedError with code `site-not-adopted` when the cluster has no state of that name.
    """
    store = _replica(home, site, log, require_site_key(site_directory(home, site), site), clock)
    try:
        part = log.read(0)
        if part is None:
            raise RefusedError(
                f"The cluster has no state of a site '{site}'.",
                f"`grampus site adopt {site}` adopts the cluster.",
                code="site-not-adopted",
            )
        store.join(part.log)
        store.catch_up()
        key = require_site_key(site_directory(home, site), site)
        state = _with_epoch(home, site, store, log, key, clock, "grampus site join")
        note_machine(state, home, site, clock)
        return state
    except BaseException:
        store.close()
        raise


def note_machine(state: SharedState, home: Home, site: str, clock: Clock) -> None:
    """Record that this machine works on the site."""
    member = state.store.member_id()
    if state.store.get(MACHINE_RECORD, site, member, SiteMachine) is None:
        machine = SiteMachine(
            name=observe_machine().name, joined_at=clock.now(), home=str(home.root)
        )
        state.store.put(MACHINE_RECORD, site, member, machine, is_noted=False)


def _replica(home: Home, site: str, log: StateLog, key: SiteKey, clock: Clock) -> ReplicatedStore:
    place = SecretPlace(home, site, key)
    return ReplicatedStore(state_file(home, site), site, log, clock=clock, on_secret=place.put)


def _with_epoch(
    home: Home,
    site: str,
    store: ReplicatedStore,
    log: StateLog,
    key: SiteKey,
    clock: Clock,
    command: str,
    tell: Callable[[str], None] = lambda _: None,
) -> SharedState:
    machine = observe_machine()
    epochs = SiteEpochs(store, site, clock, machine)
    locks = SharedLocks(
        *(store, site, log, clock),
        machine=machine.name,
        what=command,
        fence=lambda why: epochs.begin(why, holder=locks.process),
        tell=tell,
    )
    shared = SharedHome(home, site, store, key, locks)
    return SharedState(store, replace(home, shared=shared), epochs, log)


def _move(home: Home, site: str, former: Store, state: SharedState) -> None:
    """What an earlier release kept of the site in the state of the home."""
    rows: dict[str, list[dict[str, object]]] = {}
    with former.transaction() as connection:
        for table in ("records", "operations", "warnings"):
            found = connection.execute(f"SELECT * FROM {table} WHERE lab = ?", (site,))  # noqa: S608
            rows[table] = [dict(row) for row in found]
    rows["records"] = [
        row for row in rows["records"] if row["kind"] not in (SITE_RECORD, EPOCH_RECORD)
    ]
    if not any(rows.values()):
        return

    def write(connection: sqlite3.Connection) -> None:
        for table, found in rows.items():
            for row in found:
                names = ", ".join(row)
                connection.execute(
                    f"INSERT OR IGNORE INTO {table} ({names}) "  # noqa: S608 - of our own names
                    f"VALUES ({', '.join('?' * len(row))})",
                    list(row.values()),
                )

    state.store.change(write)
    known_hosts = site_directory(home, site) / "known_hosts"
    with contextlib.suppress(FileNotFoundError):
        known_hosts.replace(known_hosts_file(home, site))
    _keep_secrets(home, site, state)

    def forget(connection: sqlite3.Connection) -> None:
        for table in rows:
            kept = " AND kind <> 'site'" if table == "records" else ""
            connection.execute(f"DELETE FROM {table} WHERE lab = ?{kept}", (site,))  # noqa: S608

    former.change(forget)


def _keep_secrets(home: Home, site: str, state: SharedState) -> None:
    """Share all secrets that are files on this machine."""
    assert state.home.shared is not None  # noqa: S101 - `_with_epoch` has set it
    directory = home.secrets_dir(site)
    for file in sorted(path for path in directory.rglob("*") if path.is_file()):
        state.home.shared.keep_secret(str(file.relative_to(directory)), file.read_text())


def known_hosts_file(home: Home, site: str) -> Path:
    """The pinned keys of the site's hosts. All machines share it, as they share passwords."""
    return home.secrets_dir(site) / "known_hosts"
