from __future__ import annotations

import pytest

from grampus.core.errors import RefusedError, UsageError
from grampus.core.units import GIB, MIB
from grampus.volumes.decide_clients import (
    FenceTargets,
    decide_client_address,
    decide_fence_targets,
)
from grampus.volumes.decide_driver import (
    DriverChoice,
    HostCapabilities,
    decide_asked,
    decide_drivers,
    explain_absence,
    require_driver_serves,
)
from grampus.volumes.model import DriverName, TransportName, VolumeSpec, WritePath, whole_mib
from grampus.volumes.write_paths import (
    JournalFacts,
    describe_write_path,
    explain_losses,
    parse_journal_facts,
    parse_max_lag_ms,
    parse_write_path,
)

NONE = "none"
OURS, ADMIN = "client.grampus.t.demo", "client.admin"
DEAD, LIVING, OTHER = "10.0.0.1:0/7", "10.0.0.1:0/8", "10.0.0.2:0/9"


@pytest.mark.parametrize(
    ("krbd", "nbd", "fuse", "absence", "drivers", "last_reason"),
    [
        (True, True, True, None, ["krbd", "volumed", "nbd", "qsd"], "the host has FUSE"),
        (True, False, False, NONE, ["krbd"], "the kernel has the rbd driver"),
        (
            False,
            True,
            False,
            NONE,
            ["nbd"],
            "the kernel has no rbd driver; volumed cannot be used: none; "
            "the host has nbd and rbd-nbd",
        ),
        (
            True,
            False,
            True,
            None,
            ["krbd", "volumed", "qsd"],
            "the kernel has no nbd driver; the host has FUSE",
        ),
        (
            False,
            False,
            True,
            NONE,
            ["qsd"],
            "the kernel has no rbd nor nbd driver; volumed cannot be used: none; the host has FUSE",
        ),
        (False, False, False, NONE, [], None),
    ],
)
def test_drivers_best_first_with_the_reason(
    krbd: bool,
    nbd: bool,
    fuse: bool,
    absence: str | None,
    drivers: list[str],
    last_reason: str | None,
) -> None:
    choices = decide_drivers(HostCapabilities(krbd, nbd, fuse, absence))
    assert [choice.driver for choice in choices] == drivers
    assert (choices[-1].reason if choices else None) == last_reason


def test_volumed_is_chosen_wherever_krbd_is_not_there() -> None:
    choice = decide_drivers(HostCapabilities(False, True, True, None))[0]
    assert choice == DriverChoice(
        "volumed", "the kernel has no rbd driver; volumed works on this host"
    )


@pytest.mark.parametrize("asked", ["krbd", "volumed", "nbd", "qsd"])
def test_driver_asked_for_is_the_only_choice_if_it_is_there(asked: DriverName) -> None:
    everything = HostCapabilities(True, True, True, None)
    assert decide_drivers(everything, asked=asked) == [DriverChoice(asked, "requested")]
    nothing = HostCapabilities(False, False, False, NONE)
    assert decide_drivers(nothing, asked=asked) == []
    assert len(explain_absence(nothing, asked)) > 3


@pytest.mark.parametrize(
    ("driver", "transport", "asked"),
    [
        (None, None, None),
        ("qsd", None, "qsd"),
        ("volumed", "classic", "volumed"),
        (None, "uring", "volumed"),
        (None, "auto", "volumed"),
    ],
)
def test_a_transport_asks_for_volumed(
    driver: DriverName | None, transport: TransportName | None, asked: DriverName | None
) -> None:
    assert decide_asked(driver, transport) == asked


@pytest.mark.parametrize("driver", ["krbd", "nbd", "qsd"])
def test_other_drivers_have_no_transport(driver: DriverName) -> None:
    with pytest.raises(UsageError, match="has no transports"):
        decide_asked(driver, "auto")


