"""Encryption at rest of volumes: made, opened, and kept in step with what is done to images.

The volume's lock is held by the caller, wherever something is changed. Facts on the image say what
it is: first its sealed key, then, once LUKS2 is on it, that it is encrypted. So an image with the
second fact can always be opened, and one without is formatted again.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ConfigDict, SecretStr

from grampus.ceph.encryption import RbdEncryption
from grampus.ceph.image_snapshots import NewClone
from grampus.ceph.rbd import IDENTITY_FACT, RbdImages
from grampus.core.errors import GrampusError
from grampus.core.models import Model
from grampus.volumes.decide_encryption import (
    ENCRYPTION_FACT,
    ENCRYPTION_FACTS,
    KEY_FACT,
    image_bytes,
)
from grampus.volumes.decide_external_log import external_log_facts
from grampus.volumes.model import VolumeSpec
from grampus.volumes.volume_keys import (
    MasterKeys,
    make_volume_key,
    master_key_id,
    seal_volume_key,
    unseal_volume_key,
)


class MasterKeyUse(Model):
    """The master key that an encrypted volume needs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    is_here: bool  # in this home


class Encrypting:
    """The encryption of the volumes of one lab or cluster; plain volumes pass through it."""

    def __init__(
        self,
        images: RbdImages,
        encryption: RbdEncryption,
        keys: MasterKeys,
    ) -> None:
        self._images = images
        self._encryption = encryption
        self._keys = keys

    def ensure_image(self, spec: VolumeSpec, sealed_key: str | None = None) -> None:
        """The volume's image, with LUKS2 on it if it is to be encrypted.

        With a `sealed_key` the image is one that is filled with what is encrypted by it already,
        from a backup. Raises what `require_openable` raises.
        """
        if sealed_key is not None:
            self.require_openable(sealed_key)
        self._images.ensure_image(spec.pool, spec.image, image_bytes(spec), spec.identity)
        if spec.external_log_bytes is not None:
            self._images.set_metadata(spec.pool, spec.image, external_log_facts(spec))
        if spec.encryption is None:
            return
        facts = self._images.metadata(spec.pool, spec.image)
        if ENCRYPTION_FACT in facts:
            return
        if sealed_key is not None:
            self._mark(spec, sealed_key)
            return
        sealed = facts.get(KEY_FACT)
        if sealed is None:
            key = make_volume_key()
            sealed = seal_volume_key(key, self._keys.ensure_current())
            # Before the format: what is encrypted by a key that nobody has is lost.
            self._images.set_metadata(spec.pool, spec.image, {KEY_FACT: sealed})
        # Cut off before it was marked, it holds nothing yet: it is formatted again.
        self._encryption.format(spec.pool, spec.image, unseal_volume_key(sealed, self._keys))
        self._images.set_metadata(spec.pool, spec.image, {ENCRYPTION_FACT: spec.encryption})

    def find_new_clone(self, spec: VolumeSpec) -> NewClone | None:
        """What makes an image of a new clone; None: it is encrypted, and only its key tells."""
        if spec.encryption is not None:
            return None
        facts = {IDENTITY_FACT: spec.identity} if spec.identity else {}
        facts |= external_log_facts(spec)
        return NewClone(size_bytes=image_bytes(spec), facts=facts)

    def inherit(self, spec: VolumeSpec, source: tuple[str, str]) -> None:
        """Facts of a clone: it is encrypted by the key of `source`, a pool and an image in it.

        Other facts of the source came with its data, and are taken away: its id is its own.
        """
        inherited = self._images.metadata(spec.pool, spec.image)
        if spec.encryption is not None and not all(fact in inherited for fact in ENCRYPTION_FACTS):
            self._mark(spec, self._images.metadata(*source).get(KEY_FACT, ""))
        kept = () if spec.encryption is None else ENCRYPTION_FACTS
        facts = {key: "" for key in inherited if key not in kept} | external_log_facts(spec)
        self._images.set_metadata(spec.pool, spec.image, {**facts, IDENTITY_FACT: spec.identity})

    def find_sealed_key(self, spec: VolumeSpec) -> str | None:
        """The sealed key of an encrypted volume, as its image has it; None: it is not encrypted.

        Raises GrampusError with code `bad-volume-key` when an encrypted one has none.
        """
        if spec.encryption is None:
            return None
        sealed = self._images.metadata(spec.pool, spec.image).get(KEY_FACT)
        if not sealed:
            raise GrampusError(
                f"The image {spec.pool}/{spec.image} has lost its sealed key.",
                "If a backup of the volume has the key (`volume_key` in its manifest), set "
                f"it again: `rbd image-meta set {spec.pool}/{spec.image} "
                "grampus.encryption.key`.",
                code="bad-volume-key",
            )
        return sealed

    def find_master_key(self, spec: VolumeSpec) -> MasterKeyUse | None:
        """Which master key opens the volume's; None: it is not encrypted. Errors as above."""
        sealed = self.find_sealed_key(spec)
        if sealed is None:
            return None
        key_id = master_key_id(sealed)
        return MasterKeyUse(id=key_id, is_here=key_id in self._keys.ids())

    def find_key(self, spec: VolumeSpec) -> SecretStr | None:
        """The volume's key, None when it is not encrypted.

        Raises NotFoundError with code `no-volume-key`, GrampusError with code `bad-volume-key`.
        """
        sealed = self.find_sealed_key(spec)
        return None if sealed is None else unseal_volume_key(sealed, self._keys)

    def require_openable(self, sealed_key: str) -> None:
        """Raise NotFoundError with code `no-volume-key` when the master key of it is not here.

        GrampusError with code `bad-volume-key` says that it was changed.
        """
        unseal_volume_key(sealed_key, self._keys)

    def facts(self, pool: str, image: str) -> Mapping[str, str]:
        """What an image says of itself."""
        return self._images.metadata(pool, image)

    def ensure_size(self, spec: VolumeSpec, *, limit_s: float | None = None) -> None:
        """The volume's image at the size of the volume; it may be in use. Errors as `find_key`.

        Within `limit_s`, if given, where no key has to be derived first.
        Raises GrampusError when it is bigger already.
        """
        size_bytes = image_bytes(spec)
        if spec.encryption is None:
            self._images.ensure_size(spec.pool, spec.image, size_bytes, limit_s=limit_s)
            return
        if self._image_size(spec) == size_bytes:
            return
        key = self.find_key(spec)
        if key is not None:
            self._encryption.resize(spec.pool, spec.image, spec.size_bytes, key)
        found_bytes = self._image_size(spec)
        if found_bytes != size_bytes:
            raise GrampusError(
                f"The image {spec.pool}/{spec.image} has {found_bytes} bytes, not {size_bytes}.",
                f"`rbd info {spec.pool}/{spec.image}` shows the size. The objects of the "
                "image may be larger than Grampus supports for an encrypted image.",
                code="image-size",
            )

    def _mark(self, spec: VolumeSpec, sealed_key: str) -> None:
        encryption = spec.encryption or ""
        facts = {KEY_FACT: sealed_key, ENCRYPTION_FACT: encryption}
        self._images.set_metadata(spec.pool, spec.image, facts)

    def _image_size(self, spec: VolumeSpec) -> int | None:
        image = self._images.find(spec.pool, spec.image)
        return None if image is None else image.size_bytes
