"""A manifest as the file in the target: readable without the key, authentic with it."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from grampus.databases.backup.errors import BackupDamagedError, damaged
from grampus.databases.backup.keys import BackupKey
from grampus.databases.backup.model import MANIFEST_FORMAT, BackupManifest

_PURPOSE = "grampus backup manifest 1"


def render_manifest(manifest: BackupManifest, key: BackupKey) -> bytes:
    """The file: the manifest and its seal (HMAC-SHA256 over its canonical JSON)."""
    backup = manifest.model_dump(mode="json")
    document = {"backup": backup, "seal": _seal(backup, key)}
    return (json.dumps(document, indent=2) + "\n").encode()


def parse_manifest(content: bytes, backup_id: str) -> BackupManifest:
    """The manifest, not yet known to be authentic. Raises BackupDamagedError."""
    try:
        document = json.loads(content)
        written = document["backup"]["format"]
        if written != MANIFEST_FORMAT:
            raise BackupDamagedError(
                f"The backup {backup_id} has the format {written}, which this version of "
                "Grampus does not support.",
                "Use the version of Grampus that wrote the backup.",
                code="unknown-format",
            )
        manifest = BackupManifest.model_validate(document["backup"])
    except (ValueError, KeyError, TypeError, ValidationError):
        raise damaged(f"The manifest of {backup_id} cannot be read") from None
    if manifest.id != backup_id:
        raise damaged(f"The manifest of {backup_id} belongs to {manifest.id}")
    return manifest


def require_authentic(content: bytes, manifest: BackupManifest, key: BackupKey) -> None:
    """Raise BackupDamagedError unless the manifest is as it was sealed with `key`."""
    # As it was written: an older Grampus knew fewer fields than the model has now.
    document = json.loads(content)
    said, written = document.get("seal"), document["backup"]
    if not isinstance(said, str) or not hmac.compare_digest(said, _seal(written, key)):
        raise damaged(f"The manifest of {manifest.id} does not match its checksum")


def _seal(backup: Mapping[str, Any], key: BackupKey) -> str:
    canonical = json.dumps(backup, sort_keys=True, separators=(",", ":")).encode()
    return hmac.new(key.derive(_PURPOSE), canonical, hashlib.sha256).hexdigest()
