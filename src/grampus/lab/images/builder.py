"""Runs mmdebstrap for one definition and checks what it made."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from grampus.core.errors import GrampusError
from grampus.core.progress import Progress
from grampus.hosts.process import LocalCommand, run_command, spawn_command
from grampus.lab.images.archive import observe_archive
from grampus.lab.images.build_progress import PHASE_TITLES, BuildPhase, BuildProgressReader
from grampus.lab.images.definition import ImageDefinition
from grampus.lab.images.failure import classify_build_failure
from grampus.lab.images.recipe import render_build_command
from grampus.lab.images.trees import record_builder
from grampus.lab.images.verify import verify_image
from grampus.state.home import write_atomically

# Enough for apt's explanation of unmet dependencies, which are the longest.
_TAIL_LINES = 200


def build_root(
    definition: ImageDefinition, building: Path, log_file: Path, progress: Progress
) -> Path:
    """Build `definition` into `building`/root, check it and bring it to disk; returns the root.

    What mmdebstrap said is kept in `log_file` when it fails. The build is ended when this
    function is left in any way. Raises GrampusError with the codes of
    `classify_build_failure`, with `image-incomplete` when the root lacks what was promised,
    and with `program-missing`.
    """
    root = building / "root"
    source = observe_archive(os.environ)
    # What mmdebstrap is started through would hide its absence in a code of its own.
    run_command(["mmdebstrap", "--version"], timeout_s=30)
    command = render_build_command(
        definition, root, mirror=source.mirror, apt_options=source.apt_options
    )
    running = spawn_command(command, env=source.env, merge_stderr=True)
    try:
        record_builder(building, running.pid)
        output = _follow(running, progress)
        result = running.wait()
    finally:
        running.terminate()
    if result.returncode != 0:
        # The log is a courtesy: a disk too full for it must not hide the cause.
        with contextlib.suppress(OSError):
            write_atomically(log_file, "\n".join(output).encode(), mode=0o600)
        raise classify_build_failure(
            "\n".join(output[-_TAIL_LINES:]), suite=definition.suite, log_file=str(log_file)
        )
    progress.phase("Check the host image")
    _remove_build_settings(root)
    require_complete(root, definition)
    # A power cut after the rename must not leave an image whose files are empty.
    run_command(["sync", "--file-system", str(root)], timeout_s=600)
    return root


def require_complete(root: Path, definition: ImageDefinition) -> None:
    """Raise GrampusError with code `image-incomplete` when something promised is missing."""
    missing = verify_image(root, definition)
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise GrampusError(
            f"The host image '{definition.name}' was built but lacks {shown}.",
            f"Fix the packages in images/{definition.name}.toml: the suite may have moved the "
            "files to another package.",
            code="image-incomplete",
        )


def _follow(running: LocalCommand, progress: Progress) -> list[str]:
    """Read all lines (about 2,500), telling `progress` what they mean."""
    reader = BuildProgressReader()
    phase: BuildPhase | None = None
    output = []
    for line in running.lines():
        output.append(line)
        step = reader.read(line)
        if step is None:
            continue
        if step.phase != phase:
            phase = step.phase
            progress.phase(PHASE_TITLES[phase])
        if step.detail:
            progress.detail(step.detail, fraction=step.fraction)
    return output


def _remove_build_settings(root: Path) -> None:
    """The archive's address and the build's options: of no use in a container."""
    for path in ("sources.list", "apt.conf.d/99mmdebstrap"):
        (root / "etc/apt" / path).unlink(missing_ok=True)
