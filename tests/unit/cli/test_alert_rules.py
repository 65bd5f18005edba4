"""Alert rules name metrics that there are, a layer, and a page that is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from grampus.cli import serve_metrics
from grampus.databases.controller.metrics import ControllerMetrics
from tests.fakes.clock import FakeClock
from tests.system.command_line import CHECKOUT

RULES = yaml.safe_load((CHECKOUT / "monitoring" / "grampus-alerts.yaml").read_text())
PAGE = (CHECKOUT / "docs" / "guide" / "monitoring.md").read_text()
_METRIC = re.compile(r"\bgrampus_[a-z_]+")


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


def test_the_page_lists_every_metric() -> None:
    assert known_metrics() == set(_METRIC.findall(PAGE))
