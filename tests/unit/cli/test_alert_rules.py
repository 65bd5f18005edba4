"""Alert rules and the dashboard name metrics that there are; rules a layer and a page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from grampus.cli import serve_metrics
from grampus.databases.controller.metrics import ControllerMetrics
from tests.fakes.clock import FakeClock
from tests.system.alert_scenarios import FAULTS
from tests.system.command_line import CHECKOUT

RULES = yaml.safe_load((CHECKOUT / "monitoring" / "grampus-alerts.yaml").read_text())
DASHBOARD = json.loads((CHECKOUT / "monitoring" / "grampus-dashboard.json").read_text())
PAGE = (CHECKOUT / "docs" / "guide" / "monitoring.md").read_text()
_METRIC = re.compile(r"\bgrampus_[a-z_]+")
_GRID_COLUMNS = 24


def known_metrics() -> set[str]:
    """All that is exported, as Prometheus names it."""
    registry = CollectorRegistry()
    ControllerMetrics(registry, FakeClock())
    counted = {
        f"{metric.name}_total" if metric.type == "counter" else metric.name
        for metric in registry.collect()
    }
    source = Path(serve_metrics.__file__ or "").read_text()
    return counted | set(re.findall(r'"(grampus_[a-z_]+)"', source))


@pytest.mark.parametrize(
    "rule", [rule for group in RULES["groups"] for rule in group["rules"]], ids=lambda r: r["alert"]
)
def test_a_rule_can_fire_and_says_what_to_read(rule: dict[str, Any]) -> None:
    assert set(_METRIC.findall(rule["expr"])) <= known_metrics()
    assert rule["labels"]["layer"] in ("controller", "host", "database", "volume", "cluster")
    assert (CHECKOUT / rule["annotations"]["runbook"]).is_file()
    assert f"`{rule['alert']}`" in PAGE


@pytest.mark.parametrize("panel", DASHBOARD["panels"], ids=lambda panel: panel["title"])
def test_a_panel_shows_metrics_that_there_are(panel: dict[str, Any]) -> None:
    (target,) = panel["targets"]
    asked = {name.removesuffix("_bucket") for name in _METRIC.findall(target["expr"])}
    assert asked
    assert asked <= known_metrics()


def test_panels_lie_beside_each_other() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    squares = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(squares) == len(set(squares))
    assert max(x for x, _ in squares) < _GRID_COLUMNS
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


def test_no_metric_has_a_label_that_prometheus_sets_itself() -> None:
    """It would be renamed to `exported_job`, and a rule about it match whatever runs."""
    registry = CollectorRegistry()
    ControllerMetrics(registry, FakeClock())
    found = {
        label for one in registry._collector_to_names for label in getattr(one, "_labelnames", ())
    }
    source = Path(serve_metrics.__file__ or "").read_text()
    for labels in re.findall(r"labels=\[([^\]]*)\]", source):
        found |= set(re.findall(r'"([a-z_]+)"', labels))
    assert {"controller_job", "phase", "host", "volume", "write_path"} <= found
    assert not found & {"job", "instance"}


def test_each_failure_that_there_is_an_alert_for_is_tried() -> None:
    """By `promtool`, in a lab (`tests/integration/test_lab_monitoring.py`)."""
    # Of these three the first tells of load, and the others of what lasts for minutes.
    slow = {"GrampusJournalNearlyFull", "GrampusJobFails", "GrampusDatabaseWarning"}
    rules = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
    tried = {name: layer for fault in FAULTS for name, layer in fault.alerts.items()}
    assert tried == {
        name: rule["labels"]["layer"] for name, rule in rules.items() if name not in slow
    }


def test_the_page_lists_every_metric() -> None:
    assert known_metrics() == set(_METRIC.findall(PAGE))


def test_a_counter_is_there_before_the_first_event_that_an_alert_is_about() -> None:
    """`increase()` of one that appears with its first event is 0."""
    registry = CollectorRegistry()
    ControllerMetrics(registry, FakeClock())
    there = {
        sample.labels["kind"]
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "grampus_controller_events_total"
    }
    exprs = [rule["expr"] for group in RULES["groups"] for rule in group["rules"]]
    wanted = {
        kind
        for expr in exprs
        for kind in re.findall(r'grampus_controller_events_total\{kind="([^"]+)"\}', expr)
    }
    assert wanted
    assert wanted <= there