@pytest.mark.parametrize(
    ("watchers", "others", "expected"),
    [
        (["10.0.0.1:0/7"], [], "10.0.0.1:0/7"),
        ([], [], None),
        (["10.0.0.1:0/6", "10.0.0.1:0/7"], ["10.0.0.1:0/6"], "10.0.0.1:0/7"),
        (["10.0.0.1:0/6"], ["10.0.0.1:0/6"], None),
        (["10.0.0.2:0/7"], [], None),
        (["10.0.0.11:0/7", "10.0.0.1:0/8"], [], "10.0.0.1:0/8"),
    ],
    ids=["ours", "none", "beside-a-dead-one", "only-a-dead-one", "other-host", "like-prefix"],
)
def test_own_client_is_the_new_one_of_our_host(
    watchers: list[str], others: list[str], expected: str | None
) -> None:
    assert decide_client_address(watchers, others, "10.0.0.1") == expected


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [(GIB, GIB), (GIB + 1, GIB + MIB), (GIB - 1, GIB), (1, MIB), (320 * MIB, 320 * MIB)],
)
def test_sizes_are_rounded_up_to_whole_mib(size_bytes: int, expected: int) -> None:
    assert whole_mib(size_bytes) == expected


@pytest.mark.parametrize(
    ("recorded", "host", "owners", "watchers", "entities", "expected"),
    [
        (LIVING, "10.0.0.1", [LIVING], [LIVING], {LIVING: OURS}, FenceTargets((LIVING,))),
        # Cut off for so long that its watch and its session are gone: it may come back.
        (DEAD, "10.0.0.1", [DEAD], [], {}, FenceTargets((DEAD,))),
        (DEAD, "10.0.0.1", [], [], {}, FenceTargets((DEAD,))),
        # Our own command looks at the image, from the same host.
        (DEAD, "10.0.0.1", [DEAD], [DEAD, LIVING], {LIVING: ADMIN}, FenceTargets((DEAD,))),
        # It holds the lock: it is not cut off, and the lock not taken.
        (
            DEAD,
            "10.0.0.1",
            [LIVING],
            [LIVING],
            {LIVING: ADMIN},
            FenceTargets((), f"client.admin at {LIVING}"),
        ),
        # The recorded address is somebody else's now.
        (LIVING, "10.0.0.1", [], [LIVING], {LIVING: ADMIN}, FenceTargets(())),
        # The attaching was cut off: the client is known by its user, or by its host.
        (None, "10.0.0.1", [LIVING], [LIVING], {LIVING: OURS}, FenceTargets((LIVING,))),
        (None, "10.0.0.1", [DEAD], [DEAD], {}, FenceTargets((DEAD,))),
        (None, "10.0.0.1", [], [DEAD], {}, FenceTargets((DEAD,))),
        (DEAD, "10.0.0.1", [], [LIVING], {}, FenceTargets((DEAD,))),
        (None, "10.0.0.1", [], [OTHER], {}, FenceTargets(())),
        (None, "10.0.0.1", [OTHER], [], {}, FenceTargets((), f"an unknown client at {OTHER}")),
        # Detached as far as we know, and yet our own user has it open somewhere.
        (None, None, [OTHER], [OTHER], {OTHER: OURS}, FenceTargets((OTHER,))),
        (None, None, [], [], {}, FenceTargets(())),
    ],
)
def test_a_fence_hits_the_volumes_own_client_and_no_other(
    recorded: str | None,
    host: str | None,
    owners: list[str],
    watchers: list[str],
    entities: dict[str, str],
    expected: FenceTargets,
) -> None:
    assert expected == decide_fence_targets(
        entity=OURS,
        recorded=recorded,
        host_address=host,
        lock_owners=owners,
        watchers=watchers,
        entities=entities,
    )


EVERYTHING = HostCapabilities(True, True, True, None)
WITHOUT_VOLUMED = HostCapabilities(True, True, True, NONE)


@pytest.mark.parametrize(
    ("write_path", "is_unapplied", "reason"),
    [
        ("journal", False, "only volumed serves the write path journal"),
        ("journal", True, "only volumed serves the write path journal"),
        ("cache", False, "only volumed serves the write path cache"),
        ("direct", True, "only volumed can apply the journal that the image has"),
    ],
)
def test_what_a_journal_holds_is_known_to_volumed_alone(
    write_path: WritePath, is_unapplied: bool, reason: str
) -> None:
    choices = decide_drivers(EVERYTHING, write_path=write_path, is_unapplied=is_unapplied)
    assert choices == [DriverChoice("volumed", reason)]
    assert decide_drivers(WITHOUT_VOLUMED, write_path=write_path, is_unapplied=is_unapplied) == []
    for asked in ("krbd", "nbd", "qsd"):
        assert not decide_drivers(
            EVERYTHING,
            asked=asked,  # type: ignore[arg-type]
            write_path=write_path,
            is_unapplied=is_unapplied,
        )


