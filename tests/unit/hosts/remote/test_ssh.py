"""The command lines of the OpenSSH client, and what its errors mean."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from grampus.hosts.remote.ssh import SshPlace, explain_ssh, first_contact_argv, ssh_argv

PLACE = SshPlace(
    host="db1",
    user="root",
    address="10.0.5.11",
    port=2222,
    identity="/keys/id",
    known_hosts=Path("/home/known_hosts"),
    control_path=Path("/run/grampus/ssh-1a2b3/db1"),
)


def test_a_word_stays_one_word_whatever_is_in_it() -> None:
    argv = ["sh", "-c", 'echo "$1"; exit 3', "name", "a b'c", ""]
    assert shlex.split(ssh_argv(PLACE, argv)[-1]) == argv


def test_who_is_not_root_becomes_it_without_a_password() -> None:
    said = ssh_argv(replace(PLACE, user="operator"), ["true"])
    assert said[-2:] == ["operator@10.0.5.11", "sudo -n -- true"]


@pytest.mark.parametrize(
    "option",
    [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        "UserKnownHostsFile=/home/known_hosts",
        "GlobalKnownHostsFile=/dev/null",
        "HostKeyAlias=db1",
        "ControlMaster=auto",
        "IdentitiesOnly=yes",
    ],
)
def test_only_the_pinned_key_is_accepted(option: str) -> None:
    assert option in ssh_argv(PLACE, ["true"])


def test_the_first_contact_takes_a_key_but_no_other_one_than_a_pinned_one() -> None:
    first = first_contact_argv(PLACE)
    assert "StrictHostKeyChecking=accept-new" in first
    assert "ControlPath=none" in first  # a shared connection would not look at the key


@pytest.mark.parametrize(
    ("said", "code", "named"),
    [
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nx", "host-key", "pinned"),
        ("Host key verification failed.\n", "host-key", "db1"),
        ("root@10.0.5.11: Permission denied (publickey).\n", "ssh-denied", "publickey"),
        ("sudo: a password is required\n", "sudo-denied", "become root"),
        (
            "ssh: connect to host 10.0.5.11 port 2222: Connection refused\n",
            "host-unreachable",
            "Connection refused",
        ),
        ("", "host-unreachable", "the connection ended"),
    ],
)
def test_what_an_ended_connection_says(said: str, code: str, named: str) -> None:
    error = explain_ssh(PLACE, said)
    assert error.code == code
    assert named in error.problem
    assert error.remedy
