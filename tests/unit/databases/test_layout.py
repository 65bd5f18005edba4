from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from grampus.core.units import GIB, MIB
from grampus.databases.certificates import render_openssl_conf
from grampus.databases.layout import (
    MYSQL_UID,
    VOLUME_IN_DAEMON,
    InstancePlan,
    check_daemon,
    decide_daemon_uid,
    init_daemon,
    plan_instance,
    plan_scratch_instance,
    render_init_script,
    server_daemon,
)
from grampus.databases.model import DatabaseSpec, FlavourName, ScratchSpec
from grampus.databases.upgrades.upgrade_daemon import upgrade_daemon
from grampus.hosts.port import DaemonSpec, Limits
from tests.fakes.specs import database_spec


def spec(flavour: FlavourName = "mysql", memory_bytes: int = 512 * MIB) -> DatabaseSpec:
    return database_spec(name="demo", flavour=flavour, memory_bytes=memory_bytes, server_id=1)


def plan(flavour: FlavourName = "mysql") -> InstancePlan:
    return plan_instance(spec(flavour), PurePosixPath("/data"), PurePosixPath("/data/volumes/demo"))


def test_instances_of_one_database_share_no_name_and_no_path() -> None:
    scratch = plan_scratch_instance(
        ScratchSpec(database=spec(), address="10.9.0.11", server_id=2), PurePosixPath("/data")
    )
    own = plan()
    names = [own.daemon, own.init_daemon, scratch.daemon, scratch.init_daemon]
    assert len(set(names)) == 4
    assert not scratch.directory.is_relative_to(own.directory)
    assert not own.volume.is_relative_to(scratch.directory)
    assert scratch.settings == own.settings


def test_each_server_runs_as_a_user_that_no_other_daemon_has() -> None:
    def daemons(address: str) -> list[DaemonSpec]:
        asked = spec().model_copy(update={"address": address})
        made = plan_instance(asked, PurePosixPath("/d"), PurePosixPath("/v"))
        scratch = ScratchSpec(database=asked, address=f"{address}9", server_id=2)
        return [
            server_daemon(made),
            init_daemon(made),
            check_daemon(made, made.config_file),
            upgrade_daemon(made),
            server_daemon(plan_scratch_instance(scratch, PurePosixPath("/d"))),
        ]

    one, other = daemons("10.9.0.10"), daemons("10.9.0.11")
    # What is done for a database is done as its user, and its scratch instance is another server.
    assert len({daemon.uid for daemon in one[:4]}) == 1
    assert len({daemon.uid for daemon in (*one, *other)}) == 4
    for daemon in (*one, *other):
        assert daemon.gid == daemon.uid  # no group is shared either
        # On disk, everything belongs to a user that no server runs as.
        assert {bind.owner for bind in daemon.binds} == {MYSQL_UID}


@pytest.mark.parametrize(
    ("address", "uid"),
    [
        ("10.0.0.0", 0x78000000),
        ("127.0.0.1", 0x78000001),  # of golden volumes, which are nobody's
        ("10.213.0.30", 0x78D5001E),
        ("10.213.1.30", 0x78D5011E),
        ("192.168.208.30", 0x78A8D01E),
        ("10.255.255.255", 0x78FFFFFF),
    ],
)
def test_users_of_daemons_are_in_a_range_of_their_own(address: str, uid: int) -> None:
    assert decide_daemon_uid(address) == uid
    # systemd.io/UIDS-GIDS has a gap there, above what FreeIPA and SSSD give by default.
    assert 2_000_200_000 < uid < 2_147_352_576


def test_fewer_heaps_where_memory_is_short() -> None:
    def env(memory_bytes: int) -> dict[str, str]:
        made = plan_instance(
            spec(memory_bytes=memory_bytes), PurePosixPath("/d"), PurePosixPath("/v")
        )
        return dict(server_daemon(made).env)

    assert env(512 * MIB) == {"MALLOC_ARENA_MAX": "2"}
    assert env(4 * GIB) == {}


def test_a_bare_server_runs_on_its_host_without_limits() -> None:
    def made(runtime: str) -> InstancePlan:
        asked = spec().model_copy(update={"runtime": runtime})
        return plan_instance(asked, PurePosixPath("/d"), PurePosixPath("/v"))

    bare, contained = made("bare"), made("container")
    daemon = server_daemon(bare)
    assert daemon.bare
    assert daemon.limits == Limits()
    assert daemon.binds == server_daemon(contained).binds
    # Its settings are those of its size, as in a container.
    assert bare.settings == contained.settings
    assert not init_daemon(bare).bare
    assert not server_daemon(contained).bare


def test_both_daemons_see_the_same_things() -> None:
    assert init_daemon(plan()).binds == server_daemon(plan()).binds


def test_the_server_certificate_is_for_the_address_and_no_authority() -> None:
    text = render_openssl_conf(["10.9.0.10", "10.9.0.11"])
    server = text.split("[server]")[1].split("[client]")[0]
    assert "subjectAltName = IP:10.9.0.10, IP:10.9.0.11\n" in server
    assert "CA:FALSE" in server


