// The page of a run: swaps the parts that changed, draws the charts, opens a rank's drawer. All words come from the server.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const boot = JSON.parse($("boot").textContent);
  const skew = boot.now - Date.now() / 1000;
  const state = { series: boot.series, marks: boot.marks, range: null, choose };
  let plots = [], source = null, heard = Date.now(), last = null;

  // -- time --------------------------------------------------------------------------------------------------------
  const UNITS = [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]];
  const lasting = (seconds) => {
    const whole = Math.max(Math.round(seconds), 0);
    for (const [name, size, smaller, least] of UNITS)
      if (whole >= size) {
        const parts = Math.round(whole / least), per = size / least, rest = parts % per;
        return `${Math.floor(parts / per)} ${name}${rest ? ` ${rest} ${smaller}` : ""}`;
      }
    return `${whole} s`;
  };
  function tick() {
    const tile = $("age-tile");
    if (tile && boot.live) {
      const age = Date.now() / 1000 + skew - parseFloat(tile.dataset.last);
      $("age").textContent = lasting(age);
      const limit = parseFloat(tile.dataset.limit);
      tile.classList.toggle("late", !Number.isNaN(limit) && age > limit);
    }
    if (boot.live)
      for (const each of document.querySelectorAll("[data-until]")) {
        const left = +each.dataset.until - Date.now() / 1000 - skew;
        each.title = each.title || each.textContent;
        each.textContent = left > 0 ? `in ${lasting(left)}` : "now";
      }
    if (boot.live && source) {
      const silent = (Date.now() - heard) / 1000;
      $("link").textContent = source.readyState === 1 && silent < 30 ? "live" : `no word from the server for ${lasting(silent)}`;
      $("link").classList.toggle("lost", !(source.readyState === 1 && silent < 30));
      if (silent > 40) listen();
    }
  }
  function localTimes(root) {
    for (const each of root.querySelectorAll("time[datetime]")) {
      const at = new Date(each.dateTime);
      each.title = each.textContent;
      each.textContent = at.toLocaleString(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
    }
  }

  // -- charts ------------------------------------------------------------------------------------------------------
  const column = (name, what) => (state.series.columns[name] || {})[what || "last"];
  const reading = (key, text) => { const at = $("reading-" + key); if (at) at.textContent = text; };
  const at = (i) => `step ${state.series.step[i].toLocaleString("en")}`;
  const extremes = (name, i) => {
    const most = column(name, "max"), where = column(name, "max_at"), least = column(name, "min"), low = column(name, "min_at");
    return most && where && most[i] != null ? `; from ${Charts.figure(least[i])} (step ${low[i].toLocaleString("en")}) to ${Charts.figure(most[i])} (step ${where[i].toLocaleString("en")})` : "";
  };
  function simple(key, name, label, index, options, unit) {
    const data = [state.series.step, column(name)];
    const series = [Charts.line(label, index, { dash: [] })];
    const opts = { ...options };
    if (column(name, "max")) {
      data.push(column(name, "max"), column(name, "min"));
      series.push(...Charts.band(Charts.SERIES[index]));
      opts.bands = [{ series: [2, 3], fill: () => Charts.css(Charts.SERIES[index]) + "33" }];
    }
    opts.read = (i) => reading(key, `${at(i)}: ${Charts.figure(column(name)[i])}${unit}${extremes(name, i)}`);
    return [key, series, data, opts];
  }
  const middle = (values) => {
    const there = values.filter((v) => v != null).sort((a, b) => a - b);
    return there.length ? there[there.length >> 1] : null;
  };
  function lossChart() {
    const [key, series, data, options] = simple("loss", "loss", "training", 0, {}, "");
    const sets = Object.entries(boot.evals);
    // Evaluation points stand at the nearest step of the chart at or after theirs.
    sets.forEach(([name, points], number) => {
      const values = new Array(data[0].length).fill(null);
      let i = 0;
      for (const [step, loss] of points) {
        if (!data[0].length || step < data[0][0]) continue;
        while (i < data[0].length && data[0][i] < step) i++;
        if (i < data[0].length) values[i] = loss;
      }
      series.push(Charts.line(name, number + 1, { spanGaps: true, points: { show: true, size: 6 } }));
      data.push(values);
    });
    const read = options.read;
    options.read = (i) => {
      read(i);
      const said = sets.map(([name], n) => [name, data[data.length - sets.length + n][i]]).filter(([, v]) => v != null);
      if (said.length) $("reading-loss").textContent += "; " + said.map(([n, v]) => `${n} ${Charts.figure(v)}`).join(", ");
    };
    return [key, series, data, options];
  }
  function rateChart() {
    const [key, series, data, options] = simple("rate", "tokens_per_s", "tokens/s", 1, {}, " tokens/s");
    const mid = middle(data[1]);
    if (mid == null) return [key, series, data, options];
    const spread = middle(data[1].filter((v) => v != null).map((v) => Math.abs(v - mid)));
    const edge = { stroke: () => Charts.css("--note"), dash: [2, 4], width: 1, points: { show: false } };
    const first = data.length;
    data.push(data[0].map(() => mid + 3 * spread), data[0].map(() => Math.max(mid - 3 * spread, 0)));
    series.push({ label: "as most steps", ...edge }, { label: "from", isAside: true, ...edge });
    options.bands = [...(options.bands || []), { series: [first, first + 1], fill: () => Charts.css("--note") + "1f" }];
    return [key, series, data, options];
  }
  // What a step's time went to, from the bottom up; of another program there is the whole step alone.
  const PARTS = [["data_s", "waiting for data", 4], ["forward_s", "forward", 0], ["backward_s", "backward", 1],
    ["exchange_s", "exchange with other ranks", 5], ["optimizer_s", "update", 6], ["save_blocked_s", "waiting for a save", 3]];
  function timeChart() {
    const whole = column("step_s"), parts = PARTS.filter(([name]) => column(name).some((v) => v));
    const sums = [];
    parts.forEach(([name], n) => sums.push(column(name).map((v, i) => whole[i] == null ? null : (v || 0) + (n ? sums[n - 1][i] : 0))));
    const series = [Charts.line("the step, saves apart", 2, { dash: [] })], all = [state.series.step, whole], bands = [];
    parts.map((each, n) => [each, sums[n]]).reverse().forEach(([[, label, colour], sum], n) => {
      const fill = () => Charts.css(Charts.SERIES[colour]) + "66";
      series.push(Charts.line(label, colour, { dash: [], width: 1, ...(n === parts.length - 1 ? { fill } : {}) }));
      if (n < parts.length - 1) bands.push({ series: [n + 2, n + 3], fill });
      all.push(sum);
    });
    const options = { bands, read: (i) => reading("time", `${at(i)}: ${Charts.figure(whole[i])} s` + extremes("step_s", i) +
      parts.map(([name, label]) => column(name)[i] == null ? "" : `; ${label} ${Charts.figure(column(name)[i])} s`).join("")) };
    if (column("step_s", "max")) { all.push(column("step_s", "max")); series.push(Charts.band("--s3")[0]); }
    return ["time", series, all, options];
  }
  function draw() {
    if (!state.series) return;
    for (const plot of plots) if (plot) plot.destroy();
    const empty = !state.series.step.length;
    for (const each of document.querySelectorAll(".charts")) each.hidden = empty;
    if (empty) { plots = []; return; }
    const norms = column("grad_norm").filter((v) => v != null);
    const isLog = norms.length > 0 && norms.every((v) => v > 0);
    plots = [lossChart(), simple("grad", "grad_norm", "gradient norm", 5, { log: isLog }, ""), rateChart(), timeChart()].map((each) => {
      const known = each[2][1].some((v) => v != null);
      // Of a program that writes no metrics of ours there is the loss that it logs: what is empty takes no room.
      $("chart-" + each[0]).closest("figure").hidden = !known;
      if (!known) return null;
      const plot = Charts.make(state, ...each);
      Charts.legend(each[0], each[1].filter((line) => !line.isAside));
      return plot;
    });
  }
  let lagTold = null;
  const lagSays = (text) => { $("lag-words").firstChild.textContent = text; };
  const drawMap = (lag) => {
    if (lag) lagSays(lagTold = lag.words);
    Charts.map($("lag-map"), lag, openRank, lagSays);
  };
  async function get(path) {
    const answer = await fetch(path);
    if (!answer.ok) throw new Error(path + ": " + answer.status);
    return answer;
  }
  async function load() {
    const range = state.range ? `from=${state.range[0]}&to=${state.range[1]}&` : "";
    if (boot.live) {
      try {
        // Both at once; the map is drawn as soon as it is there.
        const map = get("lag?" + range).then((answer) => answer.json()).then(drawMap);
        const series = await (await get(`series?${range}points=1500`)).json();
        state.series = series;
        if (!state.range) last = series.id;
        await map;
      } catch (error) { reading("loss", String(error.message)); }
    }
    draw();
  }
  function choose(low, high) {
    state.range = low == null ? null : [low, high];
    $("whole").hidden = !state.range;
    $("range").textContent = state.range ? `steps ${low.toLocaleString("en")} to ${high.toLocaleString("en")}` : "drag over a chart or the strip to choose steps";
    history.replaceState(null, "", state.range ? `#${low}-${high}` : location.pathname.split("/").pop() || "./");
    load();
  }
  function append(points) {
    if (!state.series || state.range) return;
    if (state.series.is_reduced || state.series.step.length + points.step.length > 3000) return load();
    state.series.step.push(...points.step);
    for (const [name, each] of Object.entries(points.columns)) state.series.columns[name].last.push(...each.last);
    state.series.bad.push(...points.bad);
    draw();
  }

  // -- what changes ------------------------------------------------------------------------------------------------
  // The words on lag that are there already, which may have made way for a reading of the map, are no news.
  function isLagNews(html) {
    const told = document.createElement("div");
    told.innerHTML = html;
    return told.textContent !== lagTold && !!(lagTold = told.textContent);
  }
  function put(parts) {
    for (const [name, html] of Object.entries(parts)) {
      const host = name === "lag" ? $("lag-words") : $("part-" + name);
      if (!host) continue;
      const open = new Set([...host.querySelectorAll("details[open] > summary")].map((each) => each.textContent));
      host.innerHTML = html;
      for (const each of host.querySelectorAll("details > summary")) if (open.has(each.textContent)) each.parentNode.open = true;
      localTimes(host);
    }
  }
  let waiting = null;
  function mapSoon() {
    waiting = setTimeout(async () => {
      waiting = null;
      try { drawMap(await (await get("lag")).json()); } catch { mapSoon(); }
    }, 2000);
  }
  function listen() {
    if (source) source.close();
    heard = Date.now();
    source = new EventSource("events" + (last ? "?id=" + encodeURIComponent(last) : ""));
    source.onmessage = (event) => {
      heard = Date.now();
      const news = JSON.parse(event.data);
      last = event.lastEventId;
      if (news.parts.lag && !isLagNews(news.parts.lag)) delete news.parts.lag;
      put(news.parts);
      if (news.reset) load();
      else if (news.points) append(news.points);
      if (news.parts.lag && !waiting) mapSoon();
      document.body.dataset.ticks = +(document.body.dataset.ticks || 0) + 1;
      tick();
    };
    source.onopen = () => { heard = Date.now(); tick(); };
  }

  // -- the drawer, keys, copying -----------------------------------------------------------------------------------
  let before = null;
  async function openRank(rank) {
    before = document.activeElement;
    let html;
    if (boot.live) html = await (await get("rank?rank=" + rank)).text();
    else html = boot.drawers[rank];
    if (html) $("drawer-body").innerHTML = html;
    else {
      const said = document.createElement("p");
      said.textContent = `This file carries the drawers of ${Object.keys(boot.drawers).length} ranks, those that findings name first. Rank ${rank} is not among them.`;
      $("drawer-body").replaceChildren(said);
    }
    $("drawer").hidden = false;
    ($("drawer-title") || $("close")).focus();
  }
  function closeDrawer() { $("drawer").hidden = true; if (before) before.focus(); }
  function copy(text, button) {
    const done = () => { button.textContent = "copied"; setTimeout(() => { button.textContent = button.dataset.word; }, 1500); };
    button.dataset.word = button.dataset.word || button.textContent;
    if (navigator.clipboard) return navigator.clipboard.writeText(text).then(done, () => {});
    const area = document.createElement("textarea");
    area.value = text; document.body.append(area); area.select();
    document.execCommand("copy"); area.remove(); done();
  }
  function theme() {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* not kept then */ }
    draw();
  }
  function step(by) {
    const all = [...document.querySelectorAll("#part-findings summary")];
    if (!all.length) return;
    const here = all.indexOf(document.activeElement);
    all[Math.min(Math.max(here + by, 0), all.length - 1)].focus();
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.rank !== undefined) openRank(+button.dataset.rank);
    else if (button.dataset.copy !== undefined) copy(button.dataset.copy, button);
    else if (button.id === "close") closeDrawer();
    else if (button.id === "theme") theme();
    else if (button.id === "help") $("keys").showModal();
    else if (button.id === "whole") choose(null);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|TEXTAREA/.test(event.target.tagName)) return;
    const named = document.querySelector(".rank.named, .rank.dead, .rank.late");
    const act = { j: () => step(1), k: () => step(-1), r: () => openRank(named ? +named.dataset.rank : 0), 0: () => choose(null),
      t: theme, "?": () => $("keys").showModal(), Escape: closeDrawer }[event.key];
    if (act) act();
  });

  // -- the strip's brush -------------------------------------------------------------------------------------------
  let from = null;
  const stepAt = (event) => {
    const lanes = document.querySelector(".lanes"), box = lanes.querySelector("svg").getBoundingClientRect();
    return Math.round(Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * +lanes.dataset.steps);
  };
  $("part-strip").addEventListener("pointerdown", (event) => { if (event.target.closest(".lanes")) from = stepAt(event); });
  document.addEventListener("pointerup", (event) => {
    if (from == null) return;
    const low = Math.min(from, stepAt(event)), high = Math.max(from, stepAt(event));
    from = null;
    if (high > low) choose(low, high);
  });

  // -- start -------------------------------------------------------------------------------------------------------
  let kept = null;
  try { kept = localStorage.getItem("theme"); } catch { /* a file has no storage */ }
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  localTimes(document);
  const asked = /^#(\d+)-(\d+)$/.exec(location.hash);
  if (asked && boot.live) { state.range = [+asked[1], +asked[2]]; $("whole").hidden = false; }
  if (!boot.live) drawMap(boot.lag);
  load().then(() => {
    if (boot.live && !document.hidden) listen();
    document.body.dataset.ready = "true";
  });
  setInterval(tick, 1000);
  tick();
  addEventListener("visibilitychange", () => {
    if (!boot.live) return;
    if (document.hidden) { if (source) source.close(); } else listen();
  });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
