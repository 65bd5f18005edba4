"""Which GRAMPUS_HOME controls a site: the one that holds its last epoch.

Two of them would fence each other's databases and undo each other's operations. So each operation
begins with a look at the epochs in the cluster (`ceph/epoch_objects.py`), and each host refuses
commands of an earlier epoch than it has seen (`hosts/remote/epoch_guard.py`).

Failure and recovery: an epoch is created in the cluster before it is recorded here. One that a
killed command had created is known by nobody; the next `take_over` creates the one after it.
"""

from __future__ import annotations

import math
import platform
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from pydantic import ValidationError

from grampus.ceph.epoch_objects import epoch_prefix
from grampus.core.checks import Check
from grampus.core.clock import Clock, format_moment
from grampus.core.errors import GrampusError, SupersededError
from grampus.sites.model import EPOCH_RECORD, ControllerEpoch
from grampus.state.home import read_if_there
from grampus.state.store import Store

_MOST_ATTEMPTS = 10
_MACHINE_ID = Path("/etc/machine-id")

Control = Literal["own", "free", "other", "gone"]
# When this process last saw that an epoch (by its id) is the last one: monotonic seconds.
_seen_s: dict[str, float] = {}


@dataclass(frozen=True)
class Machine:
    """The machine that Grampus runs on."""

    name: str
    id: str  # of machine-id(5); empty: it has none


class Epochs(Protocol):
    """As `EpochObjects`."""

    def find(self, first: int) -> str | None: ...

    def create(self, number: int, text: str) -> bool: ...

    def remove_all(self) -> None: ...


def observe_machine() -> Machine:
    """This machine."""
    return Machine(platform.node() or "unknown", (read_if_there(_MACHINE_ID) or "").strip())


def decide_control(
    own: ControllerEpoch | None, last: ControllerEpoch | None, machine: Machine
) -> Control:
    """Who controls a site by the last epoch, which is looked for from our own on.

    Our record on another machine is a copy of that machine's state, which may still be in use.
    """
    if last is None:
        return "free" if own is None else "gone"
    if own is None or own.id != last.id or own.machine_id != machine.id:
        return "other"
    return "own"


class SiteController:
    """The epochs of one site, as this GRAMPUS_HOME sees them.

    `epochs` connects to the cluster, which is done only when it must be asked.
    """

    def __init__(
        self,
        store: Store,
        site: str,
        epochs: Callable[[], Epochs],
        clock: Clock,
        machine: Machine | None = None,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._site = site
        self._epochs = epochs
        self._clock = clock
        self._machine = machine or observe_machine()
        self._monotonic_s = monotonic_s

    def own(self) -> ControllerEpoch | None:
        """The epoch that this home holds, or held."""
        return self._store.get(EPOCH_RECORD, self._site, self._site, ControllerEpoch)

    def require(self, seen_within_s: float = 0.0) -> None:
        """Raise SupersededError when another home controls the site.

        The cluster is not asked if this process has seen `seen_within_s` ago or later that this
        home does. A site that nobody controls is controlled from here on. Raises GrampusError when
        the cluster does not say.
        """
        own, now_s = self.own(), self._monotonic_s()
        if own is not None and now_s < _seen_s.get(own.id, -math.inf) + seen_within_s:
            return
        last = self._find(1 if own is None else own.number)
        control = decide_control(own, last, self._machine)
        if control == "free":
            own, last = self._create(1)
            control = decide_control(own, last, self._machine)
        if control == "gone":
            raise SupersededError(
                f"The cluster has no record of who controls the site '{self._site}': the site was "
                "forgotten on another machine.",
                f"`grampus site adopt {self._site} --conf FILE --keyring FILE` adopts it again.",
            )
        if last is not None and control == "other":
            raise self._superseded(last)
        if own is not None:
            _seen_s[own.id] = now_s

    def ensure_held(self) -> Check:
        """Control the site if nobody does, as at its adoption; who controls it then."""
        own, last = self.own(), self._find(1)
        if last is None:
            own, last = self._create(1 if own is None else own.number + 1)
        return self._describe(own, last)

    def check(self) -> Check:
        """Who controls the site."""
        own = self.own()
        return self._describe(own, self._find(1))

    def is_other(self) -> bool:
        """Whether another home controls the site."""
        own = self.own()
        last = self._find(1)
        return last is not None and decide_control(own, last, self._machine) == "other"

    def take_over(self) -> ControllerEpoch:
        """A later epoch than all others, held by this home: every other one is superseded.

        Raises SupersededError when others do so all the time, GrampusError when the cluster does
        not take it.
        """
        own, last = self.own(), self._find(1)
        number = max(0 if one is None else one.number for one in (own, last)) + 1
        for _ in range(_MOST_ATTEMPTS):
            own, last = self._create(number)
            if own is not None and last is not None and own.id == last.id:
                return own
            number = number + 1 if last is None else last.number + 1
        raise SupersededError(
            f"Other machines take over the site '{self._site}' at the same time.",
            "Decide which of them is to control it, then try again.",
        )

    def forget(self) -> None:
        """Remove what the cluster knows of the epochs. The caller knows that no other home holds
        the last one."""
        self._epochs().remove_all()

    # -- inside -------------------------------------------------------------------------------

    def _find(self, first: int) -> ControllerEpoch | None:
        text = self._epochs().find(first)
        if text is None:
            return None
        try:
            return ControllerEpoch.model_validate_json(text)
        except ValidationError as error:
            raise GrampusError(
                f"The last controller epoch of the site '{self._site}' in the cluster is damaged.",
                f"`rados ls` shows the objects {epoch_prefix(self._site)}NUMBER. If nobody "
                "else uses the site, remove the last one.",
                code="epoch-damaged",
            ) from error

    def _create(self, number: int) -> tuple[ControllerEpoch | None, ControllerEpoch | None]:
        """Our own epoch, if it was created and recorded, and the last one."""
        epoch = ControllerEpoch(
            number=number,
            id=secrets.token_hex(8),
            machine=self._machine.name,
            machine_id=self._machine.id,
            since=self._clock.now(),
        )
        self._epochs().create(number, epoch.model_dump_json())
        # Asked also when it was there: its creation may have been answered to a lost connection.
        last = self._find(number)
        if last is not None and last.id == epoch.id:
            self._store.put(EPOCH_RECORD, self._site, self._site, epoch, is_noted=False)
        return self.own(), last

    def _describe(self, own: ControllerEpoch | None, last: ControllerEpoch | None) -> Check:
        if last is None:
            return Check("controller", "ok", f"No Grampus controls the site '{self._site}' yet.")
        if decide_control(own, last, self._machine) == "own":
            return Check(
                "controller", "ok", f"This GRAMPUS_HOME controls the site (epoch {last.number})."
            )
        refused = self._superseded(last)
        return Check("controller", "warning", refused.problem, refused.remedy)

    def _superseded(self, last: ControllerEpoch) -> SupersededError:
        where = (
            "another GRAMPUS_HOME on this machine"
            if last.machine_id == self._machine.id and last.machine == self._machine.name
            else last.machine
        )
        return SupersededError(
            f"The site '{self._site}' is controlled from {where} (epoch {last.number}, since "
            f"{format_moment(last.since)}).",
            f"Run the command there. If that machine is lost, `grampus state rebuild --site "
            f"{self._site}` takes over the site: hosts then refuse commands from there.",
        )
