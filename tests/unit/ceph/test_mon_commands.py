"""What `ceph` is asked in words, as documents."""

from __future__ import annotations

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.mon_commands import ClusterCommand, parse_command
from tests.fakes.commands import FakeRunner
from tests.fakes.mon_commands import as_ceph_command


@pytest.mark.parametrize(
    ("line", "to", "document"),
    [
        ("fsid", "mon", {}),
        ("health detail --format json", "mon", {"detail": "detail", "format": "json"}),
        ("health mute OSD_DOWN", "mon", {"code": "OSD_DOWN"}),
        ("osd pool ls --format json", "mon", {"format": "json"}),
        ("osd down 3 4", "mon", {"ids": ["3", "4"]}),
        (
            "osd pool create p 32 16 replicated rule --autoscale-mode=off",
            "mon",
            {
                "pool": "p",
                "pg_num": 32,
                "pgp_num": 16,
                "pool_type": "replicated",
                "erasure_code_profile": "rule",
                "autoscale_mode": "off",
            },
        ),
        ("osd pool set p size 3", "mon", {"pool": "p", "var": "size", "val": "3"}),
        (
            "osd pool rm p p --yes-i-really-really-mean-it",
            "mon",
            {"pool": "p", "pool2": "p", "yes_i_really_really_mean_it": True},
        ),
        ("osd purge 7 --force", "mgr", {"id": 7, "force": True}),
        ("balancer status --format json", "mgr", {"format": "json"}),
        ("pg dump pgs_brief", "mgr", {"dumpcontents": ["pgs_brief"]}),
    ],
)
def test_words_have_the_names_of_their_arguments(
    line: str, to: str, document: dict[str, object]
) -> None:
    found = parse_command(line.split())
    assert found is not None
    prefix = found.document.pop("prefix")
    assert line.startswith(prefix)
    assert (found.to, found.document, found.has_input) == (to, document, False)


def test_words_with_spaces_stay_whole() -> None:
    found = parse_command(["auth", "get-or-create", "client.a", "mon", "allow r"])
    document = {
        "prefix": "auth get-or-create",
        "entity": "client.a",
        "caps": ["mon", "allow r"],
    }
    assert found == ClusterCommand("mon", document)


@pytest.mark.parametrize(
    "line",
    [
        "tell mon.a sessions",  # of one daemon
        "osd df tree",  # more words than the command is known to take
        "osd purge osd.7 --force",  # no number
        "osd",
        "",
    ],
)
def test_other_words_are_left_to_ceph(line: str) -> None:
    assert parse_command(line.split()) is None


class Recorder(FakeRunner):
    """What was really run."""

    def run(self, argv, **options):  # type: ignore[no-untyped-def]
        self.argv = list(argv)
        self.stdin = options.get("stdin")
        return super().run(argv, **options)


def test_input_is_handed_on() -> None:
    runner = Recorder({"ceph osd new id -i -": "3"})
    assert CephCluster(runner).ceph("osd", "new", "id", "-i", "-", stdin="secret").stdout == "3"
    assert runner.argv[0] == "python3"
    assert runner.stdin == "secret"
    assert as_ceph_command(runner.argv)[-2:] == ["-i", "-"]


def test_without_bindings_the_program_is_asked() -> None:
    runner = Recorder({"ceph fsid": "an id"})
    assert CephCluster(runner, has_bindings=False).ceph("fsid").stdout == "an id"
    assert runner.argv[0] == "ceph"
    assert CephCluster(runner).ceph("fsid").stdout == "an id"
    assert runner.argv[0] == "python3"
