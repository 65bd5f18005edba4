from __future__ import annotations

import hashlib
import tomllib
from importlib.resources import files

from grampus.report.vendored import chart_library, chart_library_css

ASSETS = files("grampus.report") / "assets"
LIBRARIES = tomllib.loads((ASSETS / "VERSIONS.toml").read_text())["library"]


def test_vendored_files_are_the_recorded_ones():
    recorded = {name: digest for library in LIBRARIES for name, digest in library["sha256"].items()}
    present = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in ASSETS.iterdir()
        if file.name != "VERSIONS.toml"
    }
    assert present == recorded


def test_every_library_names_version_and_licence():
    for library in LIBRARIES:
        assert library["name"]
        assert library["licence"] == "MIT"
        assert library["version"] in chart_library()
        assert library["licence_file"] in library["sha256"]


def test_the_library_carries_its_licence_and_cannot_end_its_element():
    assert chart_library().startswith("/*\nThe MIT License")
    for text in (chart_library(), chart_library_css()):
        assert "</" not in text
        assert "<!--" not in text
        assert "\r" not in text
