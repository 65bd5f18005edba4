"""Which archive is taken, and what of the machine's apt settings."""

from __future__ import annotations

import pytest

from grampus.core.errors import UsageError
from grampus.lab.images.archive import (
    decide_apt_options,
    decide_mirror,
    decide_proxy_environment,
    parse_apt_settings,
    require_mirror,
)

DUMP = """APT "";
APT::Architecture "amd64";
Acquire::http::Proxy "http://user:secret@proxy.test:3128";
Acquire::https::Proxy "DIRECT";
Acquire::http::Proxy::near.test "DIRECT";
Acquire::https::CaInfo "/etc/ssl/inspection.pem";
Acquire::https::archive.test::Verify-Peer "false";
Acquire::Check-Valid-Until "false";
DPkg::Post-Invoke:: "rm -f /var/cache/apt/*.bin || true";
"""


@pytest.mark.parametrize(
    ("targets", "mirror"),
    [
        (["Debian|Debian|main|http://archive.test/debian/"], "http://archive.test/debian"),
        (
            [
                "Other|Other|main|http://other.test/",
                "Debian|Debian-Security|main|http://security.test/debian-security/",
                "Debian|Debian|contrib|http://contrib.test/debian/",
                "Debian|Debian|main|https://second.test/debian/",
                "Debian|Debian|main|http://third.test/debian/",
            ],
            "https://second.test/debian",
        ),
        (["Ubuntu|Ubuntu|main|http://archive.test/ubuntu/"], None),
        (["Debian|Debian|main|mirror+file:/etc/apt/mirrors/debian.list"], None),
        (["Debian|Debian|main|http://user:secret@archive.test/debian"], None),
        (["", "garbage"], None),
        ([], None),
    ],
)
def test_mirror_of_the_machine(targets: list[str], mirror: str | None) -> None:
    assert decide_mirror(targets) == mirror


def test_settings_passed_to_the_build() -> None:
    assert decide_apt_options(parse_apt_settings(DUMP)) == (
        'Acquire::https::CaInfo "/etc/ssl/inspection.pem"',
        'Acquire::https::archive.test::Verify-Peer "false"',
    )


def test_proxies_become_environment_variables() -> None:
    assert decide_proxy_environment(parse_apt_settings(DUMP)) == {
        "http_proxy": "http://user:secret@proxy.test:3128",
        "no_proxy": "near.test",
    }


def test_secrets_never_become_options() -> None:
    assert "secret" not in " ".join(decide_apt_options(parse_apt_settings(DUMP)))


def test_machine_without_settings() -> None:
    assert decide_proxy_environment(parse_apt_settings("")) == {}


def test_users_choice() -> None:
    assert require_mirror("http://127.0.0.1:9/debian/") == "http://127.0.0.1:9/debian"


@pytest.mark.parametrize(
    "uri", ["debian", "ftp://archive.test/debian", "http://", "http://u:secret@archive.test/"]
)
def test_users_choice_that_is_none(uri: str) -> None:
    with pytest.raises(UsageError, match="GRAMPUS_DEBIAN_MIRROR") as caught:
        require_mirror(uri)
    assert "secret" not in str(caught.value)
