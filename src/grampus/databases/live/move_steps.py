"""A planned switch of a database to another host, as a list of steps.

What can be made ready there beforehand is, and changed pages are written out while the server
still serves. Clients cannot write from the stop of the server here until it serves there.
"""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath

from pydantic import ConfigDict

from grampus.core.errors import GrampusError
from grampus.core.models import Model
from grampus.core.shell import in_one_shell
from grampus.databases.certificates import AUTHORITIES, SERVER_CERTIFICATE, TLS_FILES
from grampus.databases.credentials import render_option_file
from grampus.databases.database_work import SWITCH_CPUS, DatabaseWork, discard
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.layout import (
    MYSQL_GID,
    MYSQL_UID,
    InstancePlan,
    plan_instance,
    render_config,
)
from grampus.databases.lifecycle import bring_up
from grampus.databases.live.live_changes import LiveWork
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import HostUnreachableError
from grampus.state.operations import Step


class Move(Model):
    """A switch to another host, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    changed: DatabaseSpec  # as it shall be
    former_host: str
    running: bool  # it shall run, so clients are kept waiting
    former_address: str | None = None  # None: the same one, as of each floating address

    @property
    def former(self) -> DatabaseSpec:
        address = self.former_address or self.changed.address
        return self.changed.model_copy(update={"host": self.former_host, "address": address})


class MoveWork:
    """What the steps of one switch do; every method is idempotent."""

    def __init__(self, ports: StepPorts, move: Move) -> None:
        self._ports = ports
        self._move = move
        self._there = DatabaseWork(ports, move.changed)
        self._here = DatabaseWork(ports, move.former)
        self._stopped_s: float | None = None  # when clients began to wait, if in this process
        self._pause_ms: int | None = None

    def prepare(self) -> None:
        """The instance's files on the new host: the same certificates, which clients trust."""
        plan, host = self._names(self._move.changed), self._there.host()
        host.run(
            in_one_shell(
                _install("0750", 0, plan.directory),
                _install("0750", MYSQL_UID, plan.run_dir),
                _install("0700", MYSQL_UID, plan.tls_dir),
            )
        )
        self._copy_certificates(plan)
        self._there.ensure_named()
        host.write_file(plan.config_file, render_config(plan))
        credentials = self._ports.credentials.load(plan.database)
        options = render_option_file(
            credentials,
            flavour=plan.flavour,
            address=plan.address,
            port=plan.port,
            ca_file=str(plan.tls_dir / AUTHORITIES),
        )
        host.write_file(plan.option_file, options, mode=0o600, uid=MYSQL_UID, gid=MYSQL_GID)

    def _copy_certificates(self, plan: InstancePlan) -> None:
        here, there = self._here.host(), self._there.host()
        former = self._names(self._move.former)
        is_here = here.read_file(former.tls_dir / SERVER_CERTIFICATE) is not None
        if not is_here and there.read_file(plan.tls_dir / SERVER_CERTIFICATE) is not None:
            return  # cut off after the files here were removed
        self._copy(former.tls_dir, plan.tls_dir)
        # Some that another switch left there are not this database's next ones.
        there.run(["rm", "-rf", str(plan.next_tls_dir)])
        if here.read_file(former.next_tls_dir / SERVER_CERTIFICATE) is not None:
            there.run(_install("0700", MYSQL_UID, plan.next_tls_dir))
            self._copy(former.next_tls_dir, plan.next_tls_dir)

    def _copy(self, source: PurePosixPath, target: PurePosixPath) -> None:
        here, there = self._here.host(), self._there.host()
        found = {name: here.read_file(source / name) for name in TLS_FILES}
        for name, content in found.items():
            if content is None:
                raise GrampusError(
                    f"The certificate {source / name} is missing on {self._move.former_host}.",
                    f"`grampus db restart {self._move.changed.name}` creates new "
                    "certificates. Then try again.",
                )
            there.write_file(target / name, content, mode=0o600, uid=MYSQL_UID, gid=MYSQL_GID)

    def unprepare(self) -> None:
        # A host that is away keeps files that the next switch to it replaces: no reason to leave
        # the database half-way.
        with contextlib.suppress(HostUnreachableError):
            self._there.remove_files()

    def stop(self) -> None:
        self._stopped_s = self._ports.clock.monotonic_s()
        self._here.halt_server()

    def return_here(self) -> None:
        # Interrupted before the kill, it runs, lets nobody in, and ends by itself in a moment.
        self._here.stop_server()
        bring_up(self._ports, self._move.former)

    def detach_here(self) -> None:
        # Found cut off later on, it may be attached there, with a server on it.
        name, host = self._move.changed.name, self._move.former_host
        if self._ports.volumes.get(name).host == host:
            self._ports.volumes.ensure_detached(name)

    def detach_there(self) -> None:
        # Undone before it began, the server here still stands on the volume.
        name, host = self._move.changed.name, self._move.changed.host
        if self._ports.volumes.get(name).host == host:
            self._ports.volumes.ensure_detached(name)

    def attach(self) -> None:
        discard(
            self._ports.volumes.ensure_attached(self._move.changed.name, self._move.changed.host)
        )

    def hurry(self) -> None:
        LiveWork(self._ports, _hurried(self._move.former)).set_limits()
        name = self._move.changed.name
        # First what takes its time: pages are changed meanwhile.
        discard(self._ports.volumes.draw_down(name, towards=self._move.changed.host))
        live = LiveWork(self._ports, self._move.former)
        live.write_pages()
        live.begin_binary_log()
        discard(self._ports.volumes.draw_down(name))  # they went to the volume's journal

    def unhurry(self) -> None:
        live = LiveWork(self._ports, self._move.former)
        live.restore_page_writing()
        live.set_limits()

    def serve(self) -> None:
        self._there.serve(self._note_serving)
        self._ports.records.change(self._move.changed.name, last_move_pause_ms=self._pause_ms)

    def _note_serving(self) -> None:
        if self._stopped_s is not None:
            self._pause_ms = round((self._ports.clock.monotonic_s() - self._stopped_s) * 1000)

    def tidy(self) -> None:
        self._here.remove_scratch()
        with contextlib.suppress(HostUnreachableError):
            self._here.remove_files()

    def untidy(self) -> None:
        """Its files here again, from there: the certificates that clients trust are in them."""
        back = Move(
            changed=self._move.former,
            former_host=self._move.changed.host,
            former_address=self._move.changed.address,
            running=self._move.running,
        )
        with contextlib.suppress(HostUnreachableError):
            MoveWork(self._ports, back).prepare()

    def _names(self, spec: DatabaseSpec) -> InstancePlan:
        """The instance on its host, for what does not depend on the volume."""
        data_dir = self._ports.fleet.host(spec.host).data_dir
        return plan_instance(spec, data_dir, PurePosixPath("/nonexistent"))


