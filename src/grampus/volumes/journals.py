"""Journals of volumes that nobody serves: brought into the image, or removed with it.

volumed does both, as a command on any host that can be reached, and as the volume's own user: so
a fence of the volume hits it too. While it works, the volume's record names the host, as while a
volume is being attached: whoever finds it cut off knows where to clear up.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ConfigDict, ValidationError

from grampus.ceph.rbd import RbdImages
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.models import Model
from grampus.hosts.port import Fleet, Host, HostUnreachableError
from grampus.state.operations import Step
from grampus.volumes import journal_damage
from grampus.volumes.attaching import Attacher
from grampus.volumes.decide_identity import is_same_volume
from grampus.volumes.decide_local_log import (
    decide_replay_hosts,
    find_current_log,
    note_opened,
)
from grampus.volumes.drivers.volumed import (
    VolumedProgram,
    key_file_options,
    last_line,
)
from grampus.volumes.live import parse_result
from grampus.volumes.local_logs import is_local_directory, local_directory
from grampus.volumes.model import VolumeRecord, VolumeSpec
from grampus.volumes.records import VolumeRecords
from grampus.volumes.write_paths import describe_written

REPLAY_TIMEOUT_S = 600.0
REMOVE_TIMEOUT_S = 120.0


class Replayed(Model):
    """What a replay brought into the image; nothing when there was nothing to bring."""

    model_config = ConfigDict(frozen=True)

    replayed_frames: int = 0
    replayed_bytes: int = 0  # as they lay in the journal
    given_up: str | None = None  # what a damaged journal has lost, if that was accepted


class ReplayOrder(Model):
    """A replay as it is journaled."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    host: str  # where volumed runs for it
    accept_loss: bool = False  # of what a damaged journal has lost


class MoveJournalOrder(VolumeSpec):
    """A change of the pool of a journal, as it is journaled: the volume as it shall be."""

    former: str | None  # where its journal was; None: the pool of the image

    def spec(self) -> VolumeSpec:
        """The volume as it shall be."""
        return VolumeSpec.model_validate(self.model_dump(exclude={"former"}))


