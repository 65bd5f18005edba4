"""Prometheus and Alertmanager in a real lab: our rules are loaded, and Ceph's metrics are read."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.system.alert_scenarios import render_calm_day, render_faults
from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for


def ask(address: str, path: str) -> Any:
    """What Prometheus answers to a question."""
    with urllib.request.urlopen(f"{address}/api/v1/{path}", timeout=10) as answer:  # noqa: S310
        return json.load(answer)["data"]


def daemons(lab: CommandLine) -> set[str]:
    return {one["name"] for host in lab.json("lab", "status")["hosts"] for one in host["daemons"]}


def test_it_evaluates_our_rules_over_metrics_of_ceph_and_leaves_nothing(lab: CommandLine) -> None:
    before = daemons(lab)
    place = lab.json("lab", "monitoring", "up")
    try:
        assert daemons(lab) - before == {
            f"alertmanager-{place['host']}",
            f"prometheus-{place['host']}",
        }
        address = place["prometheus"]
        wait_for(
            lambda: bool(ask(address, "query?query=ceph_osd_up")["result"]), "Ceph's metrics", 120
        )

        def states() -> dict[str, tuple[str, str]]:
            groups = ask(address, "rules")["groups"]
            rules = [rule for group in groups for rule in group["rules"]]
            return {rule["name"]: (rule["health"], rule["state"]) for rule in rules}

        # No controller serves metrics here, which is one of the alerts.
        found = [("ok", "pending"), ("ok", "firing")]
        wait_for(lambda: states().get("GrampusControllerDown") in found, "the alert", 60)
        assert {health for health, _ in states().values()} == {"ok"}
        assert states()["GrampusOsdDown"] == ("ok", "inactive")
        (alertmanager,) = ask(address, "alertmanagers")["activeAlertmanagers"]
        assert alertmanager["url"].startswith(place["alertmanager"])
        # A second call changes nothing.
        assert lab.json("lab", "monitoring", "up") == place
    finally:
        lab.ok("lab", "monitoring", "down", "--yes")
    assert daemons(lab) == before
    assert "prometheus" not in LabMachine(lab, "h1").ceph("mgr", "module", "ls")["enabled_modules"]


@pytest.mark.parametrize("render", [render_faults, render_calm_day])
def test_a_failure_raises_its_alert_within_half_a_minute_and_a_calm_day_none(
    lab: CommandLine, tmp_path: Path, render: Callable[[str], str]
) -> None:
    """By the `promtool` of the monitoring's host image, which the test before has built."""
    shutil.copy(CHECKOUT / "monitoring" / "grampus-alerts.yaml", tmp_path)
    (tmp_path / "test.yaml").write_text(render("grampus-alerts.yaml"))
    roots = (lab.home / "images").glob("sid-monitoring-*/root")
    root = max(roots, key=lambda path: path.stat().st_mtime)
    script = 'mount --bind "$1" "$2/mnt" && exec chroot "$2" promtool test rules /mnt/test.yaml'
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
