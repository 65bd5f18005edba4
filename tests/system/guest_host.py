"""A host that is a virtual machine: Debian 12 with a kernel of its own, reached by SSH alone.

Unlike `systemd_hosts.py`, it shares nothing with this machine: loop devices, FUSE, control groups
and the page cache are its own, so a power cut (`end`) also loses what was written and not flushed.
It runs under KVM where that works, otherwise its CPU is emulated, and it is slow.

    with GuestHost(directory, "v1", identity=key, root_cache=cache, bridge="br0",
                   address="10.213.0.39", link="gr-1a2b3-v1") as host:
        host.run("uname", "-r")

Needs root.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from types import TracebackType

from grampus.bench.guests.guest_plan import parse_cpu_flags
from grampus.cli.composition.lab import IMAGE_DEFINITIONS
from grampus.core.clock import SystemClock
from grampus.core.progress import SilentProgress
from grampus.lab.images.cache import HostImages
from grampus.state.home import Home
from tests.system.machine import wait_for
from tests.system.systemd_host_disk import HostDisk
from tests.system.systemd_hosts import BOOT_TIMEOUT_S, IMAGE, answers_ssh
from tests.system.systemd_hosts import SCRIPTS as HOST_DEFINITIONS

SCRIPTS = Path(__file__).with_name("guest_host")
QEMU_IMAGE = "sid-guest"
MEMORY, DISK_SIZE, CPUS = "2G", "8G", 2
# Where the CPU is emulated.
PATIENCE = 5
# What a Debian kernel has as modules: disk, network, entropy, the file system of the disk, and what
# systemd's own loading of modules would bring, which the host image has masked.
_MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "virtio_rng", "xfs", "loop", "fuse")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class GuestHost:
    """The machine, running between enter and exit. `directory` gets its disk; `link` is the name
    of its network device on this machine."""

    def __init__(
        self,
        directory: Path,
        name: str,
        *,
        identity: Path,
        root_cache: Path,
        bridge: str,
        address: str,
        link: str,
    ) -> None:
        self.name = name
        self.address = address
        self._identity = identity
        self._images = Home(root_cache.resolve())
        self._bridge = bridge
        self._link = link
        self._disk = HostDisk(directory.resolve() / name)
        self._guest = Path()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> GuestHost:
        """Make its disk, boot it, and wait until it lets users in."""
        clock = SystemClock()
        self._disk.remove()
        root = HostImages(self._images, HOST_DEFINITIONS, clock).ensure(IMAGE, SilentProgress())
        guest = HostImages(self._images, IMAGE_DEFINITIONS, clock)
        self._guest = guest.ensure(QEMU_IMAGE, SilentProgress()).root
        key = self._identity.with_suffix(".pub").read_text()
        self._disk.make(root.root, self.name, key)
        try:
            subprocess.run(
                self._unshared("make-disk.sh"),
                env=self._environment(ROOT=str(root.root), SIZE=DISK_SIZE),
                stdin=subprocess.DEVNULL,
                timeout=300,
                check=True,
            )
            self.boot()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it and remove its disk; what its console said stays."""
        self._remove()

    def run(self, *argv: str, timeout_s: float = 60) -> str:
        """What a command prints there; it must succeed."""
        finished = self._run(*argv, timeout_s=timeout_s)
        said = f"code {finished.returncode}: {finished.stdout[-2000:]}{finished.stderr[-2000:]}"
        assert finished.returncode == 0, f"{' '.join(argv)} on {self.name}: {said}"
        return finished.stdout

    def boot(self) -> None:
        """Switch it on, and wait until it lets users in."""
        assert self._process is None, f"{self.name} is running"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._unshared("run.sh", "--pid", "--fork", "--kill-child"), *self._qemu()],
                env=self._environment(ADDRESS=f"{self.address}/24", MODULES=" ".join(_MODULES)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        device = Path("/sys/class/net", self._link)
        wait_for(device.exists, f"the network of {self.name}", 60)
        subprocess.run(["ip", "link", "set", self._link, "master", self._bridge, "up"], check=True)
        self.wait_until_up()

    def wait_until_up(self) -> None:
        """Wait until it lets users in and has started what it starts."""

        def is_up() -> bool:
            assert self._process is not None
            code = self._process.poll()
            assert code is None, f"QEMU ended with {code}: {self._log.read_text()[-2000:]}"
            if not answers_ssh(self.address):
                return False
            state = self._run("systemctl", "is-system-running").stdout.strip()
            return state in ("running", "degraded")

        wait_for(is_up, f"{self.name} to be up (see {self._log})", PATIENCE * BOOT_TIMEOUT_S)

    def end(self) -> None:
        """Cut its power. Nothing happens when it is off."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(30)
            wait_for(lambda: not Path("/sys/class/net", self._link).exists(), "its link to go")

    # -- inside -------------------------------------------------------------------------------

    @property
    def _log(self) -> Path:
        return self._disk.directory.with_suffix(".log")

    def _remove(self) -> None:
        self.end()
        self._disk.remove()

    def _qemu(self) -> list[str]:
        # A device alone runs nothing.
        flags = parse_cpu_flags(Path("/proc/cpuinfo").read_text())
        can_kvm = Path("/dev/kvm").exists() and bool(flags & {"vmx", "svm"})
        return [
            "qemu-system-x86_64",
            *("-nodefaults", "-no-user-config", "-display", "none", "-name", self.name),
            *("-machine", "q35", "-accel", "kvm" if can_kvm else "tcg,thread=multi", "-cpu", "max"),
            *("-smp", str(CPUS), "-m", MEMORY),
            *("-kernel", "/tmp/kernel", "-initrd", "/tmp/initramfs"),
            *("-append", "console=ttyS0 quiet panic=-1"),
            *("-serial", "stdio"),
            # What the host has not flushed is lost with the power.
            *("-drive", "file=/mnt/disk,format=raw,if=virtio,cache=none"),
            *("-netdev", f"tap,id=net,ifname={self._link},script=no,downscript=no"),
            *("-device", f"virtio-net-pci,netdev=net,mac={self._mac()}"),
            *("-device", "virtio-rng-pci"),
        ]

    def _mac(self) -> str:
        return "02:00:" + ":".join(f"{int(part):02x}" for part in self.address.split("."))

    def _environment(self, **further: str) -> dict[str, str]:
        disk, guest = str(self._disk.directory), str(self._guest)
        return {"PATH": _PATH, "LC_ALL": "C.UTF-8", "DISK": disk, "GUEST": guest, **further}

    def _unshared(self, script: str, *options: str) -> list[str]:
        shared = ("--mount", "--propagation", "private")
        return ["unshare", *shared, *options, "sh", "-eu", str(SCRIPTS / script)]

    def _run(self, *argv: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        options = ("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null")
        return subprocess.run(
            [
                *("ssh", "-q", "-i", str(self._identity), "-o", "ConnectTimeout=10"),
                *(word for option in options for word in ("-o", option)),
                *(f"root@{self.address}", "--", shlex.join(argv)),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
