from __future__ import annotations

import re

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.endpoints.haproxy import (
    BACKEND,
    SLOTS,
    Member,
    Slot,
    parse_slots,
    render_changes,
    render_config,
)

R1, R2, R3 = (Member(f"shop-r{n}", f"10.9.0.{n}", 3306) for n in (1, 2, 3))
# As HAProxy 3.2 answers; columns beyond those that are read are left out but for some.
ANSWER = """1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_port
2 replicas 1 r1 10.9.0.1 2 0 1 3306
2 replicas 2 r2 10.9.0.2 0 1 1 3306
2 replicas 3 r3 127.0.0.1 0 5 1 3306
2 replicas 4 r4 10.9.0.3 2 4 1 3306

"""


def used(name: str, member: Member) -> Slot:
    return Slot(BACKEND, name, member.address, member.port, is_used=True)


def free(name: str) -> Slot:
    return Slot(BACKEND, name, "127.0.0.1", 3306, is_used=False)


def test_its_configuration_has_a_place_for_each_and_more() -> None:
    text = render_config("10.9.0.50", 3306, [R1, R2], "/run/mysqld/haproxy.sock")
    assert "    bind 10.9.0.50:3306\n" in text
    servers = re.findall(r"^    server (\S+) (\S+)(.*)$", text, re.MULTILINE)
    assert len(servers) == SLOTS
    assert servers[:3] == [
        ("r1", "10.9.0.1:3306", ""),
        ("r2", "10.9.0.2:3306", ""),
        ("r3", "127.0.0.1:3306", " disabled"),
    ]
    # Who ends an idle session is the server: 8 h by default.
    assert re.findall(r"timeout (?:client|server) (\S+)", text) == ["9h", "9h"]


def test_what_it_answers_is_read() -> None:
    assert parse_slots(ANSWER) == [
        used("r1", R1),
        Slot(BACKEND, "r2", "10.9.0.2", 3306, is_used=False),
        free("r3"),
        used("r4", R3),  # disabled in the configuration, and made ready since
    ]


@pytest.mark.parametrize(
    "answer",
    ["", "Permission denied\n", "1\n# be_id be_name srv_name\n2 replicas r1\n", "1\n\n"],
    ids=["nothing", "refusal", "other-columns", "no-server"],
)
def test_another_answer_is_told(answer: str) -> None:
    with pytest.raises(GrampusError, match="is not valid"):
        parse_slots(answer)


LEAVE = ["set server replicas/{0} state maint", "shutdown sessions server replicas/{0}"]
JOIN = ["set server replicas/{0} addr {1} port 3306", "set server replicas/{0} state ready"]


def leave(slot: str) -> list[str]:
    return [line.format(slot) for line in LEAVE]


def join(slot: str, member: Member) -> list[str]:
    return [line.format(slot, member.address) for line in JOIN]


@pytest.mark.parametrize(
    ("slots", "members", "commands"),
    [
        ([used("r1", R1), free("r2")], [R1], []),
        ([free("r1"), free("r2")], [], []),
        ([used("r1", R1), free("r2")], [R1, R2], join("r2", R2)),
        ([used("r1", R1), used("r2", R2)], [R2], leave("r1")),
        ([used("r1", R1), used("r2", R2)], [R2, R3], [*leave("r1"), *join("r1", R3)]),
        ([used("r1", R1), used("r2", R2)], [], [*leave("r1"), *leave("r2")]),
        # One that was put out by somebody else is taken in again.
        ([Slot(BACKEND, "r1", R1.address, 3306, is_used=False)], [R1], join("r1", R1)),
    ],
    ids=["as-it-is", "nobody", "joins", "leaves", "changes-places", "all-leave", "put-out"],
)
def test_who_stays_keeps_its_sessions(
    slots: list[Slot], members: list[Member], commands: list[str]
) -> None:
    assert render_changes(slots, members) == commands
