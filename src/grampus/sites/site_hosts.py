"""The hosts of one site: added, checked and removed.

A host is recorded before anything is put on it, so that `remove` finds what an interrupted `add`
left; it is used only once its record says that it is ready. Both may be repeated.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grampus.core.checks import Check
from grampus.core.clock import Clock
from grampus.core.errors import RefusedError, UsageError, suggest_file
from grampus.core.names import require_name
from grampus.core.progress import Progress
from grampus.hosts.process import run_command
from grampus.hosts.remote.epoch_guard import HostEpoch
from grampus.hosts.remote.host_checks import classify_machine, observe_argv
from grampus.hosts.remote.host_parts import (
    HOST_FORMAT,
    HostParts,
    is_later,
    parse_parts,
    require_upgradable,
)
from grampus.hosts.remote.host_root import remove_argv
from grampus.hosts.remote.remote_host import RemoteHost, run_on_machine
from grampus.hosts.remote.ssh import SshPlace, end_connection_argv, first_contact_argv
from grampus.sites.host_images import HostImageCopies, ImageCopy
from grampus.sites.model import SiteHostSpec, SiteSpec, site_directory
from grampus.sites.site_host_records import SiteHostRecords, parts_of, with_parts
from grampus.state.home import Home
from grampus.state.secret_files import SecretFiles
from grampus.state.store import Store

_LOOK_TIMEOUT_S = 30.0
_SOURCE = re.compile(r"\bsrc (?P<address>\d+\.\d+\.\d+\.\d+)")
_SSH = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<address>[^@\s]+)")


@dataclass(frozen=True)
class HostRequest:
    """A host as it is to be added."""

    name: str
    ssh: str  # USER@ADDRESS
    port: int = 22
    identity: str | None = None
    labels: tuple[str, ...] = ()
    has_new_key: bool = False  # the machine was installed anew: the pinned key is not its own


def parse_ssh(text: str) -> tuple[str, str]:
    """User and address of `USER@ADDRESS`; the user is root unless one is named."""
    found = _SSH.fullmatch(text)
    # A word that begins with a hyphen would be an option of ssh.
    if found is None or text.startswith("-") or found["address"].startswith("-"):
        raise UsageError(f"'{text}' is not USER@ADDRESS.", "Such as --ssh root@10.0.5.11.")
    return found["user"] or "root", found["address"]


def parse_labels(labels: Sequence[str]) -> dict[str, str]:
    """`rack=a` and so on. Raises UsageError."""
    found = {}
    for label in labels:
        key, sign, value = label.partition("=")
        if not sign or not key:
            raise UsageError(f"'{label}' is not KEY=VALUE.", "Such as --label rack=a.")
        found[key] = value
    return found


class SiteHosts:
    """The hosts of one site. The caller holds the site alone."""

    def __init__(
        self,
        home: Home,
        store: Store,
        site: SiteSpec,
        images: HostImageCopies,
        connect: Callable[[SiteHostSpec], tuple[SshPlace, RemoteHost]],
        clock: Clock,
        progress: Progress,
        *,
        epoch: HostEpoch | None,
        version: str,
        at_address_of: Callable[[str], Sequence[str]] = lambda _: (),
    ) -> None:
        """`epoch` is the one in which this home controls the site, or did; `version` that of this
        Grampus; `at_address_of` the databases that have the address of a host."""
        self._at_address_of = at_address_of
        self._epoch = epoch
        self._version = version
        self._home = home
        self._records = SiteHostRecords(store, site.name)
        self._site = site
        self._images = images
        self._connect = connect
        self._clock = clock
        self._progress = progress

    def get(self, name: str) -> SiteHostSpec:
        """One of the hosts, also one that is not ready. Raises NotFoundError."""
        return self._records.get(name)

    def add(self, request: HostRequest, mons: Sequence[str]) -> tuple[SiteHostSpec, list[Check]]:
        """Put on a machine what a host needs; `mons` are addresses of the cluster's MONs.

        A host that is there already keeps the version of its image.

        Raises UsageError, RefusedError with code `host-exists`, `host-in-use`, `host-unfit` or
        `newer-host`, what `HostImageCopies.ensure` raises, and the errors of `explain_ssh`.
        """
        spec = self._plan(request)
        ssh, host = self._connect(spec)
        self._progress.phase(f"Connect to {spec.ssh_address}")
        if request.has_new_key:
            self._forget_connection(ssh)
        self._pin(ssh)
        checks = self.look(ssh)
        failed = [check for check in checks if check.verdict == "refused"]
        if failed:
            raise RefusedError(
                f"{spec.name} cannot be a host: {' '.join(check.sentence for check in failed)}",
                " ".join(check.remedy for check in failed),
                code="host-unfit",
            )
        parts = self._parts(spec, ssh)
        spec = spec.model_copy(update={"address": self._observe_address(ssh, mons)})
        self._require_same_address(spec)
        spec = with_parts(spec, parts)
        self._records.put(spec)
        self._images.ensure(ssh, ImageCopy(parts.image_id, parts.digest))
        self._progress.phase("Prepare the host")
        self._images.note_parts(ssh, parts)
        _, host = self._connect(spec)
        with contextlib.closing(host):
            conf = (site_directory(self._home, self._site.name) / "ceph.conf").read_text()
            host.write_file(host.data_dir / "etc-ceph" / "ceph.conf", conf)
            if self._epoch is not None:
                host.set_epoch(self._epoch)
        ready = spec.model_copy(update={"is_ready": True})
        self._records.put(ready)
        return ready, checks

    def look(self, ssh: SshPlace) -> list[Check]:
        """What a machine can do. Raises the errors of `explain_ssh`."""
        text = run_on_machine(
            ssh, observe_argv(self._site.host_directory), timeout_s=_LOOK_TIMEOUT_S
        ).stdout
        image_bytes = self._images.size_bytes(self._site.image_id)
        own_clock_s = self._clock.now().timestamp()
        return classify_machine(text, image_bytes=image_bytes, own_clock_s=own_clock_s)

    def check(self, name: str) -> list[Check]:
        """What one of the hosts can do, and whether its image is whole."""
        spec = self.get(name)
        ssh, _ = self._connect(spec)
        checks = self.look(ssh)
        self._progress.phase("Compare the host image")
        checks.append(self._check_image(ssh, parts_of(spec, self._site)))
        return checks

    def remove(self, name: str, *, is_lost: bool = False) -> None:
        """Take away all that is on a host, and its record; of one that `is_lost`, the record.

        Raises RefusedError with code `host-in-use` while a service of the site runs there.
        """
        spec = self.get(name)
        self._records.put(spec.model_copy(update={"is_ready": False}))
        ssh, host = self._connect(spec)
        host.close()
        if not is_lost:
            self._remove_files(name, ssh)
        self._forget_connection(ssh)
        self._records.remove(name)

    # -- inside -------------------------------------------------------------------------------

    def _remove_files(self, name: str, ssh: SshPlace) -> None:
        argv = remove_argv(self._site.host_directory, self._site.tag)
        removed = run_on_machine(ssh, argv, check=False)
        if removed.returncode != 0:
            raise RefusedError(
                f"The files of Grampus on {name} cannot be removed: {removed.stderr.strip()}.",
                f"Move its databases away (`grampus host drain {name}`), then try again.",
                code="host-in-use",
            )

    def _plan(self, request: HostRequest) -> SiteHostSpec:
        user, address = parse_ssh(request.ssh)
        identity = request.identity and str(Path(request.identity).expanduser().absolute())
        if identity is not None and not Path(identity).is_file():
            raise UsageError(
                f"--identity: the file {identity} does not exist.",
                suggest_file(Path(identity), "Give the file of the private SSH key."),
                code="no-such-file",
            )
        spec = SiteHostSpec(
            name=require_name("host", request.name),
            address="",
            ssh_user=user,
            ssh_address=address,
            ssh_port=request.port,
            identity=identity,
            labels=parse_labels(request.labels),
        )
        for known in self._records.all():
            same_place = (known.ssh_address, known.ssh_port) == (address, request.port)
            if same_place != (known.name == spec.name):
                raise RefusedError(
                    f"The site has a host {known.name} at {known.ssh_address} already.",
                    f"Choose another name, or remove it first: `grampus host remove {known.name}`.",
                    code="host-exists",
                )
        return spec

    def _pin(self, ssh: SshPlace) -> None:
        """Take the key of a host that has none pinned; another key is refused from then on."""
        ssh.known_hosts.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        pinned = ssh.known_hosts.read_text() if ssh.known_hosts.exists() else ""
        if not any(line.split(" ")[0] == ssh.host for line in pinned.splitlines()):
            run_command(first_contact_argv(ssh), check=False, timeout_s=_LOOK_TIMEOUT_S)
            self._share_keys(ssh)
        run_on_machine(ssh, ["true"], timeout_s=_LOOK_TIMEOUT_S)

    def _share_keys(self, ssh: SshPlace) -> None:
        """Pinned keys are the same on all machines that work on the site."""
        if ssh.known_hosts.exists():
            files = SecretFiles(ssh.known_hosts.parent, self._home.shared)
            files.write(ssh.known_hosts, ssh.known_hosts.read_text())

    def _observe_address(self, ssh: SshPlace, mons: Sequence[str]) -> str:
        """The address that the host's packets to the MONs come from."""
        for mon in mons:
            found = run_on_machine(ssh, ["ip", "-4", "route", "get", mon], check=False)
            source = _SOURCE.search(found.stdout)
            if source is not None:
                return source["address"]
        raise RefusedError(
            f"{ssh.host} has no route to a MON of the cluster ({', '.join(mons)}).",
            "Connect the host to the public network of the cluster.",
            code="host-unfit",
        )

    def _require_same_address(self, spec: SiteHostSpec) -> None:
        """Servers listen at the address that is recorded, and clients look for them there."""
        known = next((one for one in self._records.all() if one.name == spec.name), spec)
        names = self._at_address_of(spec.name) if known.address != spec.address else ()
        if names:
            raise RefusedError(
                f"The address of {spec.name} was {known.address} and is {spec.address} now, and "
                f"databases have the address of their host: {', '.join(names)}.",
                f"Give the host its former address, or move these databases to other hosts first "
                f"(`grampus host drain {spec.name}`).",
                code="host-in-use",
            )

    def _parts(self, spec: SiteHostSpec, ssh: SshPlace) -> HostParts:
        """What the host is to have: the image that it has according to its record, or the site's.

        Raises RefusedError with code `newer-host` if a later Grampus prepared it.
        """
        known = next((one for one in self._records.all() if one.name == spec.name), None)
        recorded = parts_of(known or spec, self._site)
        wanted = HostParts(HOST_FORMAT, self._version, recorded.image_id, recorded.digest)
        has = parse_parts(self._images.observe(ssh).parts or "")
        if has is None:
            return wanted
        require_upgradable(spec.name, has, wanted)
        if known is None and (has.image_id, has.digest) != (wanted.image_id, wanted.digest):
            wanted = self._of_another_home(ssh, has, wanted)
        if is_later(has.version, wanted.version):
            return replace(wanted, version=has.version)  # it has the same image
        return wanted

    def _of_another_home(self, ssh: SshPlace, has: HostParts, wanted: HostParts) -> HostParts:
        """Another GRAMPUS_HOME built the same image, and other files came out: as they are there,
        servers run from them."""
        same = ImageCopy(wanted.image_id, has.digest)
        if has.image_id == wanted.image_id and self._images.is_whole(ssh, same):
            return replace(wanted, digest=has.digest)
        return wanted

    def _check_image(self, ssh: SshPlace, parts: HostParts) -> Check:
        is_whole = self._images.is_whole(ssh, ImageCopy(parts.image_id, parts.digest))
        if is_whole:
            return Check("image", "ok", f"The host image {parts.image_id} is whole.")
        why = "is missing" if is_whole is None else "was changed"
        return Check(
            "image",
            "refused",
            f"The host image {parts.image_id} {why}.",
            f"`grampus host upgrade {ssh.host}` copies it again.",
        )

    def _forget_connection(self, ssh: SshPlace) -> None:
        run_command(end_connection_argv(ssh), check=False)
        if ssh.known_hosts.exists():
            run_command(["ssh-keygen", "-R", ssh.host, "-f", str(ssh.known_hosts)], check=False)
            # It keeps the file as it was.
            ssh.known_hosts.with_suffix(".old").unlink(missing_ok=True)
            self._share_keys(ssh)
