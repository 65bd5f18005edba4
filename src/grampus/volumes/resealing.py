"""A new master key, and the keys of all volumes sealed with it, while they are used.

A volume's own key stays as it is, so nothing is opened again and nothing waits. The former master
key is kept: the manifests of older backups are sealed with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import ConfigDict

from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_facts import ImageFact, exchange_fact, observe_fact
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.models import Model
from grampus.operations.operation_type import OperationType
from grampus.operations.runner import OperationRunner, Subject
from grampus.state.home import Home
from grampus.state.locks import hold_lock
from grampus.state.operations import Operation, Step
from grampus.volumes import kinds
from grampus.volumes.decide_encryption import KEY_FACT
from grampus.volumes.decide_sealed import SealedImages, classify_sealed
from grampus.volumes.operations import VolumeOperations
from grampus.volumes.records import VolumeRecords
from grampus.volumes.trash import TrashedVolume
from grampus.volumes.volume_keys import (
    MasterKey,
    MasterKeys,
    seal_volume_key,
    unseal_volume_key,
)

_SUBJECT = "volumes"
_KEYS_LOCK = "volume-keys"


class RotateMasterOrder(Model):
    """A rotation as it is journaled. It holds no key: the state is no secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key_id: str  # that is used from then on


@dataclass(frozen=True)
class RotatedMaster:
    """What a rotation came to."""

    key: MasterKey
    resealed: int  # images that it sealed anew
    sealed: SealedImages  # all of them, as they are now; none with a former key


class Resealing:
    """Master keys of a home or site, and the volumes of one lab or cluster that they seal."""

    def __init__(
        self,
        home: Home,
        runner: OperationRunner,
        clock: Clock,
        cluster: CephCluster,
        records: VolumeRecords,
        keys: MasterKeys,
        trashed: Callable[[], Sequence[TrashedVolume]],
        operations: VolumeOperations,
    ) -> None:
        self._home = home
        self._runner = runner
        self._clock = clock
        self._cluster = cluster
        self._records = records
        self._keys = keys
        self._trashed = trashed
        self._operations = operations
        self._resealed = 0

    def observe(self) -> SealedImages:
        """What is sealed with which key now."""
        volumes = self._records.names_of_images()
        trashed = {one.image_id: one.record.spec.name for one in self._trashed()}
        images = observe_fact(self._cluster, KEY_FACT)
        current = self._keys.find_current()
        current_id = "" if current is None else current.id
        return classify_sealed(images, volumes, trashed, current_id, self._keys.ids())

    def rotate(self, *, makes_key: bool) -> RotatedMaster:
        """A new master key, unless it shall not be made, and every volume sealed with it.

        One that was cut off is gone on with, with its key. Raises NotFoundError with code
        `no-volume-key` while there is none, RefusedError with code `busy` while another runs, and
        GrampusError with code `sealed-before` when volumes could not be sealed: others worked on
        them, or they migrate.
        """
        # A site has none of its own while its volumes are sealed with that of a home.
        if not makes_key or not self._keys.ids():
            self._current()
        with hold_lock(self._home, _KEYS_LOCK, self._clock):
            operation = self._find_cut_off()
            self._runner.propose(lambda: self._plan(makes_key=makes_key and operation is None))
            if operation is None:
                key = self._keys.ensure_next() if makes_key else self._current()
                order = RotateMasterOrder(key_id=key.id)
                operation = self._runner.begin(ROTATE_MASTER, self, order, Subject(_SUBJECT))
            order = ROTATE_MASTER.parse(operation.spec)
            self._resealed = 0
            checked: list[SealedImages] = []
            steps = self.steps(order.key_id, checked=checked)
            self._runner.apply(operation, ROTATE_MASTER, self, order, steps=steps)
            return RotatedMaster(self._current(), self._resealed, checked[-1])

    def _plan(self, *, makes_key: bool) -> list[str]:
        sealed = self.observe()
        count = len(sealed.former) + (len(sealed.current) if makes_key else 0)
        titles = [step.title for step in self.steps("", count)]
        return titles if makes_key else titles[1:]

    def steps(
        self, key_id: str, count: int | None = None, checked: list[SealedImages] | None = None
    ) -> list[Step]:
        """The steps of a rotation to that key; `count` images are to be sealed, if that is known.

        What the last one finds is added to `checked`.
        """
        images = "every volume's key" if count is None else f"the keys of {count} images"

        def check() -> None:
            sealed = self._check()
            if checked is not None:
                checked.append(sealed)

        return [
            Step(
                "key",
                "Create a new master key, and use it for new volumes; the former keys are kept",
                lambda: self._keys.settle_next(key_id),
            ),
            Step(
                "seal",
                f"Seal {images} with the new master key, also those in the trash",
                self._seal,
            ),
            Step("check", "Check whether a key is still sealed with a former master key", check),
        ]

    def _seal(self) -> None:
        for volume, image in self.observe().former:
            try:
                with self._operations.locked(volume):
                    self._seal_image(volume, image)
            except RefusedError as error:
                if error.code != "busy":
                    raise  # one that others work on is named by the check

    def _seal_image(self, volume: str, image: ImageFact) -> None:
        # An abort of a migration brings back the metadata that its source had.
        if not image.in_trash and self._operations.find(volume, kinds.MIGRATE) is not None:
            return
        sealed = seal_volume_key(unseal_volume_key(image.fact, self._keys), self._current())
        exchange_fact(self._cluster, image, KEY_FACT, sealed)
        self._resealed += 1

    def _check(self) -> SealedImages:
        sealed = self.observe()
        left = sealed.former
        if left:
            names = ", ".join(sorted({volume for volume, _ in left}))
            raise GrampusError(
                f"Some keys are still sealed with a former master key: {names}. Other "
                "commands use these volumes, or they migrate.",
                f"All keys are still readable. Run `grampus volume key rotate{self._keys.option}` "
                "again later: it continues with the same key.",
                code="sealed-before",
            )
        return sealed

    def _find_cut_off(self) -> Operation | None:
        return next(iter(self._runner.unfinished(ROTATE_MASTER.kind)), None)

    def _current(self) -> MasterKey:
        found = self._keys.find_current()
        if found is None:
            raise NotFoundError(
                "There is no master key of volumes yet.",
                "The first encrypted volume creates one.",
                code=self._keys.kind.code,
            )
        return found


ROTATE_MASTER = OperationType[Resealing, RotateMasterOrder](
    "master-key.rotate",
    "rotation of the master key of",
    document=RotateMasterOrder,
    build=lambda resealing, order: resealing.steps(order.key_id),
    subject=lambda _order: _SUBJECT,
    when_cut_off="finish",
)
