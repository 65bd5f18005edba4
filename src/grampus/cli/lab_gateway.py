"""`grampus lab gateway`: the lab's own object store, for backups."""

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
from grampus.databases.backup.opening import ensure_bucket
from grampus.databases.backup.places import TargetPlace
from grampus.lab.gateway import DEFAULT_BUCKET, GATEWAY, LOCKED_BUCKET, credentials_file

gateway_app = make_noun("gateway", "Ceph's own S3 service on one host, for backups.", under=lab_app)


@command(gateway_app, "up", "grampus lab gateway up")
def gateway_up(
    host: PartHostOption = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Start the gateway, with a user and buckets for backups. `lab up` starts it again."""
    session = LabSession(lab)
    buckets = f"Create the buckets {DEFAULT_BUCKET} and {LOCKED_BUCKET}"
    with session.breaking_lab(), session.progress, session.planning(dry_run=dry_run):
        service = lab_part(session, GATEWAY)
        spec = service.plan_up(host, build_image=not dry_run)
        with session.runner.part_of_plan():
            service.up(spec)
        session.runner.propose(lambda: [buckets])
        endpoint = spec.endpoint(session.require_lab())
        file = str(credentials_file(session.home, lab))
        place = TargetPlace(url=f"s3://{DEFAULT_BUCKET}", credentials=file)
        locked = place.model_copy(update={"url": f"s3://{LOCKED_BUCKET}"})
        session.progress.phase(buckets)
        ensure_bucket(place)
        ensure_bucket(locked, object_lock=True)
    make_output(output_format).details(
        {
            "lab": lab,
            "host": spec.host,
            "endpoint": endpoint,
            "bucket": place.url,
            "locked_bucket": locked.url,
            "credentials": file,
        },
        {
            "gateway": f"running on {spec.host}",
            "endpoint": endpoint,
            "bucket": place.url,
            "object lock": locked.url,
            "credentials": file,
            "use": f"grampus db backup create NAME {place.options('--to')}",
        },
    )


@command(gateway_app, "down", "grampus lab gateway down")
def gateway_down(
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Remove the gateway, with all buckets and backups in it."""
    loss = "This deletes all buckets of the gateway and their contents."
    remove_part(GATEWAY, lab, loss, yes=yes, dry_run=dry_run, output_format=output_format)
