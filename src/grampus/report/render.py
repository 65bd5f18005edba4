"""A page as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from grampus.report.drawing import (
    CHART_HEIGHT,
    CHART_WIDTH,
    PLOT_BOTTOM,
    PLOT_LEFT,
    PLOT_RIGHT,
    PLOT_TOP,
)
from grampus.report.matrix.forest import FOREST_WIDTH
from grampus.report.matrix.layer_strips import LINE_HEIGHT, STRIP_WIDTH
from grampus.report.matrix.page import MatrixPage
from grampus.report.matrix.trial_series import SERIES_HEIGHT, SERIES_WIDTH
from grampus.report.page import RESULT_COLUMNS, Page
from grampus.report.paths_page import DRAWING_WIDTH, PathsPage
from grampus.report.paths_page import RESULT_COLUMNS as PATHS_COLUMNS
from grampus.report.vendored import chart_library, chart_library_css

# Of a page without any script.
_STILL_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_LOADER = PackageLoader("grampus.report", "templates")
_ENVIRONMENT = Environment(
    loader=_LOADER,
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render_code(text: str) -> Markup:
    """A sentence of a suite, with what stands between backticks as code; the rest is escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return Markup().join([text])  # one backtick alone means itself
    return Markup().join(
        Markup("<code>{}</code>").format(part) if number % 2 else part
        for number, part in enumerate(parts)
    )


_ENVIRONMENT.filters["code"] = render_code


def render_page(page: Page) -> str:
    """The HTML of `page`.

    Its content security policy allows the two scripts below by their digests and nothing
    else: no request can leave the file, and no text of the run can become a script.
    """
    scripts = (chart_library(), _source("charts.js"))
    digests = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return _ENVIRONMENT.get_template("report.html.j2").render(
        page=page,
        columns=RESULT_COLUMNS,
        policy=(
            f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; "
            "img-src data:; base-uri 'none'; form-action 'none'"
        ),
        styles=_trusted(f"{chart_library_css()}\n{_source('report.css')}"),
        scripts=[_trusted(script) for script in scripts],
        payload=_trusted(render_payload(page.payload)),
    )


def render_paths_page(page: PathsPage) -> str:
    """The HTML of `page`: tables and drawings, without any script."""
    return _ENVIRONMENT.get_template("paths.html.j2").render(
        page=page,
        columns=PATHS_COLUMNS,
        width=DRAWING_WIDTH,
        policy=_STILL_POLICY,
        styles=_trusted(f"{_source('report.css')}\n{_source('paths.css')}"),
    )


def render_matrix_page(page: MatrixPage) -> str:
    """The HTML of `page`: tables and drawings, without any script."""
    return _ENVIRONMENT.get_template("matrix.html.j2").render(
        page=page,
        size={
            "width": CHART_WIDTH,
            "height": CHART_HEIGHT,
            "left": PLOT_LEFT,
            "right": PLOT_RIGHT,
            "top": PLOT_TOP,
            "bottom": PLOT_BOTTOM,
        },
        series_size={"width": SERIES_WIDTH, "height": SERIES_HEIGHT},
        strip_size={"width": STRIP_WIDTH, "line": LINE_HEIGHT},
        forest_width=FOREST_WIDTH,
        policy=_STILL_POLICY,
        styles=_trusted(f"{_source('report.css')}\n{_source('matrix.css')}"),
    )


def render_payload(payload: dict[str, object]) -> str:
    """JSON that cannot end the `<script>` element it stands in, whatever its strings hold."""
    text = json.dumps(payload, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _trusted(text: str) -> Markup:
    return Markup(text)  # noqa: S704 - our own files, and JSON escaped by render_payload


def _source(name: str) -> str:
    return _LOADER.get_source(_ENVIRONMENT, name)[0]


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
