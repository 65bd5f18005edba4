"""Changes of a running database, as lists of steps: limits, parameters, restart."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ConfigDict

from grampus.core.errors import GrampusError
from grampus.core.models import Model
from grampus.core.units import format_bytes, format_cpus
from grampus.databases.administrator import (
    REFUSALS,
    Administrator,
    administrator_of,
    passing_over_refusals,
)
from grampus.databases.database_work import DatabaseWork
from grampus.databases.instance import observe_daemon_state
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.layout import InstancePlan, own_options, render_config, server_daemon_name
from grampus.databases.lifecycle import bring_up
from grampus.databases.live.decide_live_limits import decide_live_options, decide_live_pool
from grampus.databases.live.live_server import (
    ensure_limits,
    ensure_options,
    ensure_pages_written,
    ensure_pool_size,
    observe_pool,
    restore_page_writing,
)
from grampus.databases.live.option_check import check_option_file, ensure_check_absent
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import Limits
from grampus.state.operations import Step


class LimitsChange(Model):
    """A change of an instance's memory and CPUs, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    changed: DatabaseSpec  # as it shall be
    former_memory_bytes: int
    former_cpus: float
    former_buffer_pool_bytes: int
    running: bool  # it shall run, so its server is changed too

    @property
    def former(self) -> DatabaseSpec:
        update = {"memory_bytes": self.former_memory_bytes, "cpus": self.former_cpus}
        return self.changed.model_copy(update=update)


