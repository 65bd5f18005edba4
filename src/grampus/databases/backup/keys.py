"""The keys that seal backups."""

from __future__ import annotations

from typing import ClassVar

from grampus.state.home import Home
from grampus.state.keys import KeptKey, KeptKeys, KeyKind, open_keys

_DIRECTORY = "backup.keys"


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


BackupKeys = KeptKeys[BackupKey]


def backup_keys(home: Home) -> BackupKeys:
    """The backup keys of the home, or of the site that it shares with other machines."""
    return open_keys(home, _DIRECTORY, BackupKey)
