"""Progress read from the lines of a build (wording of mmdebstrap 1.3 and apt 2.6)."""

from __future__ import annotations

from itertools import pairwise

from grampus.lab.images.build_progress import PHASE_TITLES, BuildProgressReader, BuildStep

TRANSCRIPT = """I: chroot architecture amd64 is equal to the host's architecture
I: running apt-get update...
Get:1 http://archive.test/debian sid InRelease [193 kB]
Get:2 http://archive.test/debian sid/main amd64 Packages [10.8 MB]
Fetched 11.0 MB in 1s (11.0 MB/s)
I: downloading packages with apt...
0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.
Get:1 http://archive.test/debian sid/main amd64 libc6 amd64 2.43-7 [2,870 kB]
Get:2 http://archive.test/debian sid/main amd64 tar amd64 1.35 [815 kB]
I: extracting archives...
I: installing essential packages...
Selecting previously unselected package libc6:amd64.
Unpacking libc6:amd64 (2.43-7) ...
Unpacking tar (1.35) over (1.35) ...
Setting up libc6:amd64 (2.43-7) ...
Setting up tar (1.35) ...
I: installing remaining packages inside the chroot...
0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.
Need to get 189 MB of archives.
Get:1 http://archive.test/debian sid/main amd64 ceph-osd amd64 20.2.4-1 [16.5 MB]
Get:2 http://archive.test/debian sid/main amd64 fio amd64 3.41-2 [1 MB]
Unpacking ceph-osd (20.2.4-1) ...
Unpacking fio (3.41-2) ...
Setting up ceph-osd (20.2.4-1) ...
Setting up fio (3.41-2) ...
Processing triggers for libc-bin (2.43-7) ...
I: cleaning package lists and apt cache...
I: success in 38.7 seconds
"""


def read_all(text: str) -> list[BuildStep]:
    reader = BuildProgressReader()
    steps = (reader.read(line) for line in text.splitlines())
    return [step for step in steps if step is not None]


def test_phases_come_in_order() -> None:
    phases = list(dict.fromkeys(step.phase for step in read_all(TRANSCRIPT)))
    assert phases == list(PHASE_TITLES)


def test_packages_are_counted() -> None:
    steps = read_all(TRANSCRIPT)
    assert BuildStep("download", "ceph-osd (1 of 2)", 0.5) in steps
    assert BuildStep("install", "unpacking fio", 0.5) in steps
    assert BuildStep("install", "setting up fio", 1.0) in steps


def test_the_silent_step_has_no_fraction() -> None:
    steps = read_all(TRANSCRIPT)
    assert BuildStep("base", "extracting the essential packages", None) in steps


def test_a_bar_never_goes_back_within_a_phase() -> None:
    known = [step for step in read_all(TRANSCRIPT) if step.fraction is not None]
    for before, after in pairwise(known):
        if before.phase == after.phase:
            assert (before.fraction or 0) <= (after.fraction or 0) <= 1


def test_without_a_total_nothing_is_claimed() -> None:
    assert BuildProgressReader().read("Unpacking tar (1.35) ...") is None
