"""What `sysctl` prints."""

from __future__ import annotations

from grampus.cli.composition.matrix_tuning import parse_sysctls


def test_values_of_several_numbers_are_apart_by_one_space() -> None:
    text = "net.ipv4.tcp_rmem = 4096\t131072\t6291456\nnet.ipv4.tcp_sack = 1\n"
    assert parse_sysctls(text) == {
        "net.ipv4.tcp_rmem": "4096 131072 6291456",
        "net.ipv4.tcp_sack": "1",
    }
    assert parse_sysctls("sysctl: cannot stat /proc/sys/x\n") == {}
