from __future__ import annotations

import pytest

from grampus.core.actor import decide_actor, observe_actor

NOBODY = 2**32 - 1


@pytest.mark.parametrize(
    ("login_uid", "environment", "uid", "actor"),
    [
        (NOBODY, {}, 0, "root"),
        (NOBODY, {"SUDO_USER": "anna"}, 0, "anna"),
        (NOBODY, {"SUDO_USER": ""}, 0, "root"),
        (0, {"SUDO_USER": "anna"}, 0, "root"),
        (NOBODY, {}, 2**31 - 7, "2147483641"),
    ],
)
def test_who_asked(login_uid: int, environment: dict[str, str], uid: int, actor: str) -> None:
    assert decide_actor(login_uid, environment, uid) == actor


def test_somebody_runs_this() -> None:
    assert observe_actor()
