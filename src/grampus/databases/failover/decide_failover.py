"""Whether a database may be taken away from its host, and where it goes. All pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grampus.core.clock import format_duration
from grampus.core.errors import RefusedError, UsageError
from grampus.databases.model import DatabaseSpec
from grampus.databases.placement import HostLoad, explain_unusable, order_usable


@dataclass(frozen=True)
class HostSigns:
    """What is seen of a database at its host."""

    reachable: bool  # commands can be run there
    server_running: bool = False  # of one that can be reached
    volume_alive: bool = False  # of one that can be reached
    answers_clients: bool = False  # somebody listens at the database's address

    @property
    def serves(self) -> bool:
        """Whether the host may serve the database still."""
        return self.server_running or self.volume_alive or self.answers_clients


def require_lost(spec: DatabaseSpec, signs: HostSigns, *, shall_run: bool, forced: bool) -> None:
    """Raise RefusedError with code `host-answers` or `still-serving` unless its host is lost.

    A host that can be reached, and on which neither server nor volume is alive, cannot serve the
    database: that is as good as lost for a database that shall run.
    """
    if forced:
        return
    name, host = spec.name, spec.host
    if signs.reachable and (signs.serves or not shall_run):
        raise RefusedError(
            f"The host {host} answers, so the database {name} needs no failover.",
            f"`grampus db move {name} --host HOST` moves it without a loss, and `grampus db "
            f"restart {name}` restarts a server that hangs. --force takes the database from "
            f"{host} anyway.",
            code="host-answers",
        )
    if signs.serves:
        raise RefusedError(
            f"The host {host} cannot be reached, but the database {name} still answers clients at "
            f"{spec.address}:{spec.port}.",
            f"Check the network between this machine and {host}. --force takes the database "
            f"from {host} anyway: its sessions end.",
            code="still-serving",
        )


def require_consent(
    spec: DatabaseSpec, needed_log: str | None, target: str, *, accepts_loss: bool
) -> int | None:
    """How many milliseconds of commits may be lost; None: nothing that was acknowledged is.

    `needed_log` is the host whose log may hold commits that the cluster lacks. Raises RefusedError
    with code `may-lose` when that is not accepted.
    """
    if needed_log is None or needed_log == target:
        return None
    if not accepts_loss:
        raise RefusedError(
            f"The database {spec.name} has the write path cache: the log on {needed_log} may "
            f"have commits of its last {format_duration(spec.max_lag_ms / 1000)} that the "
            "cluster lacks. The failover loses them.",
            f"If {needed_log} can come back soon, wait for it. To accept the loss, add "
            f"--accept-loss: `grampus db failover {spec.name} --accept-loss`.",
            code="may-lose",
        )
    return spec.max_lag_ms


def decide_outcome(phases_ms: Mapping[str, int], detected_ms: int | None) -> dict[str, Any]:
    """What the history keeps of a failover: when each phase was over, in ms.

    Counted from the first sign of the loss (`detected_ms` before the decision); None: there was
    none, a user decided.
    """
    if detected_ms is None:
        return {"phases_ms": dict(phases_ms)}
    later = {phase: detected_ms + passed_ms for phase, passed_ms in phases_ms.items()}
    return {"phases_ms": {"detected": detected_ms, **later}}


def describe_phases(phases_ms: Mapping[str, int]) -> str:
    """Phases in words, such as `detected after 3.7 s, fenced after 4.1 s`."""
    passed = {phase: format_duration(ms / 1000) for phase, ms in phases_ms.items()}
    return ", ".join(f"{phase} after {after}" for phase, after in passed.items())


def decide_targets(loads: Sequence[HostLoad], former: str, asked: str | None) -> list[str]:
    """The hosts to try, the best first: the one asked for, or those with the fewest databases.

    Raises UsageError when it is asked to stay where it is, RefusedError with code `no-host`.
    """
    if asked is not None:
        if asked == former:
            raise UsageError(
                f"The database already runs on {former}.", "Choose another host with --to."
            )
        return [asked]
    others = [load for load in loads if load.name != former]
    usable = order_usable(others)
    if not usable:
        raise RefusedError(
            explain_unusable(others, former),
            "Start another host, or end its maintenance (`grampus host list` shows the hosts), "
            "then try again.",
            code="no-host",
        )
    return usable
