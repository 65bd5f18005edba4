"""A lab or cluster on whose environments the cells of a matrix are measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace

from grampus.bench.drivers.outcome import DriverFailure
from grampus.bench.environments.caches import drop_storage_caches
from grampus.bench.environments.clients import end_clients
from grampus.bench.environments.databases import DatabaseEnvironments
from grampus.bench.environments.environment_plan import (
    EnvironmentPlan,
    EnvironmentTarget,
    decide_environment,
    decide_grown,
    environment_name,
    member_names,
    merge_environments,
    place_on,
)
from grampus.bench.environments.environment_ports import EnvironmentPorts
from grampus.bench.environments.environment_records import (
    ENVIRONMENT_RECORD,
    OSD_SET_RECORD,
    POOL_RECORD,
    BenchEnvironment,
    BenchOsdSet,
    BenchPool,
)
from grampus.bench.environments.fills import TOLERANCE_PERCENT, Fills, fill_pool
from grampus.bench.environments.fitness import (
    NEARLY_FULL_CHECKS,
    parse_osd_starts,
    why_cluster_unfit,
    why_disk_unfit,
    why_osds_came_back,
)
from grampus.bench.environments.images import ImageEnvironments
from grampus.bench.environments.layouts import Budgets
from grampus.bench.environments.measuring import decide_osd_cores, measure_load
from grampus.bench.environments.osd_needs import (
    NEARLY_FULL_PERCENT,
    OsdNeeds,
    decide_name_on,
    decide_osd_needs,
    decide_provisioned_bytes,
)
from grampus.bench.environments.pools import PoolEnvironments
from grampus.bench.environments.profiles import Profiles
from grampus.bench.environments.quiet import quiet_cluster, restore_cluster
from grampus.bench.environments.volumes import VolumeEnvironments
from grampus.bench.matrix.capabilities import Capabilities
from grampus.bench.matrix.cells import Cell
from grampus.bench.trials.place import PLACE_ERRORS, Measured, tell_problem
from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.state.runs import Setting

# What a member of an environment is to its user.
NOUNS: Mapping[EnvironmentTarget, str] = {
    "database": "database",
    "volume": "volume",
    "image": "volume",
    "pool": "pool",
}


class EnvironmentsPlace:
    """A `CellPlace` whose cells stand on what the product itself makes."""

    def __init__(self, ports: EnvironmentPorts, *, shape_only: bool) -> None:
        self._ports = ports
        self._shape_only = shape_only
        self._databases = DatabaseEnvironments(ports)
        self._volumes = VolumeEnvironments(ports)
        self._images = ImageEnvironments(ports)
        self._pools = PoolEnvironments(ports)
        self._fills = Fills(ports)
        self._budgets = Budgets(ports.layout, ports.store, ports.lab)
        self._profiles = Profiles(ports.tuning, ports.store, ports.lab, ports.progress)
        self._settings_told: set[str] = set()  # ids of cells
        self._cores: float | None = None

    @property
    def name(self) -> str:
        return self._ports.place

    @property
    def options(self) -> str:
        return self._ports.options

    @property
    def shape_only(self) -> bool:
        return self._shape_only

    def capabilities(self) -> Capabilities:
        return self._ports.capabilities()

    def facts(self, cells: Sequence[Cell]) -> list[Setting]:
        return self._ports.facts(cells)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Scrubs, balancer and autoscaler off, each where it was on; other clients ended.

        No tuning profile outlasts it.
        """
        self._end_clients()
        with ExitStack() as stack:
            stack.enter_context(
                quiet_cluster(self._ports.cluster, self._ports.store, self._ports.lab)
            )
            stack.callback(self._profiles.restore)
            self._budgets.restore()
            yield

    def prepare(self, cells: Sequence[Cell]) -> Mapping[str, str]:
        """See `CellPlace`. What a killed run left is used as far as it is whole."""
        self._end_clients()
        self._budgets.restore()
        reasons: dict[str, str] = {}
        plans: dict[str, EnvironmentPlan] = {}
        for cell in cells:
            try:
                plans[cell.cell_id] = place_on(decide_environment(cell), self._needs(cell))
            except PLACE_ERRORS as error:
                reasons[cell.cell_id] = tell_problem(error)
        made = []
        with self._limits_lifted():
            for environment in merge_environments(plans.values()).values():
                try:
                    self._ensure(environment)
                    made.append(environment)
                except PLACE_ERRORS as error:
                    reasons |= _reasons(plans, error, environment=environment.name)
            # When everything is made: no database is made on OSDs that are nearly full.
            for needs in {one.osds.name: one.osds for one in made if one.osds is not None}.values():
                try:
                    self._fill(needs)
                except PLACE_ERRORS as error:
                    reasons |= _reasons(plans, error, osd_set=needs.name)
        return reasons

    @contextmanager
    def _limits_lifted(self) -> Iterator[None]:
        """Until the end no own OSD set that `_ensure_osds` made ready is limited as its media.

        At a disk's 150 requests a second loading takes many times as long as measuring. Whoever
        was killed meanwhile imposes the limits with its next preparation.
        """
        try:
            yield
        finally:
            for osd_set in self._all_osd_sets():
                self._ports.osd_sets.impose_limits(osd_set.needs.name)

    def why_unfit(self) -> str | None:
        """Why nothing measured now would count, as a sentence. Raises nothing."""
        try:
            status = self._ports.cluster.observe_status()
            unfit = why_cluster_unfit(status, expected=self._expected_checks())
        except GrampusError as error:
            return f"The cluster does not answer: {error.problem}"
        return unfit or why_disk_unfit(*self._ports.disk_room())

    def measure(self, cell: Cell, *, warmup_s: int, measure_s: int) -> Measured:
        """See `CellPlace`."""
        environment = self._find(decide_name_on(environment_name(cell), self._needs(cell)))
        if environment is None or not environment.ready:
            raise NotFoundError(
                f"The environment of the cell {cell.cell_id} is missing or incomplete.",
                "Prepare the cells again.",
                code="no-stand",
            )
        # No daemon starts below a budget that a trial left which was killed.
        clock = self._ports.clock
        from_s = clock.monotonic_s()
        self._budgets.restore()
        self._profiles.ensure(cell.point.profile)
        settings: Mapping[str, str] = {}
        match environment.plan.target:
            case "database":
                self._require_writable(cell, environment)
                load = self._databases.load(cell, environment)
                # They are what the cell asks for whenever it is measured: once is enough.
                if cell.cell_id not in self._settings_told:
                    settings = self._databases.observe_settings(cell, environment)
            case "volume":
                load = self._volumes.load(cell, environment, warmup_s=warmup_s)
            case "image":
                load = self._images.load(cell, environment, warmup_s=warmup_s)
            case "pool":
                load = self._pools.load(cell, environment)
        self._drop_caches(cell, environment)
        changed_s = clock.monotonic_s()
        environments = self._all().values()
        self._databases.settle([one for one in environments if one.plan.target == "database"])
        calm_s = clock.monotonic_s()
        cores, layout = self._observe_cores(), environment.plan.layout
        serves = cell.point.controller == "serving"
        with (
            self._budgets.imposed(layout, cores) as budgets,
            self._ports.controller() if serves else nullcontext(),
        ):
            hosts = [host.name for host in self._ports.hosts_for(layout)]
            used = hosts[: environment.plan.count]
            # After all restarts that the cell asks for: whoever falls from here on was not told to.
            starts = parse_osd_starts(self._ports.cluster.observe_osd_map())
            measured = measure_load(
                self._ports,
                load,
                warmup_s=warmup_s,
                measure_s=measure_s,
                # What the load generators may use.
                cores=min(cores, sum(budgets.get(host, cores) for host in used)),
                osd_cores=decide_osd_cores(cell),
                monitored=cell.point.monitors == "all",
            )
            spoilt = why_osds_came_back(
                starts, parse_osd_starts(self._ports.cluster.observe_osd_map())
            ) or self._why_filled(cell, environment)
        if spoilt is not None:
            measured = replace(measured, outcome=DriverFailure("failed", spoilt))
        note = self._ports.shared_note
        if note is not None and not self._ports.layout.other_hosts:
            measured = _add_note(measured, note)
        self._settings_told.add(cell.cell_id)
        room_bytes = decide_provisioned_bytes(cell, self._ports.osd_sets.place_osds())
        return replace(
            measured,
            raw={**measured.raw, **settings},
            provisioned_bytes=room_bytes,
            change_s=changed_s - from_s,
            calm_s=calm_s - changed_s,
        )

    def _require_writable(self, cell: Cell, environment: BenchEnvironment) -> None:
        """Before its servers are touched: one that waits for room hangs at its end."""
        full = self._databases.why_full(cell, environment)
        if full is not None:
            raise RefusedError(full, "Free space on it.", code="no-space")

    def _why_filled(self, cell: Cell, environment: BenchEnvironment) -> str | None:
        """That the load ran into the end of a volume, or would have with its next block."""
        if environment.plan.target != "database":
            return None
        full = self._databases.why_full(cell, environment)
        return full and f"{full} That came while it was measured, so its figures do not count."

    def _drop_caches(self, cell: Cell, environment: BenchEnvironment) -> None:
        """The servers' first: a server that ends writes, and reads at its start."""
        if cell.point.caches == "all" and environment.plan.target == "database":
            self._databases.drop_caches(cell, environment)
        if cell.point.caches != "keep":
            drop_storage_caches(self._ports.cluster, self._ports.fleet)

    def remove_prepared(self) -> None:
        """See `CellPlace`. Everything is tried; the first failure is raised in the end."""
        with ExitStack() as steps:
            # The last one first, also when one fails.
            for osd_set in self._all_osd_sets():
                steps.callback(self._remove_osd_set, osd_set)
            for pool in self._all_pools():
                steps.callback(self._remove_pool, pool)
            for environment in self._all().values():
                steps.callback(self._remove, environment)
            steps.callback(self._budgets.restore)
            self._end_clients()

    def dismantle(self) -> None:
        """See `CellPlace`. Everything is tried; the first failure is raised in the end."""
        with ExitStack() as steps:
            steps.callback(restore_cluster, self._ports.cluster, self._ports.store, self._ports.lab)
            steps.callback(self._profiles.restore)
            self.remove_prepared()

    def _ensure(self, wanted: EnvironmentPlan) -> None:
        found = self._find(wanted.name)
        plan = wanted if found is None else decide_grown(found.plan, wanted)
        if found is not None and plan is None:
            self._remove(found)
            found, plan = None, wanted
        if plan is None:
            raise AssertionError("an environment is used, or made again")
        # Whoever was filled once is not written again; and to look at the data in a virtual
        # machine would take its server out of it.
        is_filled = found is not None and found.ready and found.plan == plan
        if is_filled and (plan.target in ("pool", "image") or plan.runtime == "vm"):
            return
        self._require_free(plan, ours=0 if found is None else found.plan.count)
        self._ports.require_room(plan)
        if plan.osds is not None:
            self._ensure_osds(plan.osds)
        pool = self._ensure_pool(plan)
        environment = BenchEnvironment(plan=plan, pool=pool)
        # The intent first: whoever finds anything of it later knows whose it is.
        self._put(environment)
        match plan.target:
            case "database":
                self._databases.ensure(environment)
            case "volume":
                self._volumes.ensure(environment)
            case "image":
                self._images.ensure(environment)
            case "pool":
                self._pools.ensure(environment)
        self._put(environment.model_copy(update={"ready": True}))

    def _require_free(self, plan: EnvironmentPlan, *, ours: int) -> None:
        """Only what a benchmark made may be used; the first `ours` members are such."""
        if plan.target == "pool":
            names: tuple[str, ...] = (self._ports.pools.named(plan.name),) if ours == 0 else ()
        else:
            names = member_names(plan.name, plan.count)[ours:]
        for name in names:
            if self._is_there(plan.target, name):
                raise RefusedError(
                    f"There is a {NOUNS[plan.target]} named {name}, and no benchmark made it.",
                    "Remove it or give it another name: the suite needs that one.",
                    code="exists",
                )

    def _is_there(self, target: EnvironmentTarget, name: str) -> bool:
        ports = self._ports
        if target == "pool":
            return ports.pools.is_there(name)
        if target in ("volume", "image"):
            return ports.volumes.find(name) is not None
        return ports.databases.find(name) is not None

    def _ensure_pool(self, plan: EnvironmentPlan) -> str:
        ports = self._ports
        if plan.target == "pool":
            return ports.pools.named(plan.name)
        osd_set, code = plan.osd_set, plan.erasure_code
        pool = ports.pools.pool_of(plan.copies, osd_set=osd_set, erasure_code=code)
        self._ensure_own_pool(
            BenchPool(name=pool, copies=plan.copies, osd_set=osd_set, erasure_code=code)
        )
        return pool

    def _ensure_own_pool(self, pool: BenchPool) -> None:
        """Recorded first, unless it is there already: then it is somebody else's, or recorded."""
        ports = self._ports
        if not ports.pools.is_there(pool.name):
            ports.store.put(POOL_RECORD, ports.lab, pool.name, pool)
        ports.pools.ensure(
            pool.name, pool.copies, osd_set=pool.osd_set, erasure_code=pool.erasure_code
        )

    def _ensure_osds(self, needs: OsdNeeds) -> None:
        ports = self._ports
        found = ports.store.get(OSD_SET_RECORD, ports.lab, needs.name, BenchOsdSet)
        if found is None and ports.osd_sets.is_there(needs.name):
            raise RefusedError(
                f"There is an OSD set named {needs.name}, and no benchmark made it.",
                "Remove it: the suite needs that name.",
                code="exists",
            )
        ports.store.put(OSD_SET_RECORD, ports.lab, needs.name, BenchOsdSet(needs=needs))
        ports.osd_sets.ensure(needs)
        ports.osd_sets.lift_limits(needs.name)

    def _fill(self, needs: OsdNeeds) -> None:
        if needs.fill_percent == 0:
            return
        hosts = self._ports.osd_sets.place_osds().hosts
        self._ensure_own_pool(BenchPool(name=fill_pool(needs), copies=hosts, osd_set=needs.name))
        self._fills.ensure(needs)

    def _remove(self, environment: BenchEnvironment) -> None:
        ports = self._ports
        ports.progress.phase(f"Remove {environment.plan.name}")
        self._put(environment.model_copy(update={"ready": False}))
        match environment.plan.target:
            case "database":
                self._databases.ensure_absent(environment)
            case "volume":
                self._volumes.ensure_absent(environment)
            case "image":
                self._images.ensure_absent(environment)
            case "pool":
                self._pools.ensure_absent(environment)
        ports.store.remove(ENVIRONMENT_RECORD, ports.lab, environment.plan.name)

    def _remove_pool(self, pool: BenchPool) -> None:
        self._ports.pools.ensure_unused_absent(pool.name)
        self._ports.store.remove(POOL_RECORD, self._ports.lab, pool.name)

    def _remove_osd_set(self, osd_set: BenchOsdSet) -> None:
        name = osd_set.needs.name
        on_it = [pool.osd_set for pool in self._all_pools()]
        if name in (*on_it, *(environment.plan.osd_set for environment in self._all().values())):
            return  # That it could not be removed is what there is to tell.
        self._ports.progress.phase(f"Remove the OSD set {name}")
        self._ports.osd_sets.ensure_absent(name)
        self._ports.store.remove(OSD_SET_RECORD, self._ports.lab, name)

    def _needs(self, cell: Cell) -> OsdNeeds | None:
        return decide_osd_needs(cell, self._ports.osd_sets.place_osds())

    def _expected_checks(self) -> frozenset[str]:
        """OSDs that shall be nearly full make Ceph say that they are."""
        fills = [one.needs.fill_percent for one in self._all_osd_sets()]
        is_nearly_full = max(fills, default=0) >= NEARLY_FULL_PERCENT - TOLERANCE_PERCENT
        return NEARLY_FULL_CHECKS if is_nearly_full else frozenset()

    def _end_clients(self) -> None:
        for host in self._ports.fleet.hosts():
            if self._ports.fleet.is_reachable(host.name):
                end_clients(host)

    def _observe_cores(self) -> float:
        if self._cores is None:
            host = self._ports.fleet.hosts()[0]
            self._cores = float(host.run(["getconf", "_NPROCESSORS_ONLN"]).stdout)
        return self._cores

    def _find(self, name: str) -> BenchEnvironment | None:
        return self._ports.store.get(ENVIRONMENT_RECORD, self._ports.lab, name, BenchEnvironment)

    def _all(self) -> dict[str, BenchEnvironment]:
        return self._ports.store.all(ENVIRONMENT_RECORD, self._ports.lab, BenchEnvironment)

    def _all_pools(self) -> list[BenchPool]:
        return list(self._ports.store.all(POOL_RECORD, self._ports.lab, BenchPool).values())

    def _all_osd_sets(self) -> list[BenchOsdSet]:
        return list(self._ports.store.all(OSD_SET_RECORD, self._ports.lab, BenchOsdSet).values())

    def _put(self, environment: BenchEnvironment) -> None:
        self._ports.store.put(
            ENVIRONMENT_RECORD, self._ports.lab, environment.plan.name, environment
        )


def _add_note(measured: Measured, note: str) -> Measured:
    outcome = measured.outcome
    if isinstance(outcome, DriverFailure):
        return measured
    return replace(measured, outcome=replace(outcome, notes=(*outcome.notes, note)))


def _reasons(
    plans: Mapping[str, EnvironmentPlan],
    error: GrampusError | OSError,
    *,
    environment: str | None = None,
    osd_set: str | None = None,
) -> dict[str, str]:
    """Why cells on that environment, or on those OSDs, cannot be measured."""
    return {
        cell_id: f"Its environment could not be created: {tell_problem(error)}"
        for cell_id, plan in plans.items()
        if plan.name == environment or (osd_set is not None and plan.osd_set == osd_set)
    }
