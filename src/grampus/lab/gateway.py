"""The object gateway of a lab: Ceph's own S3 service (RADOS Gateway), on one of its hosts.

Its daemon runs from a host image of its own, its pools are the names that the gateway looks for,
and what it serves is encrypted with a certificate that its clients are given.
"""

from __future__ import annotations

import configparser
import io
import json
from collections.abc import Callable
from pathlib import Path

from grampus.ceph.cluster import CephCluster
from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.core.units import GIB
from grampus.hosts.any_host import AnyReachableHost
from grampus.hosts.lab_host import LabFleet
from grampus.hosts.port import Bind, DaemonSpec, Host, Limits
from grampus.lab.model import LabSpec
from grampus.lab.parts import PartKind, PartSpec
from grampus.state.home import Home, write_atomically
from grampus.state.operations import Step

GATEWAY_RECORD = "lab-gateway"
GATEWAY_PORT = 8443
GATEWAY_USER = "grampus-backups"
DEFAULT_BUCKET = "backups"
LOCKED_BUCKET = "locked"  # with object lock: `--object-lock DAYS`
CREDENTIALS_FILE = "object-store.credentials"
CA_FILE = "object-store-ca.pem"
# What a gateway without zones of its own looks for, and how many placement groups each has: few,
# for a lab has few OSDs, and all but the data hold next to nothing.
POOLS = {
    ".rgw.root": 4,
    "default.rgw.log": 4,
    "default.rgw.control": 4,
    "default.rgw.meta": 4,
    "default.rgw.buckets.index": 4,
    "default.rgw.buckets.data": 16,
    "default.rgw.buckets.non-ec": 4,
}
_MEMORY_LIMIT_BYTES = 1 * GIB
_CERTIFICATE, _PRIVATE_KEY = "gateway.crt", "gateway.key"
# A lab rarely lives for so long, and nobody renews what is in it.
_CERTIFICATE_DAYS = 3650


class GatewaySpec(PartSpec):
    """A lab's gateway, with all that bringing it up needs."""

    port: int = GATEWAY_PORT

    def endpoint(self, lab: LabSpec) -> str:
        """Where clients on this machine reach it."""
        return f"https://{lab.host_address(self.host)}:{self.port}"


def gateway_daemon(host: str) -> str:
    """The name of the gateway's daemon on a host."""
    return f"rgw-{host}"


def credentials_file(home: Home, lab: str) -> Path:
    """Where the keys of the lab's gateway are."""
    return home.secrets_dir(lab) / CREDENTIALS_FILE


def render_credentials(access_key: str, secret_key: str, endpoint: str, ca_file: str) -> str:
    """The file in the form that S3 clients share: one profile of an INI file."""
    parser = configparser.ConfigParser(interpolation=None)
    parser["default"] = {
        "aws_access_key_id": access_key,
        "aws_secret_access_key": secret_key,
        "endpoint_url": endpoint,
        "ca_bundle": ca_file,
    }
    text = io.StringIO()
    parser.write(text)
    return text.getvalue()


