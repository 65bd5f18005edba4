"""ceph.conf of a cluster that Grampus brings up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grampus.ceph.cluster import BLOCKLIST_EXPIRE_S


@dataclass(frozen=True)
class CephConf:
    """What goes into ceph.conf."""

    fsid: str
    mon_addresses: Mapping[str, str]  # mon name -> IPv4 address
    public_network: str
    library_dir: str  # such as /usr/lib/x86_64-linux-gnu
    osd_memory_target_bytes: int
    copies: int
    min_size: int
    is_secure: bool = False  # every message between daemons and clients is encrypted


# The older messenger protocol knows no encryption: without it, nobody can be talked into that.
# Source: Ceph documentation, "Messenger v2", connection mode configuration options.
_SECURE = {
    "ms bind msgr1": "false",
    "ms cluster mode": "secure",
    "ms service mode": "secure",
    "ms client mode": "secure",
    "ms mon cluster mode": "secure",
    "ms mon service mode": "secure",
    "ms mon client mode": "secure",
    # Or the kernel's driver would knock with the older protocol.
    "rbd default map options": "ms_mode=secure",
}


def mon_address_vector(address: str, *, is_secure: bool = False) -> str:
    """The messenger addresses of a MON, as `mon host` and monmaptool spell them."""
    older = "" if is_secure else f",v1:{address}:6789"
    return f"[v2:{address}:3300{older}]"


def render_ceph_conf(conf: CephConf) -> str:
    """The text of ceph.conf."""
    mon_host = ",".join(
        mon_address_vector(address, is_secure=conf.is_secure)
        for address in conf.mon_addresses.values()
    )
    settings = {
        "fsid": conf.fsid,
        "mon initial members": ",".join(conf.mon_addresses),
        "mon host": mon_host,
        "public network": conf.public_network,
        "auth cluster required": "cephx",
        "auth service required": "cephx",
        "auth client required": "cephx",
        "auth allow insecure global id reclaim": "false",
        "ms bind ipv6": "false",
        # Debian's 20.2.4 has relative defaults: librbd then finds no object classes.
        "osd class dir": f"{conf.library_dir}/rados-classes",
        "plugin dir": f"{conf.library_dir}/ceph",
        "log to file": "false",
        "log to stderr": "true",
        "err to stderr": "true",
        "mon cluster log to file": "false",
        "mon cluster log to stderr": "false",
        # MONs share a disk with everything else on this machine: judge what is left, not a share.
        "mon data avail warn": "5",
        "mon data avail crit": "2",
        "mon allow pool delete": "true",
        "mgr initial modules": "balancer iostat",
        "osd pool default size": str(conf.copies),
        "osd pool default min size": str(conf.min_size),
        "osd crush chooseleaf type": "1",
        "osd memory target": str(conf.osd_memory_target_bytes),
        # How long writes wait when a host dies silently: the MONs that are left must agree again,
        # and the OSDs must notice and report. Ceph's defaults are for networks that lose packets
        # for seconds; hosts of one site, or of one machine, do not.
        "mon lease": "2",
        "mon lease ack timeout factor": "1.5",
        "mon accept timeout factor": "1.5",
        "mon election timeout": "1",
        "mon client ping interval": "2",
        "mon client ping timeout": "6",
        # In s, and the most that it grows to, as a multiple of it. MONs without a leader turn
        # clients away, and a client waits longer each time before it looks for a MON again: by
        # default from 3 to 30 s, so it learns late of the new leader.
        "mon client hunt interval": "1",
        "mon client hunt interval max multiple": "3",
        # In s. A client that waits for an OSD asks for the newest map only then: by default after
        # 10 s, looking every 5 s, however long the MONs have known that the OSD is down.
        "objecter timeout": "2",
        "objecter tick interval": "1",
        "osd heartbeat interval": "2",
        "osd heartbeat grace": "10",
        "osd mon report interval": "1",
        # Of the heartbeat grace. A placement group that loses an OSD serves nobody until so long
        # after the map that says so, lest that OSD still answers reads: by default 8 s of 10.
        # Source: Ceph, src/osd/PeeringState.cc (prior_readable_until_ub).
        "osd pool default read lease ratio": "0.3",
        # In s. A change of any map (a snapshot's id, a key, a blocklist entry) waits until so long
        # after the last one. By default a second, which on a large cluster keeps maps few; writers
        # wait for it too while their snapshot is taken.
        # Source: ceph.io, "Ceph paxos propose interval"; PaxosService::should_propose.
        "paxos propose interval": "0.05",
        # A client whose exclusive lock librbd breaks is fenced for as long as one that Grampus
        # fences, and such an entry replaces that of Grampus. The client's own option for it,
        # `rbd_blocklist_expire_seconds`, makes Ceph 20.2's MONs refuse the command (EINVAL).
        "mon osd blocklist default expire": str(BLOCKLIST_EXPIRE_S),
        # Otherwise each fault makes the cluster slower to notice the next one.
        "mon osd adjust heartbeat grace": "false",
        # In ms. By default a twentieth of the grace, averaged over up to 15 minutes: after a
        # partition, or on a busy machine, health would say so long after all is well again.
        "mon warn on slow ping time": "10000",
        # In s, likewise: by default a single slow request is held against an OSD for a day.
        "bluestore slow ops warn lifetime": "60",
        # Otherwise an OSD measures its device when it starts: a hard disk of 150 IOPS for most of a
        # minute, and again each time, since what it finds is less than it believes of a device.
        "osd mclock skip benchmark": "true",
        # A block device with a file system's cache above it is slowed down by librbd's own.
        "rbd cache": "false",
        **(_SECURE if conf.is_secure else {}),
    }
    lines = [f"{name} = {value}" for name, value in settings.items()]
    return "\n".join(["[global]", *lines, ""])
