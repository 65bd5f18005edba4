"""`grampus bench run paths`."""

from __future__ import annotations

from grampus.bench.paths.costs import OsdWrites, parse_osd_writes
from grampus.bench.paths.paths_ports import PathsPorts
from grampus.bench.paths.plan import PathsOptions, describe_steps
from grampus.bench.paths.runner import PathsRunner
from grampus.bench.paths.suite import PathsSuite
from grampus.cli.bench_paths import show_paths
from grampus.cli.composition.bench import describe_lab
from grampus.cli.composition.bench_files import run_archive
from grampus.cli.composition.session import LabImages, Session
from grampus.cli.options import FormatOption
from grampus.cli.output import make_output, show_plan
from grampus.core.errors import GrampusError
from grampus.core.installation import find_volumed
from grampus.lab.model import DATABASE_POOL
from grampus.report.build import build_report
from grampus.state.runs import Setting
from grampus.volumes.drivers.volumed import VolumedProgram


class LabPathsCluster:
    """The lab's cluster; a `ClusterPort` of the suite."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def volume_pool(self) -> str:
        return DATABASE_POOL

    def client_keyring(self, user: str) -> str:
        return self._session.cluster().ceph("auth", "get", f"client.{user}").stdout

    def facts(self) -> list[Setting]:
        return describe_lab(self._session, DATABASE_POOL, {})

    def observe_writes(self) -> OsdWrites:
        cluster = self._session.cluster()
        found: dict[int, int] = {}
        try:
            for osd in cluster.query("osd", "ls"):
                answer = cluster.query("tell", f"osd.{osd}", "perf", "dump", "osd")
                writes = parse_osd_writes(answer)
                if writes is not None:
                    found[int(osd)] = writes
        except GrampusError:
            # An OSD that is down now: a sum without it would be no count.
            return {}
        return found


def run_paths(
    session: Session,
    suite: PathsSuite,
    options: PathsOptions,
    *,
    dry_run: bool,
    output_format: FormatOption,
) -> None:
    """Run the suite, write its report, and show it."""
    spec = session.require_lab()
    runner = PathsRunner(
        PathsPorts(
            home=session.home,
            lab=session.lab_name,
            tag=spec.tag,
            store=session.store,
            fleet=session.fleet(),
            volumes=session.volumes(),
            cluster=LabPathsCluster(session),
            images=LabImages(session.images, spec, session.progress),
            program=VolumedProgram(find_volumed()),
            clock=session.clock,
            progress=session.progress,
        )
    )
    if dry_run:
        show_plan(output_format, describe_steps(runner.plan(suite, options)))
        return
    run = runner.run(suite, options)
    session.progress.phase("Write the report")
    file = run_archive(session.home).run_dir(run.run_id) / "report.html"
    build_report(run_archive(session.home), run.run_id, file)
    session.progress.close()
    show_paths(make_output(output_format), output_format, run, run_archive(session.home), file)
