// Charts of a run: lines by uPlot, the lag map on a canvas of its own. Draws only what it is given.
"use strict";
const Charts = (() => {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const SERIES = ["--s1", "--s2", "--s3", "--s4", "--s5", "--s6", "--s7", "--s8"];
  const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [1, 4], [10, 4], [4, 4], [3, 6]];
  const figure = (value) => value == null ? "no value" :
    Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(3) : String(+value.toPrecision(6));
  const short = (value) => Math.abs(value) >= 1e9 ? value / 1e9 + "G" : Math.abs(value) >= 1e6 ? value / 1e6 + "M"
    : Math.abs(value) >= 1e3 ? value / 1e3 + "k" : String(+value.toPrecision(6));

  // Vertical marks: restarts (dashed), findings (thick), steps that were not finite (ticks at the top), lost work (shaded).
  const marks = (state) => ({
    hooks: {
      drawClear: [(plot) => {
        const ctx = plot.ctx, { left, top, width, height } = plot.bbox;
        ctx.save();
        ctx.beginPath(); ctx.rect(left, top, width, height); ctx.clip();
        ctx.fillStyle = css("--lost");
        for (const [low, high] of state.marks.lost || []) {
          const x = plot.valToPos(low, "x", true);
          ctx.fillRect(x, top, Math.max(plot.valToPos(high, "x", true) - x, 2), height);
        }
        ctx.restore();
      }],
      draw: [(plot) => {
        const ctx = plot.ctx, { left, top, width, height } = plot.bbox;
        ctx.save();
        ctx.beginPath(); ctx.rect(left, top, width, height); ctx.clip();
        const line = (step, colour, dash, thick) => {
          const x = Math.round(plot.valToPos(step, "x", true)) + .5;
          ctx.strokeStyle = colour; ctx.lineWidth = thick * devicePixelRatio; ctx.setLineDash(dash);
          ctx.beginPath(); ctx.moveTo(x, top); ctx.lineTo(x, top + height); ctx.stroke();
        };
        for (const step of state.marks.restarts || []) line(step, css("--note"), [4, 4], 1);
        for (const [step, , severity] of state.marks.incidents || [])
          line(step, css(severity === "error" ? "--bad" : "--warn"), [], 1.5);
        ctx.fillStyle = css("--bad");
        for (const step of state.series ? state.series.bad : []) {
          const x = plot.valToPos(step, "x", true);
          ctx.fillRect(x - devicePixelRatio, top, 2 * devicePixelRatio, 8 * devicePixelRatio);
        }
        ctx.restore();
      }],
    },
  });

  const line = (label, index, more) => ({
    label, stroke: () => css(SERIES[index % SERIES.length]), width: 1.5, dash: DASHES[index % DASHES.length],
    points: { show: false }, spanGaps: false, ...more,
  });
  const legend = (key, lines) => {
    const host = document.getElementById("chart-" + key), list = document.createElement("ul");
    list.className = "legend";
    lines.forEach((line) => {
      const item = document.createElement("li"), sample = document.createElement("span");
      sample.className = "sample";
      sample.style.borderTopColor = line.stroke();
      sample.style.borderTopStyle = line.dash.length ? "dashed" : "solid";
      item.append(sample, line.label);
      list.append(item);
    });
    host.append(list);
  };
  // The range between least and greatest value of each stretch, under the line of the last.
  const band = (stroke) => [
    { label: "max", isAside: true, stroke: () => css(stroke) + "66", width: 1, points: { show: false } },
    { label: "min", isAside: true, stroke: () => css(stroke) + "66", width: 1, points: { show: false } },
  ];

  const make = (where, key, series, data, options) => {
    const host = document.getElementById("chart-" + key);
    if (!host) return null;
    host.replaceChildren();
    const plot = new uPlot({
      width: Math.max(host.clientWidth, 200), height: 210, padding: [8, 12, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "run", setSeries: false }, drag: { x: true, y: false }, points: { size: 6 } },
      scales: { x: { time: false, range: where.range ? () => where.range : undefined },
                y: options.log ? { distr: 3, log: 10 } : {} },
      axes: [
        { stroke: () => css("--note"), grid: { stroke: () => css("--line"), width: 1 }, ticks: { show: false },
          values: (_, all) => all.map((v) => v == null || (v % 1 && !options.isContinuous) ? "" : short(v)), size: 26, font: "11px system-ui" },
        { stroke: () => css("--note"), grid: { stroke: () => css("--line"), width: 1 }, ticks: { show: false },
          values: (_, all) => all.map((v) => v == null ? "" : short(v)), size: 52, font: "11px system-ui" },
      ],
      series: [{ label: "step" }, ...series],
      bands: options.bands || [],
      plugins: [marks(where)],
      hooks: {
        setCursor: [(self) => options.read && options.read(self.cursor.idx ?? data[0].length - 1)],
        setSelect: [(self) => {
          if (self.select.width < 4) return;
          const at = (x) => options.isContinuous ? self.posToVal(x, "x") : Math.round(self.posToVal(x, "x"));
          const low = at(self.select.left), high = at(self.select.left + self.select.width);
          self.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          if (high > low) where.choose(low, high);
        }],
      },
    }, data, host);
    // Without a cursor the last step is read; it is said aloud only to whoever has the chart in focus.
    const said = document.getElementById("reading-" + key);
    if (said) {
      host.onfocus = () => said.setAttribute("aria-live", "polite");
      host.onblur = () => said.setAttribute("aria-live", "off");
    }
    options.read && data[0].length && options.read(data[0].length - 1);
    host.onkeydown = (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -50, PageDown: 50 }[event.key];
      if (!by || !data[0].length) return;
      event.preventDefault();
      const at = Math.min(Math.max((plot.cursor.idx ?? data[0].length - 1) + by, 0), data[0].length - 1);
      plot.setCursor({ left: plot.valToPos(data[0][at], "x"), top: 20 });
      options.read && options.read(at);
    };
    return plot;
  };

  // viridis, nine anchors (matplotlib, CC0), between them straight lines.
  const ANCHORS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99],
    [170, 220, 50], [253, 231, 37]];
  const TABLE = new Uint32Array(256);
  for (let i = 1; i < 256; i++) {
    const at = (i - 1) / 254 * 8, low = Math.min(Math.floor(at), 7), part = at - low;
    const mix = (c) => Math.round(ANCHORS[low][c] * (1 - part) + ANCHORS[low + 1][c] * part);
    TABLE[i] = 0xff000000 | mix(2) << 16 | mix(1) << 8 | mix(0);
  }
  // The hosts beside their rows, as many as find room; each begins at its line.
  const hostNames = (hosts, rows, height) => {
    const names = document.createElement("div");
    names.className = "hosts";
    names.style.height = height + "px";
    let free = 0;
    for (const [first, host] of hosts) {
      const top = first / rows * height;
      if (top < free || top > height - 12) continue;
      free = top + 15;
      const name = document.createElement("span");
      name.textContent = host;
      name.style.top = top + "px";
      names.append(name);
    }
    return names;
  };
  const map = (host, lag, onRank, onRead) => {
    host.replaceChildren();
    if (!lag || !lag.rows.length) { host.hidden = true; return; }
    host.hidden = false;
    const rows = lag.rows.length, columns = lag.steps.length;
    const bytes = Uint8Array.from(atob(lag.cells), (c) => c.charCodeAt(0));
    const canvas = document.createElement("canvas");
    canvas.width = columns; canvas.height = rows;
    const image = canvas.getContext("2d").createImageData(columns, rows);
    const pixels = new Uint32Array(image.data.buffer);
    for (let i = 0; i < pixels.length; i++) pixels[i] = TABLE[bytes[i]];
    canvas.getContext("2d").putImageData(image, 0, 0);
    const height = rows > 320 ? rows : Math.min(Math.max(rows * 14, 120), 320);
    canvas.style.height = height + "px";
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [Math.min(Math.floor((event.clientX - box.left) / box.width * columns), columns - 1),
              Math.min(Math.floor((event.clientY - box.top) / box.height * rows), rows - 1)];
    };
    const hostOf = (row) => { let name = null; for (const [first, host] of lag.hosts) if (first <= row) name = host; return name; };
    let column = columns - 1, row = 0;
    const read = () => {
      const cell = bytes[row * columns + column], share = cell ? 1e-3 * Math.exp((cell - 1) / 254 * Math.log(1e3)) : null;
      const on = hostOf(row), worst = lag.rows[row].startsWith("ranks") ? `, rank ${lag.worst[row]} the most` : "";
      onRead(`${lag.rows[row]}${on ? ` on ${on}` : ""}${worst}, step ${lag.steps[column].toLocaleString("en")}: ` +
        (share == null ? "not known" : share <= 1e-3 ? "not behind" : `${(100 * share).toPrecision(2)}% of the step behind its peers`));
    };
    canvas.onmousemove = (event) => { [column, row] = at(event); read(); };
    canvas.onclick = (event) => { [column, row] = at(event); onRank(lag.worst[row]); };
    host.onkeydown = (event) => {
      const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (event.key === "Enter") return onRank(lag.worst[row]);
      if (!by) return;
      event.preventDefault();
      column = Math.min(Math.max(column + by[0], 0), columns - 1);
      row = Math.min(Math.max(row + by[1], 0), rows - 1);
      read();
    };
    const axis = document.createElement("p");
    axis.className = "note axis";
    axis.textContent = `${lag.rows[0]} (top) to ${lag.rows[rows - 1].split(" ").pop()}, steps ` +
      `${lag.steps[0].toLocaleString("en")} to ${lag.steps[columns - 1].toLocaleString("en")}`;
    const scale = document.createElement("p");
    scale.className = "note scale";
    const bar = document.createElement("canvas");
    bar.width = 255; bar.height = 1; bar.className = "bar";
    const strip = bar.getContext("2d").createImageData(255, 1);
    new Uint32Array(strip.data.buffer).set(TABLE.subarray(1));
    bar.getContext("2d").putImageData(strip, 0, 0);
    scale.append("0.1% of the step ", bar, " all of it; empty: not known");
    const field = document.createElement("div");
    field.className = "field";
    field.append(canvas);
    if (lag.hosts.length > 1) field.prepend(hostNames(lag.hosts, rows, height));
    host.append(field, axis, scale);
  };
  return { make, legend, line, band, map, figure, css, SERIES };
})();
