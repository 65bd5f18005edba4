"""A run of `paths` as a page of Markdown."""

from __future__ import annotations

from datetime import UTC, datetime

from grampus.cli.bench_paths_tables import (
    TABLES,
    TARGET_HEADINGS,
    target_row,
    throughput_table,
    unmeasured_targets,
)
from grampus.cli.markdown import bullets, escape, table
from grampus.state.runs import PathsRun


def render_paths_markdown(run: PathsRun) -> str:
    """The page of one run: its targets, what every way reached, and where it was made."""
    begun = datetime.fromtimestamp(run.started_at_s, UTC)
    how = (
        f"{run.run_id}: scale {run.scale} on the host {run.host} of the lab {run.lab}, "
        f"{begun:%Y-%m-%d %H:%M} UTC; {run.rounds} rounds, in which the ways took turns."
    )
    judged = [target_row(one) for one in run.targets if one.value is not None]
    unmeasured = unmeasured_targets(run)
    blocks = [
        "# The ways to one RBD image, side by side",
        escape(how),
        "## Targets",
        table(TARGET_HEADINGS, judged) or "None was measured.",
        f"Not measured: {', '.join(unmeasured)}." if unmeasured else "",
        "## Throughput",
        "The median of the rounds; of the costs at the end, what one operation costs.",
        *(table(*throughput_table(run, title, columns)) for title, columns in TABLES),
        bullets(run.warnings),
        "## Where",
        table(
            ["of", "what", "value"],
            [[one.group, one.name, one.value] for one in run.environment],
        ),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"
