"""The keys that seal backups."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from grampus.state.keys import KeptKey, KeptKeys, KeyKind


class BackupKey(KeptKey):
    """What the data, the manifests and the binary logs of backups are sealed with."""

    KIND: ClassVar[KeyKind] = KeyKind(
        file_word="grampus-backup-key-1",
        id_purpose="grampus backup key id",
        what="backup key",
        code="no-backup-key",
        command="grampus db backup key",
        made_where="where the backup was taken",
    )


class BackupKeys(KeptKeys[BackupKey]):
    """The backup keys of one home."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, BackupKey)
