"""The generation of a control state, noted with the MONs; it reveals a copy that was put back."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ValidationError

from grampus.ceph.cluster import CephCluster
from grampus.ceph.mon_commands import ask_mons
from grampus.core.errors import GrampusError, RefusedError
from grampus.state.generation import Generation, StateAge, StateGeneration, decide_age


def generation_key(lab: str) -> str:
    """The key of the MONs' own store that the generation of the state of `lab` is kept under."""
    return f"grampus/{lab}/generation"


def find_state_note(cluster: CephCluster, lab: str) -> Generation | None:
    """What was noted last; None: nothing.

    Raises GrampusError when the cluster does not say, with code `state-note` when it cannot be
    read.
    """
    key = generation_key(lab)
    result = ask_mons(cluster.runner, "config-key get", key=key, check=False)
    if result.returncode != 0:
        if "ENOENT" in result.stderr:
            return None
        # Once more, so that the runner raises its own error.
        result = ask_mons(cluster.runner, "config-key get", key=key)
    try:
        return Generation.model_validate_json(result.stdout)
    except ValidationError as error:
        raise GrampusError(
            f"The value of {key} in the MONs is not a generation of a state of Grampus.",
            f"`ceph config-key get {key}` shows it. If nobody else needs it, `ceph config-key rm "
            f"{key}` removes it.",
            code="state-note",
        ) from error


def write_state_note(cluster: CephCluster, lab: str, text: str) -> None:
    """Note it instead of what was noted before."""
    ask_mons(cluster.runner, "config-key set", key=generation_key(lab), val=text)


def ensure_state_note_absent(cluster: CephCluster, lab: str) -> None:
    """Nothing is noted any more."""
    ask_mons(cluster.runner, "config-key rm", key=generation_key(lab))


class StateWatch:
    """Tells whether a state is the newest that the cluster of a lab has seen."""

    def __init__(
        self,
        generation: StateGeneration,
        lab: str,
        cluster: Callable[[], CephCluster],
        *,
        is_always_current: bool = False,
    ) -> None:
        """The cluster is made when it is asked; never about a state that `is_always_current`."""
        self._is_always_current = is_always_current
        self._generation = generation
        self._lab = lab
        self._cluster = cluster
        self._was_current = False

    def is_known(self) -> bool:
        """Whether nothing was put back since the cluster was last asked; it is not asked now."""
        return self._is_always_current or self._generation.is_known(self._lab)

    def ask(self) -> StateAge:
        """Ask the cluster. Raises GrampusError when it does not say."""
        if self._is_always_current:
            return "current"
        noted = find_state_note(self._cluster(), self._lab)
        age = decide_age(self._generation.current(), noted)
        if age == "current":
            self._generation.confirm(self._lab)
            self._was_current = True
        else:
            self._generation.doubt()
        return age

    def require_current(self) -> None:
        """Ask once. Raises RefusedError with code `state-older`, and what `ask` raises."""
        if not self._was_current and self.ask() == "older":
            raise RefusedError(
                "The state of Grampus is older than the record in the cluster of "
                f"'{self._lab}': a copy of the state was restored. Operations in the state "
                "are neither finished nor undone.",
                "`grampus db list` compares the state with the cluster and corrects the "
                "state. End a running `grampus serve` first.",
                code="state-older",
            )

    def take_over(self) -> None:
        """From now on this state is the newest, and every other one is older.

        Raises GrampusError when the cluster does not take it.
        """
        cluster = self._cluster()
        noted = find_state_note(cluster, self._lab)
        generation = self._generation.renew(0 if noted is None else noted.number)
        write_state_note(cluster, self._lab, generation.model_dump_json())
        self._generation.confirm(self._lab)
        self._was_current = True
