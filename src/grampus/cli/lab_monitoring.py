"""`grampus lab monitoring`: Prometheus and Alertmanager for the lab."""

from __future__ import annotations

from grampus.cli.app import command, make_noun
from grampus.cli.composition.lab import LabSession
from grampus.cli.composition.lab_parts import lab_part
from grampus.cli.lab import lab_app
from grampus.cli.lab_parts import PartHostOption, remove_part
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
    YesOption,
)
from grampus.cli.output import make_output
from grampus.lab.monitoring import MONITORING, controller_place

monitoring_app = make_noun("monitoring", "Prometheus and Alertmanager on one host.", under=lab_app)


@command(monitoring_app, "up", "grampus lab monitoring up")
def monitoring_up(
    host: PartHostOption = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Start Prometheus and Alertmanager, with Grampus's alert rules. `lab up` starts them again.

    They show the metrics of Ceph, and those of Grampus while `grampus serve` serves them: the
    output has the command.
    """
    session = LabSession(lab)
    with session.breaking_lab(), session.progress, session.planning(dry_run=dry_run):
        service = lab_part(session, MONITORING)
        spec = service.plan_up(host, build_image=not dry_run)
        service.up(spec)
        place = controller_place(session.require_lab())
        prometheus = spec.prometheus(session.require_lab())
        alertmanager = spec.alertmanager(session.require_lab())
    make_output(output_format).details(
        {
            "lab": lab,
            "host": spec.host,
            "prometheus": prometheus,
            "alertmanager": alertmanager,
            "controller_metrics": place,
        },
        {
            "monitoring": f"running on {spec.host}",
            "Prometheus": prometheus,
            "Alertmanager": alertmanager,
            "metrics of Grampus": f"grampus serve --metrics {place}",
        },
    )


@command(monitoring_app, "down", "grampus lab monitoring down")
def monitoring_down(
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Remove Prometheus and Alertmanager, with the metrics that they kept."""
    loss = "This deletes the metrics that Prometheus kept."
    remove_part(MONITORING, lab, loss, yes=yes, dry_run=dry_run, output_format=output_format)