class ParameterChange(Model):
    """A change of one of the server's parameters, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    changed: DatabaseSpec  # as it shall be
    former_parameters: dict[str, str]
    parameter: str
    # What follows SET GLOBAL, as SQL; None: it waits for the server's next start.
    statement_value: str | None
    former_statement_value: str | None
    checked: bool  # by the server, before anything is changed
    running: bool  # it shall run, so its option file is there to be changed
    # The server that runs has no such variable: nothing changes for it, now or later.
    ignored: bool = False

    @property
    def waits_for_restart(self) -> bool:
        """Whether it takes effect at the next start of a server that runs."""
        return self.running and not self.ignored and self.statement_value is None

    @property
    def former(self) -> DatabaseSpec:
        return self.changed.model_copy(update={"parameters": self.former_parameters})


class LiveWork:
    """What the steps of a live change do to one database; every method is idempotent.

    A server that does not run (its host failed meanwhile) is passed over: it takes all that is
    recorded at its next start.
    """

    def __init__(self, ports: StepPorts, spec: DatabaseSpec) -> None:
        self._ports = ports
        self._spec = spec
        self._work = DatabaseWork(ports, spec)

    def serve_again(self) -> None:
        """The server started, and its driver with it if that is of an older host image."""
        if self._ports.volumes.has_older_driver(self._spec.name):
            self._ports.volumes.ensure_detached(self._spec.name)
        bring_up(self._ports, self._spec)

    def set_limits(self) -> None:
        administrator = self._administrator()
        if administrator is not None:
            limits = Limits(cpus=self._spec.cpus, memory_bytes=self._spec.memory_bytes)
            ensure_limits(administrator, self._ports.clock, limits)

    def set_pool(self) -> None:
        """The buffer pool, and what else follows from the limits and can be changed."""
        administrator = self._administrator()
        if administrator is None:
            return
        plan = self._work.plan()
        size_bytes = decide_live_pool(plan.settings, observe_pool(administrator), self._spec.name)
        self._set_options(administrator, plan)
        ensure_pool_size(administrator, self._ports.clock, size_bytes)

    def set_options(self) -> None:
        """All options but the pool that follow from the spec and can be changed."""
        administrator = self._administrator()
        if administrator is not None:
            self._set_options(administrator, self._work.plan())

    def _set_options(self, administrator: Administrator, plan: InstancePlan) -> None:
        spec = self._spec
        options = decide_live_options(spec.flavour, own_options(plan), spec.parameters)
        ensure_options(administrator, options)

    def check(self, name: str) -> None:
        check_option_file(self._work.host(), self._work.plan(), name, self._ports.clock)

    def remove_check(self) -> None:
        ensure_check_absent(self._work.host(), self._work.plan())

    def set_parameter(self, name: str, statement_value: str | None) -> None:
        administrator = self._administrator()
        if administrator is not None and statement_value is not None:
            ensure_options(administrator, {name: statement_value})

    def record(self) -> None:
        self._ports.records.change(self._spec.name, spec=self._spec)

    def record_pool(self) -> None:
        administrator = self._administrator()
        if administrator is not None:
            size_bytes = observe_pool(administrator).size_bytes
            self._ports.records.change(self._spec.name, buffer_pool_bytes=size_bytes)

    def write_config(self) -> None:
        plan = self._work.plan()
        self._work.host().write_file(plan.config_file, render_config(plan))

    def write_facts(self) -> None:
        self._work.write_facts()

    def write_pages(self) -> None:
        """So that the stop is short; a server that takes no statement is stopped all the same."""
        administrator = self._administrator()
        if administrator is not None:
            with passing_over_refusals():
                ensure_pages_written(administrator, self._ports.clock)

    def begin_binary_log(self) -> None:
        """A server that was killed reads the last one from its begin as it starts."""
        administrator = self._administrator()
        if administrator is not None and administrator.flavour == "mysql":
            with passing_over_refusals():
                administrator.query("FLUSH BINARY LOGS")

    def restore_page_writing(self) -> None:
        administrator = self._administrator()
        if administrator is not None:
            options = {**own_options(self._work.plan()), **self._spec.parameters}
            with passing_over_refusals():
                restore_page_writing(administrator, options)

    def set_parameter_or_restart(self, name: str, statement_value: str | None) -> None:
        """As `set_parameter`. A server that refuses is started again with its option file."""
        self._or_restart(lambda: self.set_parameter(name, statement_value))

    def set_limits_or_restart(self) -> None:
        """As `set_limits`. A server that refuses is started again, with these limits."""
        self._or_restart(self.set_limits)

    def set_pool_or_restart(self) -> None:
        """As `set_pool`. A server that refuses is started again, with this pool."""
        self._or_restart(self.set_pool)

    def _or_restart(self, change: Callable[[], None]) -> None:
        """An undo must not need a server that takes statements: the change may be why it does not.

        What is recorded, and the option file, are as they were before already.
        """
        try:
            change()
        except GrampusError as error:
            if error.code not in REFUSALS:
                raise
            self._work.stop_server()
            bring_up(self._ports, self._spec)

    def is_running(self) -> bool:
        """Whether the server runs."""
        host = self._ports.fleet.host(self._spec.host)
        return observe_daemon_state(host, server_daemon_name(self._spec.name)) == "running"

    def _administrator(self) -> Administrator | None:
        return administrator_of(self._ports, self._spec) if self.is_running() else None


def _limits_steps(ports: StepPorts, change: LimitsChange) -> list[Step]:
    """Room first and then what fills it; for less memory the other way round.

    The server never has a buffer pool that its memory limit does not hold. Undone in reverse,
    that holds too.
    """
    spec = change.changed
    work, former = LiveWork(ports, spec), LiveWork(ports, change.former)
    what = f"{format_cpus(spec.cpus)} and {format_bytes(spec.memory_bytes)} of memory"
    limits = Step(
        "limits", f"Limit the server to {what}", work.set_limits, former.set_limits_or_restart
    )
    pool = Step(
        "pool", "Resize the server's buffer pool", work.set_pool, former.set_pool_or_restart
    )
    grows = spec.memory_bytes >= change.former_memory_bytes
    live = [limits, pool] if grows else [pool, limits]
    note_pool = Step(
        "note-pool",
        "Record the size of the buffer pool",
        work.record_pool,
        lambda: ports.records.change(spec.name, buffer_pool_bytes=change.former_buffer_pool_bytes),
    )
    return [
        *([*live, note_pool] if change.running else []),
        *_kept_steps(work, former, f"{spec.name} has {what}", running=change.running),
    ]


def _parameter_steps(ports: StepPorts, change: ParameterChange) -> list[Step]:
    spec, name = change.changed, change.parameter
    work, former = LiveWork(ports, spec), LiveWork(ports, change.former)
    shown = spec.parameters.get(name, "as Grampus or the server has it")
    check = Step("check", "Check it with the server", lambda: work.check(name), work.remove_check)
    apply = Step(
        "apply",
        f"Set {name} in the running server",
        lambda: work.set_parameter(name, change.statement_value),
        lambda: former.set_parameter_or_restart(name, change.former_statement_value),
    )
    return [
        *([check] if change.checked else []),
        *([apply] if change.statement_value is not None else []),
        *_kept_steps(work, former, f"{name} is {shown}", running=change.running),
    ]


def _kept_steps(work: LiveWork, former: LiveWork, what: str, *, running: bool) -> list[Step]:
    """Where a change is kept: record, image, and the option file of a server that runs."""
    config = Step(
        "config", "Write it for the server's next start", work.write_config, former.write_config
    )
    return [
        Step("record", f"Record that {what}", work.record, former.record),
        *([config] if running else []),
        Step(
            "metadata",
            "Record it in the metadata of the image",
            work.write_facts,
            former.write_facts,
        ),
    ]


def _restart_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    """The volume stays attached, unless its driver is of an older host image.

    A server that does not come up again is left as it is: started once more, it would fail once
    more, and what ails it (a parameter) must be mended first.
    """
    work = LiveWork(ports, spec)
    return [
        Step(
            "flush",
            "Write changed pages to the volume",
            work.write_pages,
            work.restore_page_writing,
        ),
        Step("server", "Stop the server", DatabaseWork(ports, spec).stop_server),
        Step("serve", f"Start the {spec.flavour} server", work.serve_again),
    ]


SET_LIMITS = DatabaseOperation(
    kind="db.limits",
    what="change of memory and CPUs of the database",
    document=LimitsChange,
    build=_limits_steps,
    subject=lambda change: change.changed.name,
    when_cut_off="finish-or-undo",
)
SET_PARAMETER = DatabaseOperation(
    kind="db.parameter",
    what="change of a parameter of the database",
    document=ParameterChange,
    build=_parameter_steps,
    subject=lambda change: change.changed.name,
    when_cut_off="finish-or-undo",
)
RESTART = DatabaseOperation(
    kind="db.restart",
    what="restart of the database",
    document=DatabaseSpec,
    build=_restart_steps,
    subject=lambda spec: spec.name,
    when_cut_off="finish-or-undo",
)