@pytest.mark.parametrize(
    ("asked", "write_path", "is_unapplied", "code"),
    [
        (None, "journal", True, None),
        ("volumed", "journal", True, None),
        ("qsd", "direct", False, None),
        ("qsd", "direct", True, "unapplied-journal"),
        ("krbd", "journal", True, "unapplied-journal"),
        ("nbd", "journal", False, "write-path"),
        ("krbd", "cache", False, "write-path"),
    ],
)
def test_a_driver_that_would_leave_the_journal_out_is_refused_with_what_to_do(
    asked: DriverName | None, write_path: WritePath, is_unapplied: bool, code: str | None
) -> None:
    spec = VolumeSpec(name="demo", pool="p", image="i", size_bytes=GIB, write_path=write_path)
    if code is None:
        require_driver_serves(asked, spec, is_unapplied=is_unapplied)
        return
    with pytest.raises(RefusedError) as caught:
        require_driver_serves(asked, spec, is_unapplied=is_unapplied)
    assert caught.value.code == code
    advice = "replay demo" if code == "unapplied-journal" else "set demo --write-path direct"
    assert f"`grampus volume {advice}`" in caught.value.remedy


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, JournalFacts(False, False)),
        ({"journal": "open", "journal.objects": "j.1"}, JournalFacts(True, True)),
        ({"journal": "drained", "journal.objects": "j.1"}, JournalFacts(True, False)),
        ({"journal": "drained", "journal.objects": ""}, JournalFacts(False, False)),
        ({"journal": "open"}, JournalFacts(False, True)),
    ],
)
def test_what_an_image_says_of_its_journal(
    metadata: dict[str, str], expected: JournalFacts
) -> None:
    assert parse_journal_facts(metadata) == expected


def test_losses_are_said_for_each_write_path() -> None:
    cache = explain_losses("cache", 250)
    assert "last 250 ms" in cache.host_fails
    assert "never a mixture" in cache.host_fails
    assert "switches to the write path journal" in cache.disk_fails
    direct, journal = explain_losses("direct"), explain_losses("journal")
    assert (
        direct.disk_fails
        == journal.disk_fails
        == ("nothing: the host's disk holds no data of the volume")
    )
    assert "after the last flush" in journal.host_fails
    assert "and the journal" in journal.copies_fail
    assert "journal" not in direct.host_fails + direct.copies_fail


@pytest.mark.parametrize("path", ["direct", "journal", "cache"])
def test_a_write_path_by_its_name(path: WritePath) -> None:
    assert parse_write_path(path) == path


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("jurnal", "Did you mean 'journal'?"),
        ("Cache", "Did you mean 'cache'?"),
        ("cahce", "Did you mean 'cache'?"),
        ("dirct ", "Did you mean 'direct'?"),
        ("fast", "Choose one of direct, journal, cache."),
        ("", "Choose one of direct, journal, cache."),
    ],
)
def test_a_misspelt_write_path_gets_a_suggestion(text: str, advice: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_write_path(text)
    assert (caught.value.code, caught.value.remedy) == ("unknown-write-path", advice)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        *(("100ms", 100), ("0.5s", 500), ("10ms", 10), ("60s", 60_000), (" 1.5 S ", 1500)),
        *(("60000ms", 60_000), ("0.01s", 10), ("10.9ms", 10)),
    ],
)
def test_max_lag_is_a_time(text: str, expected_ms: int) -> None:
    assert parse_max_lag_ms(text) == expected_ms


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *(("100", "not a time"), ("", "not a time"), ("-1s", "not a time"), ("1m", "not a time")),
        *(("\u0661s", "not a time"), ("1e3ms", "not a time")),
        *(("9ms", "too short"), ("9.99ms", "too short"), ("0s", "too short")),
        *(("61s", "too long"), ("60001ms", "too long"), ("999999999s", "too long")),
    ],
)
def test_a_max_lag_that_is_none_is_a_clear_error(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        parse_max_lag_ms(text)
    assert caught.value.code == "invalid-max-lag"
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("path", "lag_ms", "shown"),
    [
        ("direct", 100, "direct"),
        ("cache", 100, "cache, at most 100 ms behind"),
        ("cache", 1500, "cache, at most 1.5 s behind"),
    ],
)
def test_a_write_path_for_people(path: WritePath, lag_ms: int, shown: str) -> None:
    assert describe_write_path(path, lag_ms) == shown
