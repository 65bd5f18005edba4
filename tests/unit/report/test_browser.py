"""The report in a real browser, opened as a user opens it: a file, without a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from grampus.report.build import build_matrix_report, build_report, render_run
from grampus.state.runs import RunArchive, Setting

from .made_findings import made_findings
from .made_paths import made_paths_run
from .made_runs import STARTED_AT_S, Shape, made_run

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]
HOSTILE = "</script><img src=x onerror=\"document.title='broken'\">"
ARM_COLOURS = {
    "light": ((31, 99, 181), (185, 86, 11)),
    "dark": ((116, 173, 242), (240, 160, 92)),
}
CHARTS = 12
# Width, height, painted pixels, and pixels of each colour asked for, of every canvas.
READ_CANVASES = """(colours) => [...document.querySelectorAll('canvas')].map((canvas) => {
  // Read from a copy: Chromium warns on the console about a canvas that is read twice.
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
  copy.drawImage(canvas, 0, 0);
  const pixels = copy.getImageData(0, 0, canvas.width, canvas.height).data;
  let painted = 0;
  const found = colours.map(() => 0);
  for (let at = 0; at < pixels.length; at += 4) {
    if (pixels[at + 3] > 0) painted += 1;
    colours.forEach(([red, green, blue], index) => {
      if (pixels[at] === red && pixels[at + 1] === green && pixels[at + 2] === blue
          && pixels[at + 3] === 255) found[index] += 1;
    });
  }
  const box = canvas.getBoundingClientRect();
  const id = canvas.closest('.plot').id;
  return { id, width: box.width, height: box.height, painted, found };
})"""


@dataclass
class Watch:
    """What a page did that a calm report never does."""

    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def follow(self, page: Page) -> None:
        page.on("console", lambda said: self.complaints.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self.requests.append(request.url))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "chromium is not installed: install the package chromium, then test again"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("report")
    archive = made_run().archive_in(directory / "runs")
    return build_report(archive, "latest", directory / "report.html")


def wait_until(page: Page, condition: str) -> None:
    """Look at `condition`, a JavaScript expression, frame by frame until it holds.

    Playwright's own waiting evaluates strings in the page, which the report's policy forbids.
    """
    page.evaluate(
        f"""() => new Promise((done, failed) => {{
          let frames = 0;
          const look = () => {{
            if ({condition}) done();
            else if (frames++ > 300) failed(new Error("waited for 300 frames"));
            else requestAnimationFrame(look);
          }};
          requestAnimationFrame(look);
        }})"""
    )


def paint(page: Page) -> None:
    """Let two frames pass: uPlot paints in a microtask, so then all is on the canvas."""
    page.evaluate("() => new Promise((d) => requestAnimationFrame(() => requestAnimationFrame(d)))")


def opened(browser: Browser, file: Path, watch: Watch, scheme: str, width: int) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    watch.follow(page)
    page.goto(file.as_uri())
    paint(page)
    return page


def assert_calm(watch: Watch, file: Path) -> None:
    assert watch.complaints == []
    assert [url for url in watch.requests if not url.startswith("data:")] == [file.as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_charts_are_drawn_and_nothing_is_loaded(
    browser: Browser, report: Path, scheme: str, width: int
):
    watch = Watch()
    page = opened(browser, report, watch, scheme, width)
    canvases = page.evaluate(READ_CANVASES, ARM_COLOURS[scheme])
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    page.close()
    assert_calm(watch, report)
    assert len(canvases) == CHARTS
    for canvas in canvases:
        assert canvas["width"] > 200, canvas
        assert canvas["height"] > 200, canvas
        assert canvas["painted"] > 2000, canvas
        if not canvas["id"].startswith("resource-"):
            assert min(canvas["found"]) > 20, canvas
    assert overflow <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_report_of_paths_draws_its_intervals_and_loads_nothing(
    browser: Browser, tmp_path: Path, scheme: str, width: int
):
    archive = RunArchive(tmp_path / "runs")
    archive.save(made_paths_run())
    file = build_report(archive, "latest", tmp_path / "report.html")
    watch = Watch()
    page = opened(browser, file, watch, scheme, width)
    boxes = [one.bounding_box() for one in page.locator("svg.better, svg.worse, svg.either").all()]
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    page.close()
    assert_calm(watch, file)
    assert len(boxes) == 4
    assert all(box is not None and box["width"] > 200 for box in boxes)
    assert overflow <= 0


def test_charts_follow_the_window_and_the_colour_scheme(browser: Browser, report: Path):
    watch = Watch()
    page = opened(browser, report, watch, "light", 1280)
    page.set_viewport_size({"width": 390, "height": 900})
    wait_until(
        page,
        "[...document.querySelectorAll('canvas')].every("
        "(canvas) => canvas.getBoundingClientRect().width < 390)",
    )
    page.emulate_media(color_scheme="dark")
    dark = [list(colour) for colour in ARM_COLOURS["dark"]]
    wait_until(page, f"({READ_CANVASES})({dark})[0].found[0] > 20")
    page.close()
    assert_calm(watch, report)


def test_values_are_read_under_the_cursor_and_series_are_switched_off(
    browser: Browser, report: Path
):
    watch = Watch()
    page = opened(browser, report, watch, "light", 1280)
    page.locator("#tps-0 .u-over").hover()
    values = page.locator("#tps-0 .u-value").all_inner_texts()
    page.locator("#resource-cpu .u-over").hover()
    together = page.locator("#resource-write-iops .u-value").first.inner_text()
    before = page.evaluate(READ_CANVASES, [])
    page.locator("#resource-cpu .u-series").nth(7).locator("th").click()
    paint(page)
    after = page.evaluate(READ_CANVASES, [])
    page.check("#logarithmic")
    paint(page)
    logarithmic = page.evaluate(READ_CANVASES, ARM_COLOURS["light"])
    page.close()
    assert_calm(watch, report)
    assert all(float(value.replace(",", "")) > 0 for value in values)
    assert ":" in together
    painted = {canvas["id"]: canvas["painted"] for canvas in before}
    assert painted["resource-cpu"] > {one["id"]: one["painted"] for one in after}["resource-cpu"]
    assert len(logarithmic) == CHARTS
    assert all(
        min(one["found"]) > 20 for one in logarithmic if not one["id"].startswith("resource-")
    )


def test_hostile_names_run_nothing(browser: Browser, tmp_path: Path):
    shape = Shape("w", HOSTILE, 1, 2, 1, 3, 4, 0.5)
    daemons = [f"osd-0{HOSTILE}", "constructor", "toString", "__proto__", HOSTILE]
    made = made_run(shapes=[shape], daemons=daemons, warnings=[HOSTILE])
    environment = (Setting(group=HOSTILE, name=HOSTILE, value=HOSTILE),)
    run = made.run.model_copy(update={"environment": environment, "database": HOSTILE})
    file = tmp_path / "report.html"
    file.write_text(render_run(run, made.samples, made.resources), encoding="utf-8")
    watch = Watch()
    page = opened(browser, file, watch, "light", 390)
    images = page.locator("img").count()
    canvases = page.locator("canvas").count()
    legend = page.locator("#resource-cpu .u-label").all_inner_texts()
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    title = page.title()
    page.close()
    assert_calm(watch, file)
    assert images == 0
    assert canvases == 8
    assert set(daemons) <= set(legend)
    assert title == f"Benchmark run {run.run_id}"
    assert overflow <= 0


def test_odd_runs_draw_what_they_have(browser: Browser, tmp_path: Path):
    made = made_run()
    one = made.samples["point-select"]["ceph"][:1]
    zeros = [s.model_copy(update={"tps": 0.0}) for s in made.samples["read-write"]["ceph"]]
    holed = [s for s in made.samples["read-write"]["local"] if not 6 < s.at_s % 20 < 12]
    samples = {"point-select": {"ceph": one}, "read-write": {"ceph": zeros, "local": holed}}
    resources = [s for s in made.resources if s.at_s < STARTED_AT_S + 1.5]
    file = tmp_path / "report.html"
    file.write_text(render_run(made.run, samples, resources), encoding="utf-8")
    watch = Watch()
    page = opened(browser, file, watch, "dark", 1280)
    canvases = page.evaluate(READ_CANVASES, ARM_COLOURS["dark"])
    page.check("#logarithmic")
    in_logs = page.locator("canvas").count()
    page.close()
    assert_calm(watch, file)
    by_id = {canvas["id"]: canvas for canvas in canvases}
    assert set(by_id) >= {"tps-0", "p99-0", "tps-1", "p99-1", "resource-cpu"}
    assert "tps-2" not in by_id
    assert by_id["tps-0"]["found"][0] > 4
    assert min(by_id["tps-1"]["found"]) > 20
    assert in_logs == len(canvases)


def test_the_report_prints_on_paper_in_light_colours(browser: Browser, report: Path):
    watch = Watch()
    page = opened(browser, report, watch, "dark", 1280)
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    paint(page)
    printed = page.evaluate(READ_CANVASES, ARM_COLOURS["light"])
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    paint(page)
    shown = page.evaluate(READ_CANVASES, ARM_COLOURS["dark"])
    page.close()
    assert_calm(watch, report)
    for canvases in (printed, shown):
        pairs = [one for one in canvases if not one["id"].startswith("resource-")]
        assert all(min(one["found"]) > 20 for one in pairs)
    assert {one["width"] for one in printed} == {640}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_report_of_a_matrix_draws_everything_and_loads_nothing(
    browser: Browser, tmp_path: Path, scheme: str, width: int
):
    file = build_matrix_report(*made_findings(), tmp_path / "report.html")
    watch = Watch()
    page = opened(browser, file, watch, scheme, width)
    found = {
        kind: [one.bounding_box() for one in page.locator(kind).all()]
        for kind in ("svg.lines", ".forest td svg", ".series svg", ".lines polyline", ".strips svg")
    }
    shades = page.locator(".strips path").evaluate_all(
        "(paths) => paths.map((one) => getComputedStyle(one).opacity)"
    )
    lanes = page.locator(".strips li").all()
    heights = {box["height"] for one in lanes if (box := one.bounding_box()) is not None}
    colours = page.locator(".heat td").evaluate_all(
        "(fields) => fields.map((one) => getComputedStyle(one).backgroundColor)"
    )
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    page.close()
    assert_calm(watch, file)
    assert {kind: len(boxes) for kind, boxes in found.items()} == {
        "svg.lines": 2,
        ".forest td svg": 4,
        ".series svg": 4,
        ".lines polyline": 6,
        ".strips svg": 4,
    }
    # Two lanes in each, of which one is at its limit; they stand beside their titles.
    assert sorted(shades) == ["0.12"] * 4 + ["1"] * 4
    assert (len(lanes), heights) == (8, {14})
    for kind in ("svg.lines", ".forest td svg", ".series svg"):
        assert all(box is not None and box["width"] > 190 for box in found[kind]), kind
    assert all(box is not None and box["width"] > 150 for box in found[".strips svg"])
    assert all(box is not None and box["height"] == 34 + 2 * 14 for box in found[".strips svg"])
    assert all(box is not None and box["width"] > 20 for box in found[".lines polyline"])
    assert len(set(colours)) == 4
    assert overflow <= 0


def test_hostile_words_of_a_matrix_run_nothing(browser: Browser, tmp_path: Path):
    run, trials, document = made_findings()
    document.update(title=HOSTILE, question=HOSTILE, remarks=[HOSTILE])
    for cell in document["cells"]:
        cell.update(name=HOSTILE, notes=(HOSTILE,))
        cell["point"]["media"] += HOSTILE
    file = build_matrix_report(run, trials, document, tmp_path / "report.html")
    watch = Watch()
    page = opened(browser, file, watch, "light", 390)
    images, title = page.locator("img").count(), page.title()
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    page.close()
    assert_calm(watch, file)
    assert (images, title) == (0, f"Benchmark run {run.run_id}")
    assert overflow <= 0
