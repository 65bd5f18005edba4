"""The third-party files that go into every report, kept in `assets/` (see VERSIONS.toml)."""

from __future__ import annotations

from importlib.resources import files

_ASSETS = files("grampus.report") / "assets"


def chart_library() -> str:
    """uPlot as one script that defines `uPlot`, with its licence in front, as the licence asks."""
    return f"/*\n{_read('uPlot.LICENSE.txt').strip()}\n*/\n{_read('uPlot.iife.min.js').strip()}\n"


def chart_library_css() -> str:
    """The style sheet that belongs to `chart_library`."""
    return _read("uPlot.min.css")


def _read(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