class LabGateway:
    """The steps that bring a lab's gateway up and take it away; each may be repeated."""

    def __init__(
        self, lab: LabSpec, gateway: GatewaySpec, home: Home, fleet: LabFleet, clock: Clock
    ) -> None:
        self._lab = lab
        self._gateway = gateway
        self._home = home
        self._fleet = fleet
        self._clock = clock
        self._cluster = CephCluster(AnyReachableHost(fleet))

    def up_steps(self, keep_record: Callable[[], None]) -> list[Step]:
        """The gateway, from whatever state it is in."""
        host = self._gateway.host
        return [
            Step("record", "Record the gateway", keep_record),
            Step("pools", "Create the gateway's pools", self.ensure_pools),
            Step("certificate", f"Create a certificate for {host}", self.ensure_certificate),
            Step("gateway", f"Start the gateway on {host}", self.ensure_daemons),
            Step("user", f"Create its user {GATEWAY_USER} and store the keys", self.ensure_user),
        ]

    def down_steps(self, forget: Callable[[], None]) -> list[Step]:
        """The gateway gone, with all that is in its buckets."""
        return [
            Step("gateway", "Stop the gateway", self.ensure_daemon_absent),
            Step("pools", "Remove its pools and all buckets in them", self.ensure_pools_absent),
            Step("secrets", "Delete its keys", self.ensure_secrets_absent),
            Step("record", "Delete the record of the gateway", forget),
        ]

    def ensure_pools(self) -> None:
        there = self._cluster.query("osd", "pool", "ls")
        for pool, groups in POOLS.items():
            if pool not in there:
                self._cluster.ceph(
                    *("osd", "pool", "create", pool, str(groups), str(groups)),
                    *("replicated", "--autoscale-mode=off"),
                    # Names that begin with a dot are Ceph's own: the gateway's is one.
                    *(("--yes-i-really-mean-it",) if pool.startswith(".") else ()),
                )
            self._cluster.ceph("osd", "pool", "application", "enable", pool, "rgw")

    def ensure_pools_absent(self) -> None:
        there = self._cluster.query("osd", "pool", "ls")
        for pool in POOLS:
            if pool in there:
                self._cluster.ceph(
                    *("osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it")
                )

    def ensure_certificate(self) -> None:
        """A certificate for the host's address, which is its own authority."""
        host = self._fleet.lab_host(self._gateway.host)
        etc = host.data_dir / "etc-ceph"
        if host.read_file(etc / _CERTIFICATE) is not None:
            return
        address = self._lab.host_address(host.name)
        host.run(["install", "-m", "0600", "/dev/null", str(etc / _PRIVATE_KEY)])
        made = etc / f"{_CERTIFICATE}.new"
        host.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
                *("ec_paramgen_curve:prime256v1", "-noenc", "-days", str(_CERTIFICATE_DAYS)),
                *("-subj", f"/CN=grampus {self._lab.name} object gateway"),
                *("-addext", f"subjectAltName=IP:{address}"),
                *("-addext", "keyUsage=critical,digitalSignature,keyCertSign"),
                *("-keyout", str(etc / _PRIVATE_KEY), "-out", str(made)),
            ]
        )
        host.run(["mv", str(made), str(etc / _CERTIFICATE)])

    def ensure_daemons(self) -> None:
        host = self._fleet.lab_host(self._gateway.host)
        keyring = self._cluster.ensure_client(
            f"rgw.{host.name}", {"mon": "allow rw", "osd": "allow rwx", "mgr": "allow rw"}
        )
        host.write_file(host.data_dir / "etc-ceph" / _keyring_of(host), keyring, mode=0o600)
        host.ensure_daemon(self._daemon_spec(host))
        wait_until(
            self._clock,
            lambda: self._answers(host),
            what="the gateway to answer",
            remedy=f"The log of the daemon {gateway_daemon(host.name)} shows the cause.",
            timeout_s=90.0,
            interval_s=0.5,
        )

    def ensure_daemon_absent(self) -> None:
        host = self._fleet.lab_host(self._gateway.host)
        host.ensure_daemon_absent(gateway_daemon(host.name))
        self._cluster.ensure_client_absent(f"rgw.{host.name}")
        etc = host.data_dir / "etc-ceph"
        names = (_CERTIFICATE, _PRIVATE_KEY, _keyring_of(host))
        host.run(["rm", "-f", *(str(etc / name) for name in names)])

    def ensure_user(self) -> None:
        """The user, and its keys in a file that its owner alone may read."""
        host = self._fleet.lab_host(self._gateway.host)
        user = ("--uid", GATEWAY_USER)
        found = host.run(["radosgw-admin", "user", "info", *user], check=False)
        if found.returncode != 0:
            found = host.run(
                ["radosgw-admin", "user", "create", *user, "--display-name", "Grampus backups"],
                timeout_s=120,
            )
        keys = json.loads(found.stdout).get("keys", [])
        certificate = host.read_file(host.data_dir / "etc-ceph" / _CERTIFICATE)
        if not keys or certificate is None:
            raise GrampusError(
                f"The gateway's user {GATEWAY_USER} has no keys.",
                "Run `grampus lab gateway down`, then `grampus lab gateway up`.",
                code="gateway-keys",
            )
        file = credentials_file(self._home, self._lab.name)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        ca_file = file.with_name(CA_FILE)
        write_atomically(ca_file, certificate.encode("ascii"), mode=0o600)
        text = render_credentials(
            keys[0]["access_key"],
            keys[0]["secret_key"],
            self._gateway.endpoint(self._lab),
            str(ca_file),
        )
        write_atomically(file, text.encode("ascii"), mode=0o600)

    def ensure_secrets_absent(self) -> None:
        file = credentials_file(self._home, self._lab.name)
        for path in (file, file.with_name(CA_FILE)):
            path.unlink(missing_ok=True)

    def _daemon_spec(self, host: Host) -> DaemonSpec:
        address = self._lab.host_address(host.name)
        data = host.data_dir
        frontend = (
            f"beast ssl_endpoint={address}:{self._gateway.port} "
            f"ssl_certificate=/etc/ceph/{_CERTIFICATE} ssl_private_key=/etc/ceph/{_PRIVATE_KEY}"
        )
        return DaemonSpec(
            name=gateway_daemon(host.name),
            argv=(
                *("radosgw", "--foreground", "--setuser", "root", "--setgroup", "root"),
                *("--name", f"client.rgw.{host.name}"),
                *("--keyring", f"/etc/ceph/{_keyring_of(host)}"),
                # A lab has few clients; the default is 512.
                *("--rgw_thread_pool_size", "32", "--rgw_frontends", frontend),
            ),
            binds=(
                Bind(str(data / "etc-ceph"), "/etc/ceph", read_only=True),
                Bind(str(data / "run-ceph"), "/run/ceph"),
            ),
            # It is process 1 in its container: without this, nonces would repeat.
            env={"CEPH_USE_RANDOM_NONCE": "1"},
            image=self._gateway.image_id,
            limits=Limits(cpus=1.0, memory_bytes=_MEMORY_LIMIT_BYTES),
        )

    def _answers(self, host: Host) -> bool:
        states = {status.name: status.state for status in host.observe_daemons()}
        name = gateway_daemon(host.name)
        if states.get(name) != "running":
            raise GrampusError(
                f"The gateway on {host.name} ended: {host.daemon_log(name, last_lines=3)}",
                "Fix the error above, then run `grampus lab gateway up`.",
                code="gateway-ended",
            )
        address, port = self._lab.host_address(host.name), self._gateway.port
        probe = ["bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}"]
        return host.run(probe, check=False).returncode == 0


def _keyring_of(host: Host) -> str:
    return f"ceph.client.rgw.{host.name}.keyring"


GATEWAY = PartKind(
    "gateway",
    GATEWAY_RECORD,
    GatewaySpec,
    # The same Ceph, from the same suite.
    image_of=lambda lab: f"{lab.image_name}-gateway",
    make_steps=LabGateway,
)
