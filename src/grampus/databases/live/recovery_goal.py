"""A change of a database's recovery goal, as a list of steps."""

from __future__ import annotations

from grampus.databases.administrator import passing_over_refusals
from grampus.databases.changes import record_step
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.live.decide_recovery_goal import describe_recovery_goal
from grampus.databases.live.live_changes import LiveWork
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step


def _steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    goal = describe_recovery_goal(spec)
    said = "no recovery goal" if goal is None else f"the recovery goal {goal}"
    return [
        record_step(ports, spec, f"{spec.name} has {said}"),
        Step(
            "server",
            "Set its redo log and changed pages in the server",
            lambda: _ensure_running_options(ports, spec),
        ),
    ]


def _ensure_running_options(ports: StepPorts, spec: DatabaseSpec) -> None:
    """A server that does not run, or takes no statement, has the new size from its next start."""
    work = LiveWork(ports, spec)
    if ports.fleet.is_reachable(spec.host) and work.is_running():
        work.write_config()
        with passing_over_refusals():
            work.set_options()


SET_RECOVERY_GOAL = DatabaseOperation(
    kind="db.recovery-goal",
    what="change of the recovery goal of the database",
    document=DatabaseSpec,
    build=_steps,
    subject=lambda spec: spec.name,
    when_cut_off="finish",
    goes_with_database=True,
)
