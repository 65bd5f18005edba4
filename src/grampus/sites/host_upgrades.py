"""Hosts that get the host image of this Grampus, one after the other.

What runs on a host keeps running, from the image that it began with, until it is restarted: both
images are there meanwhile. The first host that fails ends the upgrade of all.

Failure and recovery: an operation that fails is undone, so the host has its former image. One whose
process was killed is finished by the next `host upgrade` of that host, or undone if that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from grampus.core.checks import Check
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.progress import Progress
from grampus.hosts.remote.host_parts import (
    HostParts,
    classify_parts,
    numbers_of,
    parse_parts,
    require_upgradable,
)
from grampus.hosts.remote.image_scripts import is_daemon
from grampus.hosts.remote.ssh import SshPlace
from grampus.operations.operation_type import Recovery
from grampus.operations.runner import OperationRunner, Subject
from grampus.sites.host_images import HostImageCopies, ImageCopy
from grampus.sites.model import SiteHostSpec
from grampus.sites.site_host_records import SiteHostRecords, parts_of, with_parts
from grampus.sites.upgrade_operation import KIND_PREFIX, UPGRADE_HOST, HostUpgradeOrder
from grampus.state.operations import Operation

# For how long commands of other processes may keep an older image after an upgrade: those of
# `grampus serve` end when it looks at the host the next time.
LEAVE_TIMEOUT_S, LEAVE_EVERY_S = 10.0, 1.0


class SiteDatabases(Protocol):
    """The databases of the site, as far as host images matter to them."""

    def named_images(self) -> set[str]:
        """The ids of host images that databases name, whatever their host has."""
        ...

    def keep_servers(self, images: dict[str, str]) -> None:
        """Databases without an image name that of their host from now on; `images` by host.

        Their servers stay what they are, wherever they run.
        """
        ...

    def follow_hosts(self, image_id: str) -> None:
        """Databases that name this image, which all hosts have, name none from now on."""
        ...


class HostReach(Protocol):
    """What is tried of a host with its new image."""

    def __call__(self, host: SiteHostSpec) -> Check: ...


@dataclass(frozen=True)
class HostUpgraded:
    """What became of one host."""

    host: str
    parts: HostParts
    is_changed: bool
    outdated: tuple[str, ...]  # daemons that still run from an older image
    kept: tuple[str, ...]  # older images that are still used


@dataclass(frozen=True)
class UpgradePorts:
    """What upgrades work with, beside the records."""

    images: HostImageCopies
    databases: SiteDatabases
    place: Callable[[SiteHostSpec], SshPlace]
    look: Callable[[SshPlace], list[Check]]  # what the machine can do
    reach: HostReach  # whether commands run there, and reach the cluster
    put_programs: Callable[[SiteHostSpec], None]  # those of this Grampus on the host
    outdated: Callable[[SiteHostSpec], list[str]]  # its daemons that are
    # Ends the connections of this process, whose commands run in the image of before.
    leave: Callable[[], None]


class HostUpgrades:
    """Upgrades of the hosts of one site. The caller holds its hosts."""

    def __init__(
        self,
        records: SiteHostRecords,
        ports: UpgradePorts,
        runner: OperationRunner,
        clock: Clock,
        progress: Progress,
        *,
        own: HostParts,
        original: Callable[[], ImageCopy],
        keeps_servers: Callable[[str, str], bool],
    ) -> None:
        """`own` is what this Grampus puts on a host; its digest is that of `original`, which may
        have to be built. `keeps_servers` says of two images whether the second one has servers
        of other series, which a database must not meet before `db upgrade`."""
        self.records = records
        self.ports = ports
        self.clock = clock
        self.progress = progress
        self._runner = runner
        self._own = own
        self._original = original
        self._keeps_servers = keeps_servers
        self._copy: ImageCopy | None = None

    def upgrade(
        self, names: Sequence[str], restart: Callable[[str], None] | None = None
    ) -> list[HostUpgraded]:
        """Upgrade hosts in this order; what became of each.

        `restart` restarts what runs on a host from an older image, before the next host.

        Raises NotFoundError, RefusedError with code `newer-host`, `host-unready` or `host-unfit`,
        and what `HostImageCopies.ensure` raises. The hosts after the one that failed are as they
        were.
        """
        for name in names:
            self._require_ready(name)
        done: list[HostUpgraded] = []
        for number, name in enumerate(names):
            try:
                with self._runner.part_of_plan():
                    done.append(self._upgrade(name, restart))
            except GrampusError as error:
                left = names[number + 1 :]
                if left:
                    error.problem += f" Not upgraded after that: {', '.join(left)}."
                raise
        return done

    def _require_ready(self, name: str) -> None:
        if not self.records.get(name).is_ready:
            raise RefusedError(
                f"The host {name} is not ready.",
                f"Repeat `grampus host add {name}` or `grampus host remove {name}`.",
                code="host-unready",
            )

    def _upgrade(self, name: str, restart: Callable[[str], None] | None) -> HostUpgraded:
        unfinished = self._runner.unfinished(KIND_PREFIX, name)
        is_finished = "finished" in [self._recover(operation) for operation in unfinished]
        host = self.records.get(name)
        ssh = self.ports.place(host)
        recorded = parts_of(host, self.records.site())
        noted = self.ports.images.observe(ssh).parts or ""
        has = parse_parts(noted) or recorded
        require_upgradable(name, has, self._own)
        # That of an upgrade that was finished now was compared a moment ago.
        is_changed = is_finished and classify_parts(recorded, self._own) == "current"
        if not is_changed and self._is_current(ssh, recorded):
            self._note_version(host, noted, has)
            if not self._runner.is_planning:
                self.ports.put_programs(host)
            self._remove_unused(name)
        elif not is_changed:
            self._run(host, recorded)
            is_changed = True
        if restart is not None:
            restart(name)
            self.remove_older_of(name)
        return self._describe(name, is_changed=is_changed)

    def _is_current(self, ssh: SshPlace, recorded: HostParts) -> bool:
        """Whether the host has this Grampus's image, and it is whole."""
        if classify_parts(recorded, self._own) != "current":
            return False
        self.progress.phase(f"Compare the host image on {ssh.host}")
        image = ImageCopy(recorded.image_id, recorded.digest)
        return bool(self.ports.images.is_whole(ssh, image))

    def _note_version(self, host: SiteHostSpec, noted: str, has: HostParts) -> None:
        """The image is the same: what is left to do is to say so."""
        recorded = parts_of(host, self.records.site())
        latest = max((recorded, has, self._own), key=lambda one: numbers_of(one.version)).version
        parts = replace(recorded, format=self._own.format, version=latest)
        is_noted = noted.split() == parts.words() and host == with_parts(host, parts)
        if not is_noted and not self._runner.is_planning:
            self.switch(host.name, parts)

    def _run(self, host: SiteHostSpec, former: HostParts) -> None:
        # A dry run builds nothing.
        digest = "" if self._runner.is_planning else self._image().digest
        order = HostUpgradeOrder.of(
            host.name,
            former,
            HostParts(self._own.format, self._own.version, self._own.image_id, digest),
            keeps_servers=self._keeps_servers(former.image_id, self._own.image_id),
        )
        self._runner.run(UPGRADE_HOST, self, order, Subject(host.name))

    def _image(self) -> ImageCopy:
        if self._copy is None:
            self._copy = self._original()
        return self._copy

    def _recover(self, operation: Operation) -> Recovery:
        order = UPGRADE_HOST.parse(operation.spec)
        recovery = self._runner.recover(operation, UPGRADE_HOST, self, order)
        self.progress.note(UPGRADE_HOST.describe_recovered(operation.subject, recovery))
        return recovery

    def _remove_unused(self, name: str) -> None:
        host = self.records.get(name)
        older = self._older(host)
        if not older:
            return
        self._runner.propose(lambda: [f"Remove the older host images of {name} that are not used"])
        self._remove_older(host)

    def _older(self, host: SiteHostSpec) -> dict[str, tuple[str, ...]]:
        """The images of a host that it does not need, and what uses each."""
        own = self.records.site().image_of(host)
        needed = {own, *self.ports.databases.named_images()}
        found = self.ports.images.observe(self.ports.place(host)).users
        return {image: users for image, users in found.items() if image not in needed}

    def _remove_older(self, host: SiteHostSpec) -> None:
        ssh = self.ports.place(host)
        waited_s = self.clock.monotonic_s() + LEAVE_TIMEOUT_S
        older = self._older(host)
        while any(_is_left_soon(users) for users in older.values()):
            if self.clock.monotonic_s() >= waited_s:
                break
            self.clock.sleep(LEAVE_EVERY_S)
            older = self._older(host)
        for image, users in older.items():
            if users:
                continue
            try:
                self.ports.images.ensure_absent(ssh, image)
            except GrampusError as error:
                self.progress.note(f"The older host image {image} stays on {host.name}: {error}")

    def _describe(self, name: str, *, is_changed: bool) -> HostUpgraded:
        host = self.records.get(name)
        return HostUpgraded(
            name,
            parts_of(host, self.records.site()),
            is_changed,
            tuple(self.ports.outdated(host)),
            tuple(sorted(self._older(host))),
        )

    # -- steps --------------------------------------------------------------------------------

    def keep_servers(self) -> None:
        """Databases keep the servers that their hosts have now."""
        site = self.records.site()
        self.ports.databases.keep_servers(
            {host.name: site.image_of(host) for host in self.records.all()}
        )

    def look(self, name: str) -> None:
        """Raise RefusedError with code `host-unfit` unless the machine has what is needed."""
        # Whether the disk has space for the image is looked at when it is copied.
        checks = self.ports.look(self.ports.place(self.records.get(name)))
        _require_fit(name, [check for check in checks if check.name != "disk"])

    def copy(self, name: str, image: ImageCopy) -> None:
        """The image on the host, whole."""
        self.ports.images.ensure(self.ports.place(self.records.get(name)), image)

    def remove_copy(self, name: str, image_id: str) -> None:
        """The image gone, unless the host has it for its own, or something uses it."""
        host = self.records.get(name)
        if self.records.site().image_of(host) == image_id:
            return
        self.ports.leave()
        try:
            self.ports.images.ensure_absent(self.ports.place(host), image_id)
        except RefusedError as error:
            self.progress.note(f"The host image {image_id} stays on {name}: {error}")

    def switch(self, name: str, parts: HostParts) -> None:
        """Commands and daemons that are started from now on use these parts."""
        host = self.records.get(name)
        self.ports.leave()
        self.records.put(with_parts(host, parts))
        self.ports.images.note_parts(self.ports.place(host), parts)

    def switch_back(self, name: str, former: HostParts) -> None:
        """The former parts used again, unless their image is gone already."""
        ssh = self.ports.place(self.records.get(name))
        if former.image_id in self.ports.images.observe(ssh).users:
            self.switch(name, former)

    def check(self, name: str) -> None:
        """Raise RefusedError with code `host-unfit` unless the host works with its new image."""
        host = self.records.get(name)
        _require_fit(name, [self.ports.reach(host)])
        self.ports.put_programs(host)

    def follow(self, parts: HostParts) -> None:
        """New hosts get the image, too; databases that name it use that of their host again."""
        self.records.use_image(parts)
        site = self.records.site()
        if all(site.image_of(host) == parts.image_id for host in self.records.all()):
            self.ports.databases.follow_hosts(parts.image_id)

    def remove_older_of(self, name: str) -> None:
        """The host's older images gone, as far as nothing uses them. It works without that."""
        try:
            self._remove_older(self.records.get(name))
        except GrampusError as error:
            self.progress.note(f"Older host images stay on {name}: {error}")


def _is_left_soon(users: Sequence[str]) -> bool:
    """Whether nothing but commands uses an image."""
    return bool(users) and not any(map(is_daemon, users))


def _require_fit(name: str, checks: Sequence[Check]) -> None:
    failed = [check for check in checks if check.verdict == "refused"]
    if failed:
        raise RefusedError(
            f"The host {name} cannot be upgraded: {' '.join(check.sentence for check in failed)}",
            " ".join(check.remedy for check in failed),
            code="host-unfit",
        )