class InitScript:
    """The script as it is, but for the volume's path and the server, which is a stub."""

    def __init__(self, directory: Path, *, server: str) -> None:
        self.volume = directory / "volume"
        self.volume.mkdir()
        stub = directory / "mysqld"
        stub.write_text(f"#!/bin/sh\n{server}\n")
        stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
        self.accounts = directory / "accounts.sql"
        self.accounts.write_text("CREATE USER 'demo';\n")
        zones = directory / "zones"
        zones.write_text("#!/bin/sh\necho \"INSERT INTO time_zone_name VALUES ('$1');\"\n")
        zones.chmod(zones.stat().st_mode | stat.S_IXUSR)
        component = directory / "component.so"
        component.write_text("")
        text = render_init_script(plan())
        for there, here in (
            (VOLUME_IN_DAEMON, self.volume),
            ("/usr/sbin/mysqld", stub),
            (plan().accounts_file, self.accounts),
            ("mysql_tzinfo_to_sql", zones),
            ("/usr/lib/mysql/plugin/component_classic_hashing.so", component),
        ):
            text = text.replace(str(there), str(here))
        self.file = directory / "initialise.sh"
        self.file.write_text(text)
        self.zones, self.component = zones, component

    def run(self) -> int:
        return subprocess.run(
            ["/bin/sh", str(self.file)], env=dict(os.environ), capture_output=True, check=False
        ).returncode


def test_a_whole_data_directory_gets_its_marker_and_is_never_touched_again(tmp_path: Path) -> None:
    script = InitScript(tmp_path, server="echo made > data/ibdata1")
    assert script.run() == 0
    assert (script.volume / "initialised").exists()
    (script.volume / "data" / "rows").write_text("precious")
    assert script.run() == 0
    assert (script.volume / "data" / "rows").read_text() == "precious"


def test_the_rest_of_a_cut_off_initialisation_is_wiped(tmp_path: Path) -> None:
    script = InitScript(tmp_path, server='test -z "$(ls data binlog tmp | grep half)"')
    for name in ("data", "binlog"):
        (script.volume / name).mkdir()
        (script.volume / name / "half").write_text("")
    assert script.run() == 0
    assert not list(script.volume.glob("*/half"))


def test_spare_redo_files_of_the_initialisation_are_not_left_for_the_first_start(
    tmp_path: Path,
) -> None:
    redo = "data/#innodb_redo"
    script = InitScript(
        tmp_path, server=f"mkdir {redo}; touch {redo}/#ib_redo6 {redo}/#ib_redo7_tmp"
    )
    assert script.run() == 0
    assert [path.name for path in (script.volume / redo).iterdir()] == ["#ib_redo6"]


def test_a_server_that_fails_leaves_no_marker(tmp_path: Path) -> None:
    script = InitScript(tmp_path, server="exit 1")
    assert script.run() != 0
    assert not (script.volume / "initialised").exists()


def test_a_new_data_directory_has_time_zones_and_hashes_and_its_accounts_last(
    tmp_path: Path,
) -> None:
    script = InitScript(tmp_path, server=f"cat > {tmp_path}/sql")
    assert script.run() == 0
    statements = (tmp_path / "sql").read_text().splitlines()
    # Nothing of it may become a transaction of the server's own.
    assert statements == [
        "SET SESSION sql_log_bin = 0;",
        "USE mysql;",
        "INSERT INTO time_zone_name VALUES ('/usr/share/zoneinfo');",
        "INSERT INTO component (component_group_id, component_urn) "
        "VALUES (1, 'file://component_classic_hashing');",
        "CREATE USER 'demo';",
    ]


def test_a_server_without_zoneinfo_and_component_is_made_all_the_same(tmp_path: Path) -> None:
    script = InitScript(tmp_path, server=f"cat > {tmp_path}/sql")
    script.zones.write_text("#!/bin/sh\necho 'TRUNCATE TABLE time_zone;'; exit 1\n")
    script.component.unlink()
    assert script.run() == 0
    statements = (tmp_path / "sql").read_text().split("\n")
    assert [line for line in statements if line] == [
        "SET SESSION sql_log_bin = 0;",
        "USE mysql;",
        "CREATE USER 'demo';",
    ]


def test_no_data_directory_is_made_without_its_accounts(tmp_path: Path) -> None:
    script = InitScript(tmp_path, server="cat > /dev/null")
    script.accounts.unlink()
    assert script.run() != 0
    assert not (script.volume / "initialised").exists()


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_a_data_directory_is_made_whatever_time_zone_its_user_wants(flavour: FlavourName) -> None:
    """Its option file may name a zone whose tables are made only here."""
    last = [
        line for line in render_init_script(plan(flavour)).splitlines() if "skip-log-bin" in line
    ]
    assert all("--default-time-zone=+00:00" in line for line in last)
    assert last


@pytest.mark.parametrize(
    ("flavour", "words"),
    [
        ("mysql", ["cat /data/databases/demo/accounts.sql", "--initialize --init-file=/dev/stdin"]),
        ("mariadb", ["mariadb-install-db", "--bootstrap", "cat /data/databases/demo/accounts.sql"]),
    ],
)
def test_accounts_are_made_while_nothing_listens(flavour: FlavourName, words: list[str]) -> None:
    text = render_init_script(plan(flavour))
    assert all(word in text for word in words)
    assert "--initialize-insecure" not in text
