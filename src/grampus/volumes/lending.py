"""Lending a volume's image: opened by a client of the host that no driver here starts.

A virtual machine opens its disk itself. The volume's record names the host meanwhile, without an
attachment, as while a volume is being attached: nobody attaches it elsewhere, and detaching it,
or removing the volume, clears up what lending left.
"""

from __future__ import annotations

from grampus.core.errors import RefusedError
from grampus.hosts.port import Fleet, HostUnreachableError
from grampus.volumes.attaching import Attacher
from grampus.volumes.model import VolumeRecord
from grampus.volumes.operations import VolumeOperations
from grampus.volumes.records import VolumeRecords


class Lending:
    """Images of the volumes of one lab or cluster for clients of their own."""

    def __init__(
        self,
        records: VolumeRecords,
        fleet: Fleet,
        attacher: Attacher,
        operations: VolumeOperations,
    ) -> None:
        self._records = records
        self._fleet = fleet
        self._attacher = attacher
        self._operations = operations

    def lend(self, name: str, host: str) -> VolumeRecord:
        """The volume, whose image a client on `host` may open now with the key that lies there.

        `VolumeService.ensure_detached` ends it, once that client has ended. Nothing happens when
        it is lent there already. Raises NotFoundError, HostUnreachableError, and RefusedError with
        code `cannot-lend` for what the client would read wrongly, `attached-elsewhere`, or
        `in-use` while somebody has it open.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            record = self._records.get(name)
            target = self._fleet.host(host)
            if not self._fleet.is_reachable(host):
                raise HostUnreachableError(
                    f"The host {host} cannot be reached.",
                    f"Start {host} again, or choose another host.",
                )
            self._require_plain(record)
            if record.attachment is not None or record.host not in (None, host):
                raise RefusedError(
                    f"The volume '{name}' is attached to {record.host}.",
                    f"Detach the volume first: `grampus volume detach {name}`.",
                    code="attached-elsewhere",
                )
            # The intent first: whoever finds it half done knows where to clear up.
            record = record.model_copy(update={"host": host})
            self._records.put(record)
            self._attacher.require_unlocked(record)
            self._attacher.write_keyring(record, target)
            return record

    def _require_plain(self, record: VolumeRecord) -> None:
        spec = record.spec
        if spec.encryption is not None:
            why = "is encrypted, and only volumed decrypts it"
        elif spec.write_path != "direct" or self._attacher.observe_journal(spec).is_unapplied:
            why = "has a journal, and only volumed can read it"
        elif spec.external_log_bytes is not None:
            why = "has a file system with an external log, and only volumed serves it"
        elif not record.is_formatted:
            why = "has no file system yet"
        else:
            return
        raise RefusedError(
            f"The volume '{record.spec.name}' {why}.",
            "Choose a volume with the write path direct and without encryption that has been "
            "attached before.",
            code="cannot-lend",
        )
