"""Layouts: databases on the hosts of the OSDs or on others, with the same cores in total.

In a lab with hosts of both kinds, all cores of the machine are shared out for a trial: to the hosts
of the OSDs alone when databases are on them, and to all hosts alike when they are apart. A host's
budget holds for everything on it together (OSDs, MONs, servers, volumes, load generators). What a
daemon may use by itself is lifted meanwhile where it is more than that: the older control groups
refuse a budget below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from grampus.bench.environments.environment_records import BUDGET, BUDGET_RECORD, BenchBudget
from grampus.state.runs import Setting
from grampus.state.store import Store

HYPERCONVERGED = "hyperconverged"
# Beside each figure of a lab without hosts of both kinds.
SHARED_NOTE = (
    "Databases and load generators were on the OSDs' hosts, without budgets: all hosts of this lab "
    "have OSDs, and its `layout decoupled` is the dimension's default and not what was measured."
)
# The control group of a host itself, above those of its daemons.
HOST_GROUP = ""


class LayoutPort(Protocol):
    """Which hosts have OSDs, and what CPU the control groups of hosts may use."""

    @property
    def osd_hosts(self) -> Sequence[str]:
        """Names of hosts with OSDs."""
        ...

    @property
    def other_hosts(self) -> Sequence[str]:
        """Names of those without."""
        ...

    def observe_quotas(self) -> Mapping[str, Mapping[str, float]]:
        """Cores that groups of each reachable host may use, by host and group; without those that
        have no limit.
        """
        ...

    def set_quota(self, host: str, group: str, cores: float | None) -> None:
        """Of one group; None: no limit. Nothing happens when there is no such group."""
        ...


class Budgets:
    """Shares the machine's cores out among the hosts of a lab."""

    def __init__(self, layout: LayoutPort, store: Store, lab: str) -> None:
        self._layout = layout
        self._store = store
        self._lab = lab

    @contextmanager
    def imposed(self, layout: str, cores: float) -> Iterator[Mapping[str, float]]:
        """Each host's budget in cores for the block; none in a lab without hosts of both kinds."""
        self.restore()
        budgets = decide_budgets(
            layout, self._layout.osd_hosts, self._layout.other_hosts, cores=cores
        )
        if not budgets:
            yield budgets
            return
        record = BenchBudget(quotas=self._layout.observe_quotas())
        self._store.put(BUDGET_RECORD, self._lab, BUDGET, record)
        try:
            for host, budget in budgets.items():
                for group, quota in record.quotas.get(host, {}).items():
                    if quota > budget:
                        self._layout.set_quota(host, group, None)
                self._layout.set_quota(host, HOST_GROUP, budget)
            yield budgets
        finally:
            self.restore()

    def restore(self) -> None:
        """The quotas as they were; nothing happens when no budget is imposed."""
        record = self._store.get(BUDGET_RECORD, self._lab, BUDGET, BenchBudget)
        if record is None:
            return
        for host, quotas in record.quotas.items():
            # First: no group below may have more than its host.
            self._layout.set_quota(host, HOST_GROUP, quotas.get(HOST_GROUP))
            for group, cores in quotas.items():
                if group != HOST_GROUP:
                    self._layout.set_quota(host, group, cores)
        self._store.remove(BUDGET_RECORD, self._lab, BUDGET)


def decide_hosts(
    layout: str, osd_hosts: Sequence[str], other_hosts: Sequence[str]
) -> tuple[str, ...]:
    """Where databases, volumes and load generators are; in a lab without hosts of both kinds any
    host will do.
    """
    return tuple(osd_hosts if layout == HYPERCONVERGED or not other_hosts else other_hosts)


def describe_layout(other_hosts: Sequence[str]) -> Setting:
    """What the dimension `layout` stands for in a lab."""
    return Setting(
        group="Ceph",
        name="layout",
        value="as each cell says, hosts without OSDs: " + ", ".join(other_hosts)
        if other_hosts
        else "databases and load generators on the OSDs' hosts, whatever a cell says: no host is "
        "without OSDs",
    )


def decide_budgets(
    layout: str, osd_hosts: Sequence[str], other_hosts: Sequence[str], *, cores: float
) -> dict[str, float]:
    """Cores of each host that has any; the sum is the same for either layout."""
    if not other_hosts:
        return {}
    sharing = osd_hosts if layout == HYPERCONVERGED else [*osd_hosts, *other_hosts]
    return dict.fromkeys(sharing, cores / len(sharing))