class Journals:
    """The journals of the volumes of one lab or cluster."""

    def __init__(
        self,
        records: VolumeRecords,
        fleet: Fleet,
        images: RbdImages,
        attacher: Attacher,
        program: VolumedProgram,
    ) -> None:
        self._records = records
        self._fleet = fleet
        self._images = images
        self._attacher = attacher
        self._program = program

    def plan_replay(self, name: str, *, accept_loss: bool = False) -> ReplayOrder | None:
        """Where the journal would be replayed; None when it holds nothing.

        `accept_loss`: a damaged journal is replayed up to the damage, and the rest is given up.

        Raises NotFoundError, RefusedError with code `attached`, HostUnreachableError, and
        GrampusError with code `no-volumed`.
        """
        record = self._records.get(name)
        require_detached(record, "the detach applies its journal")
        if not self._attacher.observe_journal(record.spec).is_unapplied:
            return None
        self._attacher.require_volumed("journal")
        host = self._choose_host(record).name
        return ReplayOrder(name=name, host=host, accept_loss=accept_loss)

    def replay_steps(self, order: ReplayOrder, keep: Callable[[Replayed], None]) -> list[Step]:
        """The replay, whose outcome goes to `keep`.

        Undone, it leaves nothing on the host. What it had brought into the image stays there,
        and the journal says whether more is to come.
        """
        return [
            Step(
                "replay",
                f"Apply the journal of '{order.name}', from {order.host}",
                lambda: keep(self._replay(order)),
                lambda: self._attacher.detach(order.name),
            ),
            Step(
                "clear",
                f"Remove the remains on {order.host}",
                lambda: self._attacher.detach(order.name),
            ),
        ]

    def ensure_replayed(self, name: str) -> None:
        """What the journal of a detached volume holds, in its image; the caller journals that.

        Raises what `plan_replay` raises, and GrampusError with code `volumed-failed`.
        """
        order = self.plan_replay(name)
        if order is not None:
            for step in self.replay_steps(order, lambda _: None):
                step.apply()

    def ensure_removed(self, name: str) -> None:
        """Remove the journal of a detached volume whose image is to go.

        Raises HostUnreachableError, GrampusError with code `no-volumed` or `volumed-failed`.
        """
        record = self._records.find(name)
        if record is None or self._images.find(record.spec.pool, record.spec.image) is None:
            return
        if not self._attacher.observe_journal(record.spec).has_objects:
            return
        self._attacher.require_volumed("journal")
        # What a log on a host holds goes with the image: the tool does not get it.
        # Nor of the key: a volume whose key is lost can be deleted.
        host = self._any_host()
        self._run(record, host, ["remove-journal"], "removed", REMOVE_TIMEOUT_S)
        self._attacher.detach(name)

    def move_steps(self, order: MoveJournalOrder) -> list[Step]:
        """The change of the pool of a journal; each step may be repeated, and none is undone.

        The next attach begins a journal in the new pool.
        """
        name, spec = order.name, order.spec()
        return [
            Step(
                "replay",
                f"Apply the journal of '{name}' to its image, if it has one",
                lambda: self._if_same(spec, lambda: self._bring_in(name)),
            ),
            Step(
                "remove",
                f"Remove the journal from the pool '{order.former or spec.pool}'",
                lambda: self._if_same(spec, lambda: self._remove(name)),
            ),
            Step(
                "record",
                f"Set the write path of the volume to {describe_written(spec)}",
                lambda: self._if_same(spec, lambda: self._record(spec)),
            ),
        ]

    def _bring_in(self, name: str) -> None:
        self._attacher.detach(name)  # a replay that was cut off has left its traces on a host
        self.ensure_replayed(name)

    def _remove(self, name: str) -> None:
        self._attacher.detach(name)
        self.ensure_removed(name)

    def _record(self, spec: VolumeSpec) -> None:
        record = self._records.get(spec.name).model_copy(update={"spec": spec})
        self._attacher.ensure_client(record)
        self._records.put(record)

    def _if_same(self, spec: VolumeSpec, change: Callable[[], None]) -> None:
        """Change the volume, unless another one has its name by now."""
        record = self._records.find(spec.name)
        if record is not None and is_same_volume(record.spec, spec):
            change()

    def _replay(self, order: ReplayOrder) -> Replayed:
        record, host = self._records.get(order.name), self._fleet.host(order.host)
        argv = ["replay", *(["--accept-damage"] if order.accept_loss else [])]
        if is_local_directory(host, order.name):
            argv += ["--local-dir", str(local_directory(host, order.name))]
            record = note_opened(record, host.name, has_log=True)
        with self._attacher.key_on(host, record) as key_file:
            argv += key_file_options(key_file)
            said = self._run(record, host, argv, "applied", REPLAY_TIMEOUT_S)
        try:
            return Replayed.model_validate(parse_result(said))
        except ValidationError as error:
            raise GrampusError(
                f"The answer of volumed is not valid: {said[:200]!r}.",
                "Run `make setup` in a checkout, or install the package of Grampus again.",
                code="volumed-answer",
            ) from error

    def _run(
        self, record: VolumeRecord, host: Host, command: list[str], done: str, timeout_s: float
    ) -> str:
        """What a `command` of volumed on the image prints. Raises GrampusError `volumed-failed`."""
        record = record.model_copy(update={"host": host.name})
        self._records.put(record)
        self._attacher.require_unlocked(record)
        self._attacher.write_keyring(record, host)
        image = f"{record.spec.pool}/{record.spec.image}"
        argv = [
            str(self._program.ensure_on(host)),
            command[0],
            *("--image", image),
            *("--user", record.ceph_user),
            *("--conf", "/etc/ceph/ceph.conf"),
            *command[1:],
        ]
        # timeout(1) ends it on the host too, with code 124.
        limited = ["timeout", f"{timeout_s:g}", *argv]
        result = host.run(limited, check=False, timeout_s=timeout_s + 10)
        if result.returncode != 0:
            raise _explain_failure(record.spec.name, image, host, done, last_line(result))
        return result.stdout

    def _choose_host(self, record: VolumeRecord) -> Host:
        """Where the log is, if one is needed. Raises HostUnreachableError."""
        name, log = record.spec.name, find_current_log(record)
        if log is not None:
            if self._fleet.is_reachable(log.host):
                return self._fleet.host(log.host)
            raise HostUnreachableError(
                f"The host {log.host} cannot be reached, and its log of the volume '{name}' "
                "may have commits that the cluster lacks.",
                f"Start {log.host} again. If it is lost, discard the log: `grampus volume "
                f"fence {name}`.",
            )
        for fenced in decide_replay_hosts(record):
            if self._fleet.reaches_cluster(fenced):
                return self._fleet.host(fenced)
        return self._any_host()

    def _any_host(self) -> Host:
        for host in self._fleet.hosts():
            if self._fleet.reaches_cluster(host.name):
                return host
        raise HostUnreachableError(
            "No host of the cluster can be reached.",
            "`grampus host list` shows the state of the hosts.",
        )


def _explain_failure(name: str, image: str, host: Host, done: str, said: str) -> GrampusError:
    problem = f"The journal of {image} could not be {done} on {host.name}: {said}"
    if journal_damage.is_damage(said):
        return GrampusError(problem, journal_damage.explain_remedy(name), code=journal_damage.CODE)
    return GrampusError(
        problem,
        "No data of the journal is lost. Fix the error above, then try again.",
        code="volumed-failed",
    )


def require_detached(record: VolumeRecord, why: str) -> None:
    """Raise RefusedError with code `attached` when the volume is attached, or half so.

    `why` ends the sentence, after a colon.
    """
    if record.host is not None:
        name = record.spec.name
        raise RefusedError(
            f"The volume '{name}' is attached to {record.host}: {why}.",
            f"Detach the volume: `grampus volume detach {name}`; for a database: `grampus db "
            f"stop {name}`.",
            code="attached",
        )
