"""`make journal-space`: what journals take of their OSDs' databases, into docs/proof.

Exit codes: 0 all limits are kept; 1 one is missed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TextIO

from tests.proof.journal_space.page import Found, decide_misses, render_page
from tests.proof.journal_space.samples import OsdSpace, Sample, count_pairs, parse_osds
from tests.proof.proof_lab import observe_versions, own_lab
from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.journal_pairs import count_by_object, slots_prefix
from tests.system.lab_machine import LabMachine

LAB = "journal-space"
DIRECTORY = CHECKOUT / "build" / "journal-space"
PAGE = CHECKOUT / "docs" / "proof" / "journal-space.md"
FIGURES = CHECKOUT / "docs" / "proof" / "journal-space.json"
HOST, POOL = "h1", "databases"
# A ring takes a quarter of its volume, 1 GiB at most.
SIZE, WRITTEN = "4G", "128m"
VOLUMES, LOAD_S, RATE = 10, 3600, 20
LOOK_EVERY_S, REST_S = 300.0, 60.0
# fio lays its files out first.
LATEST_S = 900.0
COMPACT_TIMEOUT_S = 600.0


def main() -> int:
    """Measure on a lab of its own, write the page; the exit code."""
    volumes, load_s, rate = (
        int(os.environ.get(f"GRAMPUS_JOURNAL_SPACE_{name}", value))
        for name, value in {"VOLUMES": VOLUMES, "LOAD_S": LOAD_S, "RATE": RATE}.items()
    )
    with own_lab(LAB, DIRECTORY) as command_line:
        found = measure(command_line, volumes, load_s, rate)
    FIGURES.write_text(json.dumps(asdict(found), indent=1) + "\n")
    PAGE.write_text(render_page(found))
    misses = decide_misses(found)
    say(" ".join(misses) or "All limits are kept.", f"The page is {PAGE}.")
    return 1 if misses else 0


def measure(command_line: CommandLine, volumes: int, load_s: int, rate: int) -> Found:
    """Write to so many volumes, and look at the databases before, meanwhile and afterwards."""
    machine = LabMachine(command_line, HOST)
    directories, journals = {}, {}
    for number in range(1, volumes + 1):
        name = f"v{number:02}"
        command_line.ok("volume", "create", name, "--size", SIZE, "--write-path", "journal")
        command_line.ok("volume", "attach", name, "--host", HOST)
        shown = command_line.json("volume", "show", name)
        directories[name] = shown["mount_path"]
        journals[name] = slots_prefix(machine, POOL, shown["image"])
    began_s = time.monotonic()

    def look(moment: str) -> Sample:
        namespaces = [prefix.partition("/")[0] for prefix in journals.values()]
        counts = count_by_object(machine, POOL, namespaces)
        sample = Sample(
            moment,
            time.monotonic() - began_s,
            count_pairs(journals, counts),
            observe_osds(machine),
        )
        say(f"{moment}: {max(sample.pairs.values())} pairs at most.")
        return sample

    before = look("before")
    during: list[Sample] = []
    # Into a file: fio says more than a pipe holds, and nobody reads until it has ended.
    with (DIRECTORY / "fio.json").open("w+", encoding="utf-8") as told:
        process = start_load(machine, directories, load_s, rate, told)
        loaded_s = time.monotonic()
        while process.poll() is None:
            elapsed_s = time.monotonic() - loaded_s
            assert elapsed_s < load_s + LATEST_S, "fio does not end"
            if elapsed_s < LOOK_EVERY_S * (len(during) + 1):
                time.sleep(1)
            else:
                during.append(look(f"{LOOK_EVERY_S * (len(during) + 1) / 60:.0f} min"))
        told.seek(0)
        said = told.read()
    assert process.returncode == 0, said[-2000:]
    writes = {
        job["jobname"]: job["write"]["total_ios"]
        for job in json.loads(said[said.index("{") :])["jobs"]
    }
    assert set(writes) == set(directories), said[:2000]
    assert min(writes.values()) > 0, said[:2000]
    during.append(look("end of the load"))
    time.sleep(REST_S)
    drained = look("a minute later")
    for osd in drained.osds:
        machine.ok("ceph", "tell", f"osd.{osd}", "compact", timeout_s=COMPACT_TIMEOUT_S)
    time.sleep(REST_S)  # an OSD estimates its pairs now and then
    return Found(
        before=before,
        during=during,
        drained=drained,
        compacted=look("compacted"),
        writes=sum(writes.values()),
        load_s=load_s,
        facts={
            **observe_versions(machine),
            "load": f"{volumes} volumes of {SIZE}, {WRITTEN} of each written, at most {rate} "
            "writes/s for each",
            "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} (UTC)",
        },
    )


def start_load(
    machine: LabMachine,
    directories: Mapping[str, str],
    load_s: int,
    rate: int,
    told: TextIO,
) -> subprocess.Popen[bytes]:
    """fio, with a job and a file for each volume; what it found goes to `told`."""
    options = {
        "ioengine": "psync",
        "rw": "randwrite",
        "bs": "4k",
        "direct": "1",
        "fsync": "1",
        "size": WRITTEN,
        "time_based": "1",
        "runtime": str(load_s),
        "rate_iops": str(rate),
    }
    argv = ["fio", "--output-format=json"]
    for name, directory in directories.items():
        argv += [f"--name={name}", f"--filename={directory}/written"]
        argv += [f"--{option}={value}" for option, value in options.items()]
    return subprocess.Popen(machine.argv(*argv), stdout=told, stderr=subprocess.STDOUT)


def observe_osds(machine: LabMachine) -> dict[int, OsdSpace]:
    """What each OSD's database takes now."""
    df = machine.ceph("osd", "df")
    bluefs: dict[int, Any] = {
        node["id"]: machine.ceph("tell", f"osd.{node['id']}", "perf", "dump", "bluefs")
        for node in df["nodes"]
    }
    return parse_osds(df, bluefs)


def say(*sentences: str) -> None:
    sys.stdout.write(f"{' '.join(sentences)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
