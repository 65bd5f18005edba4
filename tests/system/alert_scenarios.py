"""Faults as Prometheus sees them, and the alerts that they must raise within 30 s.

`promtool test rules` evaluates our rules over series that are written down here: one test for each
fault, and a day on which nothing is wrong that somebody must know of. What the series are like
while something is wrong is taken from `grampus.cli.serve_metrics` and Ceph's module `prometheus`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

EVERY_S = 5
BEFORE_S = 60  # all is well until then
WITHIN_S = 30
DAY_S = 24 * 3600
CALM_EVERY_S = 15  # as on a site whose Prometheus reads four times a minute

_FAILED_OVER = 'grampus_controller_events_total{controller_job="failover",kind="failed-over"}'
_RESTARTED = 'grampus_controller_events_total{controller_job="servers",kind="server-restarted"}'
_WARNED = "grampus_database_warnings"
_SUCCESS = 'grampus_controller_job_last_success_timestamp_seconds{controller_job="failover"}'
_FAILURES = 'grampus_controller_job_failures_total{controller_job="failover"}'
# What is exported while all is well, and its value.
WELL: Mapping[str, float] = {
    "grampus_state_up": 1,
    **{f'grampus_host_reachable{{host="h{number}"}}': 1 for number in (1, 2, 3)},
    **{f'grampus_host_maintenance{{host="h{number}"}}': 0 for number in (1, 2, 3)},
    'grampus_database_failed{database="orders"}': 0,
    'grampus_volume_up{volume="orders"}': 1,
    'grampus_volume_stalled{volume="orders"}': 0,
    'grampus_volume_journal_fill_ratio{volume="orders"}': 0.3,
    _FAILED_OVER: 0,
    _RESTARTED: 0,
    _FAILURES: 0,
    **{f'ceph_osd_up{{ceph_daemon="osd.{number}"}}': 1 for number in (0, 1, 2)},
    **{f'ceph_mon_quorum_status{{ceph_daemon="mon.h{number}"}}': 1 for number in (1, 2, 3)},
    "ceph_health_status": 0,
}
GONE = "stale"  # nobody exports it any more


@dataclass(frozen=True)
class Fault:
    """One that begins at `BEFORE_S`.

    `series` are those that change: what they are, and how many seconds after the fault. `alerts`
    fire 30 s after it, each with its layer, and no other.
    """

    name: str
    series: Mapping[str, tuple[int, float | str]]
    alerts: Mapping[str, str] = field(default_factory=dict)


def _host_lost() -> dict[str, tuple[int, float | str]]:
    return {
        'grampus_host_reachable{host="h1"}': (3, 0),
        'grampus_volume_up{volume="orders"}': (3, GONE),
        'grampus_volume_stalled{volume="orders"}': (3, GONE),
        'grampus_volume_journal_fill_ratio{volume="orders"}': (3, GONE),
    }


_OF_GRAMPUS = [name for name in WELL if name.startswith("grampus_")]
_OF_CEPH = [name for name in WELL if name.startswith("ceph_")]
FAULTS = (
    Fault(
        "a host without power",
        {
            **_host_lost(),
            'ceph_osd_up{ceph_daemon="osd.0"}': (6, 0),
            'ceph_mon_quorum_status{ceph_daemon="mon.h1"}': (10, 0),
            _FAILED_OVER: (9, 1),
        },
        {
            "GrampusHostUnreachable": "host",
            "GrampusFailedOver": "host",
            "GrampusOsdDown": "cluster",
            "GrampusMonOutOfQuorum": "cluster",
        },
    ),
    Fault("a host cut off from the controller", _host_lost(), {"GrampusHostUnreachable": "host"}),
    Fault(
        "a lost host whose databases stay where they are",
        {**_host_lost(), f'{_WARNED}{{database="orders",kind="failover-no-host"}}': (10, 1)},
        {"GrampusHostUnreachable": "host", "GrampusFailoverFailed": "host"},
    ),
    Fault("a killed server", {_RESTARTED: (4, 1)}, {"GrampusServerRestarted": "database"}),
    Fault(
        "a server that does not start",
        {'grampus_database_failed{database="orders"}': (2, 1), _RESTARTED: (4, 1)},
        {"GrampusServerFailed": "database", "GrampusServerRestarted": "database"},
    ),
    Fault(
        "a driver that ended or hangs",
        {'grampus_volume_up{volume="orders"}': (2, 0)},
        {"GrampusVolumeDown": "volume"},
    ),
    Fault(
        "a cluster that does not answer",
        {'grampus_volume_stalled{volume="orders"}': (5, 1)},
        {"GrampusVolumeStalled": "cluster"},
    ),
    Fault(
        "a full cluster",
        {"ceph_health_status": (5, 2)},
        {"GrampusClusterUnhealthy": "cluster"},
    ),
    Fault(
        "a killed OSD",
        {'ceph_osd_up{ceph_daemon="osd.1"}': (5, 0), "ceph_health_status": (5, 1)},
        {"GrampusOsdDown": "cluster"},
    ),
    Fault(
        "a killed MON",
        {'ceph_mon_quorum_status{ceph_daemon="mon.h2"}': (5, 0), "ceph_health_status": (5, 1)},
        {"GrampusMonOutOfQuorum": "cluster"},
    ),
    Fault(
        "a killed controller",
        dict.fromkeys(_OF_GRAMPUS, (5, GONE)),
        {"GrampusControllerDown": "controller"},
    ),
    Fault(
        "a lost MGR",
        dict.fromkeys(_OF_CEPH, (5, GONE)),
        {"GrampusCephMetricsMissing": "cluster"},
    ),
    # What must not be told of: it is over before anybody could act, or somebody does it.
    Fault(
        "a host that is started anew in its maintenance",
        {
            'grampus_host_maintenance{host="h2"}': (0, 1),
            'grampus_host_reachable{host="h2"}': (5, 0),
        },
    ),
    Fault("an unhealthy cluster that works", {"ceph_health_status": (0, 1)}),
)


def render_faults(rules: str) -> str:
    """A file for `promtool test rules`, about the rules in the file of that path."""
    return _render(rules, EVERY_S, [_render_fault(fault) for fault in FAULTS])


def render_calm_day(rules: str) -> str:
    """The same, of a controller that is started anew, and a host and a volume that one look finds
    silent, on a full day."""
    return _render(rules, CALM_EVERY_S, [_render_day()])


def _render(rules: str, every_s: int, tests: list[dict[str, Any]]) -> str:
    document = {"rule_files": [rules], "evaluation_interval": f"{every_s}s", "tests": tests}
    return yaml.safe_dump(document, sort_keys=False, width=1000)


def _render_fault(fault: Fault) -> dict[str, Any]:
    names = dict.fromkeys([*WELL, *fault.series])
    return {
        "name": fault.name,
        "interval": f"{EVERY_S}s",
        "input_series": [
            {"series": name, "values": _values(WELL.get(name), fault.series.get(name))}
            for name in names
        ],
        "promql_expr_test": [
            _expect(BEFORE_S - EVERY_S, {}),
            _expect(BEFORE_S + WITHIN_S, fault.alerts),
        ],
    }


def _values(well: float | None, change: tuple[int, float | str] | None) -> str:
    """Of one series, in promtool's notation: before the fault, and after it."""
    after_s, value = change or (0, GONE if well is None else well)
    count = (BEFORE_S + after_s + EVERY_S - 1) // EVERY_S
    before = f"_x{count}" if well is None else f"{well:g}x{count - 1}"
    rest = (WITHIN_S + BEFORE_S) // EVERY_S
    return f"{before} {GONE} _x{rest}" if value == GONE else f"{before} {value:g}x{rest}"


