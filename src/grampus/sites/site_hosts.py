"""The hosts of one site: added, checked and removed.

A host is recorded before anything is put on it, so that `remove` finds what an interrupted `add`
left; it is used only once its record says that it is ready. Both may be repeated.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grampus.core.checks import Check
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError, UsageError, not_found
from grampus.core.names import require_name
from grampus.core.progress import Progress
from grampus.core.units import format_bytes
from grampus.hosts.port import CommandFailedError
from grampus.hosts.process import read_command, run_command, write_command
from grampus.hosts.remote.epoch_guard import HostEpoch
from grampus.hosts.remote.host_checks import classify_machine, observe_argv
from grampus.hosts.remote.host_root import (
    DIGEST_TIMEOUT_S,
    MISSING_IMAGE,
    digest_argv,
    image_root,
    keep_argv,
    remove_argv,
    unfinished_root,
    unpack_argv,
)
from grampus.hosts.remote.remote_host import RemoteHost, run_on_machine
from grampus.hosts.remote.ssh import SshPlace, end_connection_argv, first_contact_argv, ssh_argv
from grampus.sites.model import SITE_HOST_RECORD, SiteHostSpec, SiteSpec, site_directory
from grampus.state.home import Home
from grampus.state.store import Store

_LOOK_TIMEOUT_S = 30.0
_CHUNK_BYTES = 1024 * 1024
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
        image: Path,
        connect: Callable[[SiteHostSpec], tuple[SshPlace, RemoteHost]],
        clock: Clock,
        progress: Progress,
        *,
        epoch: HostEpoch | None,
    ) -> None:
        """`image` is the root of the site's host image on this machine; `epoch` the one in which
        this home controls the site, or did."""
        self._epoch = epoch
        self._home = home
        self._store = store
        self._site = site
        self._image = image
        self._connect = connect
        self._clock = clock
        self._progress = progress

    def all(self) -> list[SiteHostSpec]:
        """The hosts, by name, also those that are not ready."""
        return list(self._store.all(SITE_HOST_RECORD, self._site.name, SiteHostSpec).values())

    def get(self, name: str) -> SiteHostSpec:
        """One of them. Raises NotFoundError."""
        found = {host.name: host for host in self.all()}
        if name not in found:
            raise not_found("host", name, found, list_command="grampus host list")
        return found[name]

    def add(self, request: HostRequest, mons: Sequence[str]) -> tuple[SiteHostSpec, list[Check]]:
        """Put on a machine what a host needs; `mons` are addresses of the cluster's MONs.

        Raises UsageError, RefusedError with code `host-exists`, `host-unfit` or `host-image`, and
        the errors of `explain_ssh`.
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
        spec = spec.model_copy(update={"address": self._observe_address(ssh, mons)})
        self._put(spec)
        self._ensure_image(ssh)
        self._progress.phase("Prepare the host")
        _, host = self._connect(spec)
        with contextlib.closing(host):
            conf = (site_directory(self._home, self._site.name) / "ceph.conf").read_text()
            host.write_file(host.data_dir / "etc-ceph" / "ceph.conf", conf)
            if self._epoch is not None:
                host.set_epoch(self._epoch)
        ready = spec.model_copy(update={"is_ready": True})
        self._put(ready)
        return ready, checks

    def look(self, ssh: SshPlace) -> list[Check]:
        """What a machine can do. Raises the errors of `explain_ssh`."""
        text = run_on_machine(
            ssh, observe_argv(self._site.host_directory), timeout_s=_LOOK_TIMEOUT_S
        ).stdout
        return classify_machine(
            text, image_bytes=self._image_bytes(), own_clock_s=self._clock.now().timestamp()
        )

    def check(self, name: str) -> list[Check]:
        """What one of the hosts can do, and whether its image is whole."""
        ssh, _ = self._connect(self.get(name))
        checks = self.look(ssh)
        self._progress.phase("Compare the host image")
        checks.append(self._check_image(ssh))
        return checks

    def remove(self, name: str, *, is_lost: bool = False) -> None:
        """Take away all that is on a host, and its record; of one that `is_lost`, the record.

        Raises RefusedError with code `host-in-use` while a service of the site runs there.
        """
        spec = self.get(name)
        self._put(spec.model_copy(update={"is_ready": False}))
        ssh, host = self._connect(spec)
        host.close()
        if not is_lost:
            self._remove_files(name, ssh)
        self._forget_connection(ssh)
        self._store.remove(SITE_HOST_RECORD, self._site.name, name)

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
            raise UsageError(f"--identity: the file {identity} does not exist.")
        spec = SiteHostSpec(
            name=require_name("host", request.name),
            address="",
            ssh_user=user,
            ssh_address=address,
            ssh_port=request.port,
            identity=identity,
            labels=parse_labels(request.labels),
        )
        for known in self.all():
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
        run_on_machine(ssh, ["true"], timeout_s=_LOOK_TIMEOUT_S)

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

    def _ensure_image(self, ssh: SshPlace) -> None:
        if self._check_image(ssh).verdict == "ok":
            return
        directory, image_id = self._site.host_directory, self._site.image_id
        size_bytes, sent_bytes = self._image_bytes(), 0
        pack = ["tar", "-C", str(self._image.parent), "--numeric-owner", "-cf", "-", "root"]
        unpack = ssh_argv(ssh, unpack_argv(directory, image_id))
        self._progress.phase(f"Copy the host image to {ssh.host}")
        with (
            read_command(pack) as archive,
            write_command(unpack, where=ssh.host, shown=["tar"]) as stream,
        ):
            while chunk := archive.read(_CHUNK_BYTES):
                stream.write(chunk)
                sent_bytes += len(chunk)
                done = f"{format_bytes(sent_bytes)} of {format_bytes(size_bytes)}"
                self._progress.detail(done, fraction=min(1.0, sent_bytes / size_bytes))
        self._progress.phase("Compare the copy")
        unfinished = unfinished_root(directory, image_id)
        if self._digest_at(ssh, unfinished) != self._site.image_digest:
            raise GrampusError(
                f"The host image on {ssh.host} is not what was sent.",
                "Check the disk of the host, then try again.",
                code="host-image",
            )
        kept = run_on_machine(ssh, keep_argv(directory, image_id), check=False)
        if kept.returncode != 0:
            raise RefusedError(
                f"The host image on {ssh.host} cannot be replaced: {kept.stderr.strip()}.",
                f"Move its databases away first: `grampus host drain {ssh.host}`.",
                code="host-in-use",
            )

    def _check_image(self, ssh: SshPlace) -> Check:
        root = image_root(self._site.host_directory, self._site.image_id)
        found = self._digest_at(ssh, root)
        if found == self._site.image_digest:
            return Check("image", "ok", f"The host image {self._site.image_id} is whole.")
        why = "is missing" if found is None else "was changed"
        return Check(
            "image",
            "refused",
            f"The host image {self._site.image_id} {why}.",
            f"`grampus host add {ssh.host}` copies it again.",
        )

    def _digest_at(self, ssh: SshPlace, root: str) -> str | None:
        """The digest of an image on the host; None: it is not there."""
        looked = run_on_machine(ssh, digest_argv(root), check=False, timeout_s=DIGEST_TIMEOUT_S)
        if looked.returncode == MISSING_IMAGE:
            return None
        if looked.returncode != 0:
            raise CommandFailedError(ssh.host, looked)
        return looked.stdout.strip()

    def _image_bytes(self) -> int:
        used = run_command(["du", "-sk", str(self._image)], timeout_s=DIGEST_TIMEOUT_S).stdout
        return int(used.split()[0]) * 1024

    def _put(self, spec: SiteHostSpec) -> None:
        self._store.put(SITE_HOST_RECORD, self._site.name, spec.name, spec)

    def _forget_connection(self, ssh: SshPlace) -> None:
        run_command(end_connection_argv(ssh), check=False)
        if ssh.known_hosts.exists():
            run_command(["ssh-keygen", "-R", ssh.host, "-f", str(ssh.known_hosts)], check=False)
            # It keeps the file as it was.
            ssh.known_hosts.with_suffix(".old").unlink(missing_ok=True)
