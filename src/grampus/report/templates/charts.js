"use strict";
/* Draws the charts of the report from the JSON in #report-data; knows nothing of benchmarks. */
(() => {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const darkScheme = window.matchMedia("(prefers-color-scheme: dark)");
  const logarithmic = document.getElementById("logarithmic");
  const PRINT_WIDTH = 640;
  const LABEL_STRIP = 18;
  const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400];
  let printing = false;
  let plots = [];

  // Hue, and how far subjects of one family may move from it, in degrees.
  const FAMILY_HUES = new Map(Object.entries({
    osd: [220, 60], mon: [285, 30], mgr: [330, 20], volume: [128, 50], mysqld: [30, 30],
    mariadbd: [30, 30], volumed: [158, 24], qsd: [158, 24],
  }));
  const SPARE_HUES = [165, 60, 250, 100, 305, 350];

  function theme() {
    const dark = darkScheme.matches && !printing;
    return dark
      ? { dark, text: "#9ba7b8", grid: "#2a323e", label: "#e4e9f0",
          ceph: "#74adf2", local: "#f0a05c", shade: "rgba(155,167,184,0.13)",
          bands: { ceph: "rgba(116,173,242,0.14)", local: "rgba(240,160,92,0.14)" } }
      : { dark, text: "#566173", grid: "#e6eaf0", label: "#1a2230",
          ceph: "#1f63b5", local: "#b9560b", shade: "rgba(86,97,115,0.11)",
          bands: { ceph: "rgba(31,99,181,0.10)", local: "rgba(185,86,11,0.10)" } };
  }

  function number(value) {
    if (value == null) return "";
    const size = Math.abs(value);
    const digits = size === 0 || size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
    return value.toLocaleString("en-US", { maximumFractionDigits: digits });
  }

  // Axis marks need no more digits than set them apart.
  function marks(plot, splits) {
    const step = splits.length > 1 ? Math.abs(splits[1] - splits[0]) : 1;
    let digits = 0;
    while (digits < 6 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6) digits += 1;
    return splits.map((value) => value == null ? "" :
      value.toLocaleString("en-US", { maximumFractionDigits: digits }));
  }

  function powers(plot, splits) {
    return splits.map((value) => {
      if (value == null) return "";
      const power = Math.log10(value);
      return Math.abs(power - Math.round(power)) < 1e-6
        ? value.toLocaleString("en-US", { maximumSignificantDigits: 1 }) : "";
    });
  }

  function clock(seconds) {
    const whole = Math.round(Math.abs(seconds));
    const two = (part) => String(part).padStart(2, "0");
    const hours = Math.floor(whole / 3600);
    const minutes = Math.floor(whole / 60) % 60;
    const text = hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
    return seconds < -0.5 ? `-${text}` : text;
  }

  function fade(colour, alpha) {
    return colour.replace("hsl(", "hsla(").replace(")", `, ${alpha})`);
  }

  // One hue a family; within it, hue and lightness move so that neighbours differ.
  function familyColours(series, dark) {
    const members = new Map();
    for (const one of series) members.set(one.family, (members.get(one.family) || 0) + 1);
    const spare = [...members.keys()].filter((name) => !FAMILY_HUES.has(name));
    const seen = new Map();
    return series.map((one) => {
      if (one.family === "machine") return dark ? "hsl(0, 0%, 88%)" : "hsl(0, 0%, 20%)";
      if (one.family === "other") return dark ? "hsl(215, 12%, 58%)" : "hsl(215, 12%, 52%)";
      const index = seen.get(one.family) || 0;
      seen.set(one.family, index + 1);
      const [hue, spread] = FAMILY_HUES.get(one.family) ||
        [SPARE_HUES[spare.indexOf(one.family) % SPARE_HUES.length], 40];
      const count = members.get(one.family);
      const place = count > 1 ? index / (count - 1) - 0.5 : 0;
      const lift = (index % 2) * (count > 2 ? 14 : 10);
      return `hsl(${Math.round((hue + place * spread + 360) % 360)}, ${dark ? 62 : 58}%, ${(dark ? 56 : 40) + lift}%)`;
    });
  }

  function fillSpan(plot, fromX, toX, colour) {
    const { left, top, width, height } = plot.bbox;
    const from = Math.max(left, plot.valToPos(fromX, "x", true));
    const to = Math.min(left + width, plot.valToPos(toX, "x", true));
    if (to <= from) return null;
    plot.ctx.save();
    plot.ctx.fillStyle = colour;
    plot.ctx.fillRect(from, top, to - from, height);
    plot.ctx.restore();
    return { from, to, top };
  }

  // The first of `texts` that fits above the span, centred; the last one in any case, from its left.
  function writeLabel(plot, span, texts, colour) {
    const ratio = window.devicePixelRatio || 1;
    const { ctx } = plot;
    ctx.save();
    ctx.font = `${Math.round(11 * ratio)}px system-ui, sans-serif`;
    ctx.textBaseline = "bottom";
    ctx.fillStyle = colour;
    const room = span.to - span.from - 4 * ratio;
    const fitting = texts.find((one) => ctx.measureText(one).width <= room);
    ctx.textAlign = fitting ? "center" : "left";
    const x = fitting ? (span.from + span.to) / 2 : span.from;
    ctx.fillText(fitting || texts[texts.length - 1], x, span.top - 3 * ratio);
    ctx.restore();
  }

  function axes(colours, xLabel, xValues, yValues) {
    const common = {
      stroke: colours.text, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
      grid: { stroke: colours.grid, width: 1 }, ticks: { stroke: colours.grid, width: 1, size: 5 },
    };
    return [
      { ...common, label: xLabel, labelSize: 22, size: 34, values: xValues, space: 56, incrs: SECONDS },
      { ...common, values: yValues, size: yAxisSize },
    ];
  }

  function yAxisSize(plot, values) {
    const longest = (values || []).reduce((most, text) => Math.max(most, text.length), 1);
    return Math.max(38, 14 + longest * 7.5);
  }

  function fromZero(plot, low, high) {
    return [0, high > 0 ? high * 1.05 : 1];
  }

  function size(element) {
    const width = printing ? PRINT_WIDTH : Math.max(200, element.clientWidth);
    return { width, height: printing ? 220 : width < 420 ? 220 : 260 };
  }

  function draw(element, options, data) {
    element.replaceChildren();
    const colours = theme();
    const plot = new uPlot({
      ...size(element),
      padding: [LABEL_STRIP, 12, 0, 0],
      legend: { live: true },
      ...options,
      hooks: { ...options.hooks, drawClear: [(self) => options.shade(self, colours)] },
    }, data, element);
    plots.push({ element, plot });
  }

  function pairChart(chart) {
    const element = document.getElementById(chart.id);
    if (!element || chart.lines.length === 0) return;
    const colours = theme();
    const inLogs = Boolean(logarithmic && logarithmic.checked);
    const shown = (y) => (inLogs && y !== null && y <= 0 ? null : y);
    const tables = chart.lines.map((line) => [line.x, line.y.map(shown)]);
    // Mode 2 keeps a hole a hole where the other line has points in it.
    const data = uPlot.join(tables, tables.map(() => [0, 2]));
    const values = tables.flatMap((table) => table[1]).filter((y) => y !== null);
    const yScale = inLogs && values.length > 0
      ? { distr: 3, range: logRange(values) } : { range: fromZero };
    draw(element, {
      cursor: { hover: { skip: [undefined, null], prox: 12 }, drag: { x: true, y: false } },
      scales: { x: { time: false, range: atLeastOneSecond }, y: yScale },
      axes: axes(colours, "seconds since the first sample", marks, inLogs ? powers : marks),
      series: [
        { label: "second", value: (plot, x) => (x == null ? "\u2013" : number(x)) },
        ...chart.lines.map((line) => ({
          label: line.label,
          stroke: colours[line.arm],
          width: 2,
          dash: line.arm === "local" ? [6, 3] : undefined,
          points: { show: line.x.length === 1 ? true : undefined, size: 8 },
          value: (plot, y) => number(y),
        })),
      ],
      shade: (plot, palette) => {
        const ends = chart.lines.map((line) => line.warmup).filter((end) => end !== null);
        // One layer each: where the two disks' warm-ups differ, the shade has two steps.
        const spans = ends.map((end) => fillSpan(plot, 0, end, palette.shade));
        const widest = spans.filter(Boolean).sort((one, other) => other.to - one.to)[0];
        if (widest) writeLabel(plot, widest, ["warm-up"], palette.text);
      },
    }, data);
  }

  function atLeastOneSecond(plot, low, high) {
    return high > low ? [low, high] : [low - 0.5, low + 0.5];
  }

  function logRange(values) {
    const low = values.reduce((least, y) => Math.min(least, y), Infinity);
    const high = values.reduce((most, y) => Math.max(most, y), 0);
    return [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high * 1.001))];
  }

  function stackLayers(series, visible) {
    const stacked = series.map((one, index) => !one.overlay && visible(index));
    // Null where no layer has a value: a hole in the samples is a hole, not zero use.
    const sums = Array.from({ length: report.grid.bins }, (_, bin) =>
      series.some((one, index) => stacked[index] && one.y[bin] !== null) ? 0 : null);
    return series.map((one, index) => {
      if (!stacked[index]) return one.y;
      return one.y.map((y, bin) => {
        if (sums[bin] !== null) sums[bin] += y || 0;
        return sums[bin];
      });
    });
  }

  // Each visible layer is filled down to the visible layer below it.
  function stackBands(series, visible) {
    const bands = [];
    let below = -1;
    series.forEach((one, index) => {
      if (one.overlay || !visible(index)) return;
      if (below >= 0) bands.push({ series: [index + 1, below + 1] });
      below = index;
    });
    return bands;
  }

  function resourceChart(chart) {
    const element = document.getElementById(chart.id);
    if (!element || !report.grid) return;
    const colours = theme();
    const { first, step, bins } = report.grid;
    const x = Array.from({ length: bins }, (_, bin) => first + bin * step);
    const strokes = familyColours(chart.series, colours.dark);
    const everything = () => true;
    const options = {
      cursor: { sync: { key: "resources" }, hover: { skip: [undefined] }, drag: { x: true, y: false } },
      scales: { x: { time: false, range: atLeastOneSecond }, y: { range: fromZero } },
      axes: axes(colours, "min:s since the start of the run",
        (plot, splits) => splits.map((s) => (s == null ? "" : clock(s))), marks),
      series: [
        { label: "min:s", value: (plot, at) => (at == null ? "\u2013" : clock(at)) },
        ...chart.series.map((one, index) => ({
          label: one.label,
          stroke: strokes[index],
          fill: chart.stacked && !one.overlay ? fade(strokes[index], 0.72) : undefined,
          width: one.overlay ? 2 : chart.stacked ? 0.5 : 1.5,
          dash: one.overlay ? [5, 4] : undefined,
          points: { show: bins === 1, size: 8 },
          value: (plot, y, s, bin) => (bin == null ? "" : number(one.y[bin])),
        })),
      ],
      shade: (plot, palette) => {
        for (const band of report.bands) {
          const span = fillSpan(plot, band.from, band.to, palette.bands[band.arm]);
          if (span) writeLabel(plot, span, [band.label, String(band.number)], palette[band.arm]);
        }
      },
    };
    if (chart.stacked) {
      options.bands = stackBands(chart.series, everything);
      options.hooks = { setSeries: [(plot, changed, state) => {
        if (changed == null || state.show == null) return;
        const visible = (index) => plot.series[index + 1].show;
        plot.delBand(null);
        stackBands(chart.series, visible).forEach((band) => plot.addBand(band));
        plot.setData([x, ...stackLayers(chart.series, visible)]);
      }] };
    }
    const layers = chart.stacked ? stackLayers(chart.series, everything) : chart.series.map((one) => one.y);
    draw(element, options, [x, ...layers]);
  }

  function drawAll() {
    plots.forEach(({ plot }) => plot.destroy());
    plots = [];
    report.pairs.forEach(pairChart);
    report.resources.forEach(resourceChart);
  }

  function fit() {
    for (const { element, plot } of plots) {
      const wanted = size(element);
      if (wanted.width !== plot.width || wanted.height !== plot.height) plot.setSize(wanted);
    }
  }

  document.documentElement.classList.add("scripted");
  drawAll();
  let pending = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(pending);
    pending = requestAnimationFrame(fit);
  });
  darkScheme.addEventListener("change", drawAll);
  if (logarithmic) logarithmic.addEventListener("change", drawAll);
  window.addEventListener("beforeprint", () => { printing = true; drawAll(); });
  window.addEventListener("afterprint", () => { printing = false; drawAll(); });
})();