def _hurried(spec: DatabaseSpec) -> DatabaseSpec:
    return spec.model_copy(update={"cpus": max(spec.cpus, SWITCH_CPUS)})


def _install(mode: str, uid: int, directory: PurePosixPath) -> list[str]:
    return ["install", "-d", "-m", mode, "-o", str(uid), "-g", str(MYSQL_GID), str(directory)]


def _move_steps(ports: StepPorts, move: Move) -> list[Step]:
    spec, former = move.changed, move.former
    name, there, here = spec.name, spec.host, move.former_host
    work = MoveWork(ports, move)
    on_there, on_here = DatabaseWork(ports, spec), DatabaseWork(ports, former)
    prepare = Step("prepare", f"Prepare its files on {there}", work.prepare, work.unprepare)
    record = Step(
        "record",
        f"Record that {name} is on {there}",
        lambda: ports.records.change(name, spec=spec),
        lambda: ports.records.change(name, spec=former),
    )
    metadata = Step(
        "metadata",
        "Record it in the metadata of the image",
        on_there.write_facts,
        on_here.write_facts,
    )
    # Files of clients name the address, if that is another one from now on.
    clients = (
        [Step("clients", f"Write the address {spec.address} for clients", on_there.files)]
        if spec.shares_address
        else []
    )
    tidy = Step("tidy", f"Remove its files on {here}", work.tidy, work.untidy)
    if not move.running:
        return [prepare, record, metadata, tidy]
    return [
        prepare,
        Step("flush", "Write changed pages to the volume", work.hurry, work.unhurry),
        Step("server", f"Stop the server on {here}", work.stop, work.return_here),
        Step("detach", f"Detach the volume from {here}", work.detach_here),
        Step("leave", on_here.taking, on_here.take_address),
        record,
        # Before the volume: who connects is answered, that nobody listens, and tries again at once;
        # an address that nobody has takes a client's system a second or more to try again.
        Step("address", on_there.giving, on_there.give_address, on_there.take_address),
        Step("attach", f"Attach the volume to {there}", work.attach, work.detach_there),
        Step("serve", f"Start the server on {there}", work.serve, on_there.end_server),
        *clients,
        metadata,
        tidy,
    ]


MOVE = DatabaseOperation(
    kind="db.move",
    what="move of the database",
    document=Move,
    build=_move_steps,
    subject=lambda move: move.changed.name,
    when_cut_off="finish-or-undo",
    opens_volume=True,
    closes_image=True,
)
