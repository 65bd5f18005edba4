"""An option file that the server itself checks, in a daemon of its own beside the one that serves.

Its own, because the check takes about 55 MiB (measured): inside the serving daemon's memory limit
it could end the server.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError, UsageError
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import CHECKED, InstancePlan, check_daemon, render_config
from grampus.databases.live.decide_parameters import classify_check
from grampus.hosts.port import Host

CHECK_TIMEOUT_S = 60.0


def check_option_file(host: Host, plan: InstancePlan, parameter: str, clock: Clock) -> None:
    """The plan's option file, with `parameter` in it, is one that its server would start with.

    Raises UsageError with code `invalid-value` when it refuses the parameter or would change its
    value, GrampusError with code `check-failed` when it refuses something else.
    """
    daemon = check_daemon(plan, _file(plan))
    host.write_file(_file(plan), render_config(plan))
    host.ensure_daemon_absent(daemon.name, kill=True)  # of a check that was cut off
    host.ensure_daemon(daemon)
    wait_until(
        clock,
        lambda: observe_daemon_state(host, daemon.name) != "running",
        what=f"the server to check the parameters of {plan.database}",
        timeout_s=CHECK_TIMEOUT_S,
        interval_s=0.05,
    )
    log = host.daemon_log(daemon.name, last_lines=100)
    ensure_check_absent(host, plan)
    said = classify_check(parameter, log)
    if said is not None:
        raise UsageError(
            f"The server of {plan.database} refuses the parameter {parameter} = "
            f"{plan.parameters[parameter]}: {said}.",
            "Choose a valid value. Nothing was changed: `grampus db parameter list "
            f"{plan.database} --all` shows the current value.",
            code="invalid-value",
        )
    if CHECKED not in log:
        raise GrampusError(
            f"The server of {plan.database} would not start with its parameters: "
            f"{' / '.join(log.splitlines()[-2:]) or 'it wrote no message'}.",
            f"`grampus db parameter list {plan.database}` shows the parameters. Reset the "
            "wrong ones.",
            code="check-failed",
        )


def ensure_check_absent(host: Host, plan: InstancePlan) -> None:
    """Nothing left of a check."""
    host.ensure_daemon_absent(check_daemon(plan, _file(plan)).name, kill=True)
    host.run(["rm", "-f", str(_file(plan))])


def _file(plan: InstancePlan) -> PurePosixPath:
    return plan.directory / "check.cnf"
