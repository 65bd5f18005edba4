"""`grampus db resize` and `grampus db growth`: room for a database's data, now and by itself."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.composition.live import database_growth
from grampus.cli.db import NameArgument, database_document, db_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases
from grampus.core.errors import UsageError
from grampus.core.intervals import format_interval, parse_interval_s
from grampus.core.units import format_bytes, parse_bytes
from grampus.databases.growth.decide_growth import FileSystem, describe_room
from grampus.databases.growth.growth import MAX_RELEASE_S, GrowthView
from grampus.databases.growth.growth_rule import (
    GrowthRule,
    describe_guard,
    describe_rule,
    parse_step,
    parse_when_percent,
)

growth_app = make_noun(
    "growth", "Volumes that grow by rule, and the guard against a full disk.", under=db_app
)


@command(db_app, "resize", "grampus db resize shop --size 20G")
def db_resize(
    name: NameArgument,
    size: Annotated[
        str, typer.Option(metavar="SIZE", help="The new size of the volume, such as 20G.")
    ],
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Grow a database's volume while it is used, also when it is full. A volume cannot shrink."""
    size_bytes = parse_bytes(size)
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        former_bytes = databases.get(name).spec.size_bytes
        databases.resize(name, size_bytes)
        growth = database_growth(session)
        was_closed = databases.get(name).guard is not None
        is_open = growth.open_where_room(name)
        view, seen = databases.show(name), growth.show(name)
    spec = view.record.spec
    if spec.size_bytes == former_bytes:
        said = [f"The volume of '{name}' has {format_bytes(spec.size_bytes)} already."]
    else:
        said = [
            f"The volume of '{name}' has {format_bytes(spec.size_bytes)}; it had "
            f"{format_bytes(former_bytes)}."
        ]
    if was_closed:
        said.append(
            "The database can be written to again."
            if is_open
            else "The database stays read-only: the volume still has too little space."
        )
    document = {**database_document(view), "former_size_bytes": former_bytes}
    make_output(output_format).text({**document, **_document(seen)}, "\n".join(said))


@command(growth_app, "set", "grampus db growth set shop --when 80% --step 25% --up-to 100G")
def growth_set(
    name: NameArgument,
    when: Annotated[
        str, typer.Option(metavar="PERCENT", help="Grow when the volume is this full.")
    ],
    step: Annotated[
        str, typer.Option(metavar="PERCENT|SIZE", help="Growth step: 25% of the size, or 2G.")
    ],
    up_to: Annotated[str, typer.Option(metavar="SIZE", help="Upper limit of the size.")],
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Grow a database's volume automatically by a rule. `grampus serve` applies the rule."""
    percent, step_bytes = parse_step(step)
    rule = GrowthRule(
        when_percent=parse_when_percent(when),
        step_percent=percent,
        step_bytes=step_bytes,
        up_to_bytes=parse_bytes(up_to),
    )
    _put(name, rule, lab, output_format, dry_run=dry_run)


@command(growth_app, "off", "grampus db growth off shop")
def growth_off(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Remove the growth rule of a database. The guard stays."""
    _put(name, None, lab, output_format, dry_run=dry_run)


@command(
    growth_app,
    "show",
    "grampus db growth show shop",
)
def growth_show(
    name: NameArgument, lab: LabOption = LAB_DEFAULT, output_format: FormatOption = FORMAT_DEFAULT
) -> None:
    """Show how full a database's volume is, how it grows, and whether clients can write."""
    with work_on_databases(lab) as (session, _):
        growth = database_growth(session)
        seen = growth.show(name)
        room = growth.observe_room(seen.record.spec.pool)
    document = {
        "name": name,
        **_document(seen),
        "pool": {
            "name": room.pool,
            "available_bytes": room.available_bytes,
            "until_nearly_full_bytes": room.until_nearly_full_bytes,
            "problem": room.problem,
        },
    }
    pool = f"{room.pool}: {format_bytes(room.until_nearly_full_bytes)} until it is nearly full"
    pairs = {
        "database": name,
        "volume": format_bytes(seen.record.spec.size_bytes),
        "file system": describe_room(seen.file_system) if seen.file_system else "not mounted",
        "grows": describe_rule(seen.record.growth),
        "read-only below": format_bytes(seen.reserve_bytes) if seen.reserve_bytes else "-",
        "writers": describe_guard(seen.record.guard),
        "pool": pool if room.problem is None else f"{pool}; {room.problem}",
    }
    make_output(output_format).details(document, pairs)


@command(growth_app, "release", "grampus db growth release shop --for 15m")
def growth_release(
    name: NameArgument,
    duration: Annotated[
        str, typer.Option("--for", metavar="TIME", help="Duration, such as 15m or 1h.")
    ] = "15m",
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Allow writes for a while to a database that the guard made read-only, to free space."""
    for_s = parse_interval_s(duration)
    if not 0 < for_s <= MAX_RELEASE_S:
        raise UsageError(
            f"The guard cannot be released for {duration}.",
            f"Choose {format_interval(60)} to {format_interval(MAX_RELEASE_S)}.",
            code="invalid-interval",
        )
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        growth = database_growth(session)
        growth.release(name, for_s)
        seen = growth.show(name)
    make_output(output_format).text(
        {"name": name, **_document(seen)},
        f"The users of '{name}' can write for {format_interval(for_s)}. Drop or truncate "
        "tables that are not needed.\nDeleted rows free space in the table, but not in the "
        "volume.",
    )


def _put(
    name: str, rule: GrowthRule | None, lab: str, output_format: FormatOption, *, dry_run: bool
) -> None:
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        growth = database_growth(session)
        growth.put_rule(name, rule)
        seen = growth.show(name)
    make_output(output_format).text(
        {"name": name, **_document(seen)},
        f"The volume of '{name}' has no growth rule any more."
        if rule is None
        else f"The volume of '{name}' grows {describe_rule(rule)}, while `grampus serve` runs.",
    )


def _document(seen: GrowthView) -> dict[str, Any]:
    rule, guard, file_system = seen.record.growth, seen.record.guard, seen.file_system
    return {
        "size_bytes": seen.record.spec.size_bytes,
        "growth": rule.model_dump() if rule else None,
        "guard": guard.model_dump(mode="json") if guard else None,
        "file_system": file_system_document(file_system),
        "reserve_bytes": seen.reserve_bytes,
    }


def file_system_document(room: FileSystem | None) -> dict[str, int] | None:
    """The file system of a database's volume, for programs; None: it is not mounted."""
    if room is None:
        return None
    return {"size_bytes": room.size_bytes, "free_bytes": room.free_bytes}
