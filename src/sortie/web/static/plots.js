// Draws what people would rather look at than read; the same numbers are in a table on the page.
"use strict";
(() => {
  const HEIGHT = 150;
  const drawn = new WeakMap();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  function short(value) {
    for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (Math.abs(value) >= limit) return `${+(value / limit).toFixed(1)}${unit}`;
    }
    return String(+value.toFixed(2));
  }

  function told(plot, value) {
    if (value == null) return "–";
    if (plot.unit === "$") return `$${value.toFixed(2)}`;
    return plot.unit ? `${short(value)} ${plot.unit}` : short(value);
  }

  // Bars on top of each other: each begins where those before it end.
  function stacked(series) {
    const sums = series[0].values.map(() => 0);
    return series.map((one) => one.values.map((value, at) => (sums[at] += value)));
  }

  // Marks that are closer together than a second would have the same name.
  const once = (names) => names.map((name, at) => (name === names[at - 1] ? "" : name));

  function options(plot, width) {
    const bars = plot.kind !== "line";
    const isShort = plot.x.at(-1) - plot.x[0] < 600;
    const day = (at) => new Date(at * 1000).toISOString().slice(0, 10);
    const time = (at) => new Date(at * 1000).toISOString().slice(11, 19);
    const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const series = plot.series.map((one, at) => ({
      label: one.label,
      stroke: bars ? undefined : colour(one.colour),
      fill: bars ? colour(one.colour) : undefined,
      width: bars ? 0 : 1.5,
      paths: bars ? uPlot.paths.bars({ size: [0.7, 40], align: 0 }) : undefined,
      points: { show: false },
      value: (_, __, ___, index) => told(plot, index == null ? null : plot.series[at].values[index]),
    }));
    // What is drawn first is covered by what comes after it: the highest stack comes first.
    if (plot.kind === "stacked") series.reverse();
    const limit = plot.limit;
    const top = (_, low, high) => [0, (limit && high > limit / 4 ? Math.max(high, limit) : high || 1) * 1.08];
    return {
      width,
      height: HEIGHT,
      cursor: { points: { show: false }, drag: { x: false, y: false } },
      legend: { markers: { width: 0, fill: (_, at) => (at ? series[at - 1].fill || series[at - 1].stroke : "") } },
      scales: { x: { time: true, range: bars ? (_, low, high) => [low - 43200, high + 43200] : undefined }, y: { range: top } },
      axes: [
        { ...axis, size: 26, grid: { show: false }, values: (_, all) => once(all.map((at) => (bars ? day(at).slice(5) : time(at).slice(0, isShort ? 8 : 5)))), space: 70 },
        { ...axis, size: 56, values: (_, all) => all.map((value) => (plot.unit === "$" ? `$${short(value)}` : `${short(value)} ${plot.unit}`)) },
      ],
      series: [{ label: bars ? "day" : "time", value: (_, at) => (at == null ? "–" : bars ? day(at) : time(at)) }, ...series],
      hooks: { draw: limit ? [(chart) => line(chart, limit)] : [] },
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
    };
  }

  function line(chart, limit) {
    const y = Math.round(chart.valToPos(limit, "y", true));
    if (y < chart.bbox.top) return;
    chart.ctx.save();
    chart.ctx.strokeStyle = colour("red");
    chart.ctx.setLineDash([6, 4]);
    chart.ctx.lineWidth = devicePixelRatio;
    chart.ctx.beginPath();
    chart.ctx.moveTo(chart.bbox.left, y);
    chart.ctx.lineTo(chart.bbox.left + chart.bbox.width, y);
    chart.ctx.stroke();
    Object.assign(chart.ctx, { font: `${11 * devicePixelRatio}px system-ui, sans-serif`, textAlign: "left", textBaseline: "bottom", fillStyle: colour("red") });
    chart.ctx.fillText("limit of a day", chart.bbox.left + 4 * devicePixelRatio, y - 2 * devicePixelRatio);
    chart.ctx.restore();
  }

  function draw(element) {
    const plot = JSON.parse(element.dataset.plot);
    const padding = 28;
    const width = Math.max(element.clientWidth - padding, 200);
    const values = plot.kind === "stacked" ? stacked(plot.series).reverse() : plot.series.map((one) => one.values);
    drawn.get(element)?.destroy();
    drawn.set(element, new uPlot(options(plot, width), [plot.x, ...values], element));
  }

  function drawAll() {
    for (const element of document.querySelectorAll(".plot[data-plot]")) draw(element);
  }

  document.addEventListener("sortie:plot", (event) => draw(event.target));
  // A refresh may bring the first numbers of a plot.
  document.addEventListener("htmx:afterSettle", () => {
    for (const element of document.querySelectorAll(".plot[data-plot]")) if (!drawn.has(element)) draw(element);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  let resized = 0;
  addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(drawAll, 150);
  });
  drawAll();
})();
