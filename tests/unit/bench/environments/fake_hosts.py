"""What a trial changes of hosts and OSDs: control groups, kernels and options, behind one fuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.fakes.interruption import Fuse

QUOTAS = {"h1": {"osd-0": 2.0, "mon-h1": 1.0}, "h2": {"mysqld-a": 2.0}}


class FakeLayout:
    """Two hosts with OSDs, unless told; control groups that keep the older kernel's rules."""

    def __init__(self, fuse: Fuse) -> None:
        self._fuse = fuse
        self.osd_hosts: Sequence[str] = ("h1", "h2")
        self.other_hosts: Sequence[str] = ()
        self.quotas = {host: dict(groups) for host, groups in QUOTAS.items()}
        self.imposed: list[dict[str, float]] = []  # budgets of hosts, one dict a change

    def observe_quotas(self) -> Mapping[str, Mapping[str, float]]:
        return {host: dict(groups) for host, groups in self.quotas.items()}

    def set_quota(self, host: str, group: str, cores: float | None) -> None:
        self._fuse.burn()
        groups = self.quotas[host]
        if cores is None:
            groups.pop(group, None)
        else:
            groups[group] = cores
        budget = groups.get("")
        assert budget is None or all(cores <= budget for name, cores in groups.items() if name), (
            "EINVAL"
        )
        found = {name: groups[""] for name, groups in self.quotas.items() if "" in groups}
        self.imposed.append(found)
        self._fuse.burn()


OPTIONS_OF_USER = {"osd_max_backfills": "3", "osd_op_num_shards": "4"}
KERNEL = {"net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.tcp_wmem": "4096 16384 4194304"}


class FakeTuning:
    """OSDs that take their options at a restart, and the kernels of two hosts."""

    def __init__(self, fuse: Fuse) -> None:
        self._fuse = fuse
        self.options: dict[str, str] = dict(OPTIONS_OF_USER)
        self.running: dict[str, str] = dict(OPTIONS_OF_USER)  # what the OSDs were started with
        self.kernel = {host: dict(KERNEL) for host in ("h1", "h2")}
        self.restarts = 0

    @property
    def is_as_made(self) -> bool:
        kernels = {"h1": KERNEL, "h2": KERNEL}
        return self.options == self.running == OPTIONS_OF_USER and self.kernel == kernels

    def observe_options(self) -> Mapping[str, str]:
        return dict(self.options)

    def set_options(self, options: Mapping[str, str | None]) -> None:
        for name, value in options.items():
            self._fuse.burn()
            if value is None:
                self.options.pop(name, None)
            else:
                self.options[name] = value
        self._fuse.burn()

    def restart_osds(self) -> None:
        self._fuse.burn()
        self.running = dict(self.options)
        self.restarts += 1
        self._fuse.burn()

    def observe_kernel(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        return {
            host: {name: values[name] for name in names if name in values}
            for host, values in self.kernel.items()
        }

    def set_kernel(self, host: str, values: Mapping[str, str]) -> None:
        self._fuse.burn()
        self.kernel[host] |= {name: value for name, value in values.items() if name in KERNEL}
        self._fuse.burn()
