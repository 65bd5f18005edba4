"""The scripts of a virtual machine: pure, from its plan to their text.

Nothing of it is installed anywhere: its first root is made in memory of a few programs and
modules of the host image with QEMU, and its second one is the root of the server's own host image,
shared read-only (9p), under a layer in memory.
"""

from __future__ import annotations

import json
import shlex
from pathlib import PurePosixPath

from grampus.bench.guests.guest_plan import TRANSLATED_MIB, GuestPlan
from grampus.core.units import MIB
from grampus.databases.layout import MYSQL_GID, MYSQL_UID, RUN_IN_DAEMON, VOLUME_IN_DAEMON
from grampus.databases.layout import server_daemon as container_of

SERVER_ROOT = PurePosixPath("/guest-root")  # in the daemon
ROOT = PurePosixPath("/root")  # in the guest, before it is its root
STOP = "stop"
ENDED = "the server ended with code"
# What a Debian kernel has as modules: disk, network, entropy, the shared root and the disk's
# file system.
MODULES = (
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "virtio_rng",
    "9pnet_virtio",
    "9p",
    "overlay",
    "xfs",
)
# Answers of 9p of at most so much; pages of what was read stay in the guest's cache.
_SHARED = "trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288"


def qemu_argv(plan: GuestPlan, *, initramfs: str, kernel: str, link_up: str) -> list[str]:
    """The command line of QEMU; it holds no secret. The guest's console is stdin and stdout."""
    kvm = plan.accelerator == "kvm"
    disk = {
        "driver": "rbd",
        "node-name": "disk",
        "pool": plan.disk.pool,
        **({"namespace": plan.disk.namespace} if plan.disk.namespace else {}),
        "image": plan.disk.image,
        "user": plan.disk.ceph_user,
        "conf": "/etc/ceph/ceph.conf",
        "discard": "unmap",
        # The server has a cache of its own.
        "cache": {"direct": True},
    }
    return [
        "qemu-system-x86_64",
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-name", plan.daemon, "-machine", "q35"),
        *("-accel", "kvm" if kvm else f"tcg,thread=multi,tb-size={TRANSLATED_MIB}"),
        *("-cpu", "host" if kvm else "max"),
        *("-smp", str(plan.cpus), "-m", f"{plan.memory_bytes // MIB}M"),
        *("-kernel", kernel, "-initrd", initramfs),
        *("-append", "console=ttyS0 quiet panic=-1"),
        *("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
        *("-object", "iothread,id=disk-thread"),
        *("-blockdev", json.dumps(disk)),
        *("-device", "virtio-blk-pci,drive=disk,iothread=disk-thread"),
        *("-netdev", f"tap,id=net,script={link_up},downscript=no"),
        *("-device", "virtio-net-pci,netdev=net"),
        *("-device", "virtio-rng-pci"),
        *_shared("server", str(SERVER_ROOT)),
        *_shared("instance", str(plan.instance.directory)),
    ]


def render_start(plan: GuestPlan) -> str:
    """The daemon's shell script: makes the guest's first root, and is there until QEMU ends.

    At SIGTERM the guest is asked to stop its server and to switch itself off.
    """
    qemu = qemu_argv(
        plan,
        initramfs="/tmp/initramfs",  # noqa: S108 - inside the container
        kernel="@KERNEL@",
        link_up=str(plan.directory / "link-up.sh"),
    )
    command = shlex.join(qemu).replace("@KERNEL@", '"/boot/vmlinuz-$version"')
    return f"""\
# QEMU of {plan.image_id}, and the server of {plan.server_root}
set -eu
version=$(ls /lib/modules)
tree=/tmp/tree
mkdir -p $tree/bin $tree/modules
cp /usr/bin/busybox $tree/bin/busybox
cp {plan.directory / "init"} $tree/init
chmod 0755 $tree/init
: > $tree/modules/order
for module in {" ".join(MODULES)}; do
  modprobe --set-version "$version" --show-depends "$module" > /tmp/needed
  while read -r kind file _; do
    [ "$kind" = insmod ] || continue
    name=$(basename "$file" .xz)
    [ ! -e "$tree/modules/$name" ] || continue
    xz -dc "$file" > "$tree/modules/$name"
    echo "$name" >> $tree/modules/order
  done < /tmp/needed
done
(cd $tree && find . | cpio --quiet -o -H newc) > /tmp/initramfs
rm -r $tree
mkfifo /tmp/console
# For reading too: an open would wait for the other end.
exec 3<> /tmp/console
trap 'echo {STOP} >&3' TERM
{command} <&3 &
qemu=$!
while kill -0 $qemu 2> /dev/null; do wait $qemu || true; done
"""


def render_link_up(plan: GuestPlan) -> str:
    """What QEMU runs once its network device is there, which goes when QEMU ends, with its route.

    The guest has the database's address; its host passes on what comes for it.
    """
    return f"""\
#!/bin/sh
set -eu
ip link set "$1" up
ip route replace {plan.instance.address}/32 dev "$1"
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/ipv4/conf/all/proxy_arp
"""


def render_init(plan: GuestPlan) -> str:
    """The guest's first program: makes its root, runs the server, and switches the machine off."""
    instance = plan.instance
    server = container_of(instance)
    root_instance = f"{ROOT}{instance.directory}"
    environment = " ".join(f"{name}={value}" for name, value in server.env.items())
    command = shlex.join([server.argv[0], f"--defaults-file={plan.config_file}", "--user=mysql"])
    run = f"env PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 {environment}".rstrip()
    return f"""\
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /lower /upper {ROOT}
/bin/busybox --install -s /bin
export PATH=/bin
trap 'sync; poweroff -f' EXIT
set -eu
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
while read -r module; do insmod "/modules/$module"; done < /modules/order
ip link set lo up
ip address add {instance.address}/32 dev eth0
ip link set eth0 up
ip route add {plan.host_address} dev eth0
ip route add default via {plan.host_address}
mount -t 9p -o {_SHARED} server /lower
mount -t tmpfs -o mode=0755 tmpfs /upper
mkdir /upper/changed /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/changed,workdir=/upper/work overlay {ROOT}
mount -t proc proc {ROOT}/proc
mount -t sysfs sysfs {ROOT}/sys
mount -t devtmpfs devtmpfs {ROOT}/dev
(cd {ROOT} && mount -t tmpfs -o mode=0755 tmpfs run && mount -t tmpfs -o mode=1777 tmpfs tmp)
mkdir -p {ROOT}{RUN_IN_DAEMON} {ROOT}{VOLUME_IN_DAEMON} {root_instance}
chown {MYSQL_UID}:{MYSQL_GID} {ROOT}{RUN_IN_DAEMON}
mount -t 9p -o {_SHARED} instance {root_instance}
mount -t xfs -o noatime,nodev,nosuid /dev/vda {ROOT}{VOLUME_IN_DAEMON}
ulimit -n 20000
chroot {ROOT} {run} {command} &
server=$!
while read -r line; do
  case "$line" in {STOP}*) kill $server ;; esac
done < /dev/ttyS0 &
code=0
wait $server || code=$?
echo "{ENDED} $code"
umount {ROOT}{VOLUME_IN_DAEMON}
"""


def _shared(tag: str, path: str) -> list[str]:
    return [
        "-fsdev",
        f"local,id={tag},path={path},security_model=none,readonly=on,multidevs=remap",
        "-device",
        f"virtio-9p-pci,fsdev={tag},mount_tag={tag}",
    ]