def _render_day() -> dict[str, Any]:
    count = DAY_S // CALM_EVERY_S
    hiccup = count // 3
    rest = count - hiccup - 1
    series = {name: f"{value:g}x{count}" for name, value in WELL.items()}
    series["grampus_state_up"] = f"1x{hiccup - 1} {GONE} 1x{rest}"
    for name in ('grampus_host_reachable{host="h3"}', 'grampus_volume_up{volume="orders"}'):
        series[name] = f"1x{hiccup - 1} 0 1x{rest}"
    series["ceph_health_status"] = f"0x{hiccup - 1} 1x{rest}"
    series[_SUCCESS] = f"0+{CALM_EVERY_S}x{count}"
    return {
        "name": "a calm day",
        "interval": f"{CALM_EVERY_S}s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count_over_time(ALERTS{{alertstate="firing"}}[{DAY_S}s])',
                "eval_time": f"{DAY_S}s",
                "exp_samples": [],
            }
        ],
    }


def _expect(at_s: int, alerts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "expr": 'count by (alertname, layer) (ALERTS{alertstate="firing"})',
        "eval_time": f"{at_s}s",
        "exp_samples": [
            {"labels": f'{{alertname="{name}", layer="{layer}"}}', "value": 1}
            for name, layer in alerts.items()
        ],
    }
