from __future__ import annotations

import configparser
from dataclasses import replace

from grampus.ceph.conf import CephConf, mon_address_vector, render_ceph_conf

CONF = CephConf(
    fsid="0f1e2d3c-4b5a-4697-8899-aabbccddeeff",
    mon_addresses={"h1": "10.213.0.11", "h2": "10.213.0.12", "h3": "10.213.0.13"},
    public_network="10.213.0.0/24",
    library_dir="/usr/lib/x86_64-linux-gnu",
    osd_memory_target_bytes=1073741824,
    copies=3,
    min_size=2,
)
# Whoever changes a setting changes it here too, and says why where it is set.
GOLDEN = """\
[global]
fsid = 0f1e2d3c-4b5a-4697-8899-aabbccddeeff
mon initial members = h1,h2,h3
mon host = [v2:10.213.0.11:3300,v1:10.213.0.11:6789],[v2:10.213.0.12:3300,v1:10.213.0.12:6789],\
[v2:10.213.0.13:3300,v1:10.213.0.13:6789]
public network = 10.213.0.0/24
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
ms bind ipv6 = false
osd class dir = /usr/lib/x86_64-linux-gnu/rados-classes
plugin dir = /usr/lib/x86_64-linux-gnu/ceph
log to file = false
log to stderr = true
err to stderr = true
mon cluster log to file = false
mon cluster log to stderr = false
mon data avail warn = 5
mon data avail crit = 2
mon allow pool delete = true
mgr initial modules = balancer iostat
osd pool default size = 3
osd pool default min size = 2
osd crush chooseleaf type = 1
osd memory target = 1073741824
mon lease = 2
mon lease ack timeout factor = 1.5
mon accept timeout factor = 1.5
mon election timeout = 1
mon client ping interval = 2
mon client ping timeout = 6
mon client hunt interval = 1
mon client hunt interval max multiple = 3
objecter timeout = 2
objecter tick interval = 1
osd heartbeat interval = 2
osd heartbeat grace = 10
osd mon report interval = 1
osd pool default read lease ratio = 0.3
paxos propose interval = 0.05
mon osd blocklist default expire = 86400
mon osd adjust heartbeat grace = false
mon warn on slow ping time = 10000
bluestore slow ops warn lifetime = 60
osd mclock skip benchmark = true
rbd cache = false
"""


def test_golden() -> None:
    assert render_ceph_conf(CONF) == GOLDEN


def test_it_is_an_ini_file_that_names_no_key() -> None:
    parser = configparser.ConfigParser()
    parser.read_string(render_ceph_conf(CONF))
    assert parser.sections() == ["global"]
    assert not any("key" in name for name in parser["global"])


def test_both_messengers_have_their_own_port() -> None:
    assert mon_address_vector("192.0.2.1") == "[v2:192.0.2.1:3300,v1:192.0.2.1:6789]"


def test_a_secure_cluster_speaks_no_protocol_that_can_be_read() -> None:
    text = render_ceph_conf(replace(CONF, is_secure=True))
    assert "v1:" not in text
    settings = dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line)
    modes = {name: value for name, value in settings.items() if name.endswith(" mode")}
    assert set(modes.values()) == {"secure"}
    assert len(modes) == 6
    assert settings["ms bind msgr1"] == "false"
