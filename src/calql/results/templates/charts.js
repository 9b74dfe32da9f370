"use strict";
// Draws every .chart of the page from the JSON within it: in the page's colours, when it comes into view.
const charts = (() => {
  const hidden = new Set();  // groups that are switched off
  const zoomed = new WeakMap();  // chart -> axis -> the range that its reader chose
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)").matches;
  const reading = {displaylogo: false, responsive: true, plotlyServerURL: "", scrollZoom: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "sendChartToCloud", "sendDataToCloud"], toImageButtonOptions: {format: "svg"}};

  // A colour of the page in place of its name.
  const coloured = value => {
    if (typeof value === "string") {
      const name = /^var\((--[\w-]+)\)$/.exec(value);
      return name ? getComputedStyle(document.documentElement).getPropertyValue(name[1]).trim() : value;
    }
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(coloured);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, coloured(each)]));
  };
  const figure = chart => {
    const found = JSON.parse(chart.querySelector("script").textContent), time = found.layout.meta;
    if (time && time.width !== undefined) found.data.forEach(trace => {
      if (trace.hoverinfo !== "skip" && !trace.text) trace.text = trace.x.map(x => moment(x, time, trace.meta.offline));
    });
    return found;
  };
  // A place on the axis of both phases, in words.
  const moment = (x, time, end) => {
    const online = x > 0 || !time.offline, steps = online ? x * time.online : end + x / (time.width || 1) * time.offline;
    return `${Math.round(steps).toLocaleString("en")} ${online ? "environment steps online" : "gradient steps offline"}${x === 0 && time.online && time.offline ? " (switch)" : ""}`;
  };
  const plot = chart => chart.querySelector(".plot");
  const groups = trace => (trace.meta && trace.meta.groups) || [];

  const layout = (given, chosen) => {
    const axis = {gridcolor: "var(--line)", linecolor: "var(--edge)", zeroline: false, automargin: true,
      tickfont: {color: "var(--faint)"}, title: {font: {color: "var(--faint)", size: 12}}, fixedrange: coarse};
    const made = {paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
      dragmode: coarse ? false : "zoom", margin: {l: 48, r: 14, t: 10, b: 40}, ...given,
      font: {family: "system-ui, sans-serif", size: 12, color: "var(--ink)", ...given.font},
      hoverlabel: {bgcolor: "var(--paper)", bordercolor: "var(--edge)", font: {color: "var(--ink)"}}};
    for (const name of new Set(["xaxis", "yaxis", ...Object.keys(given)])) {
      if (!/^[xy]axis\d*$/.test(name)) continue;
      const own = given[name] || {};
      made[name] = {...axis, ...own, title: {...axis.title, ...own.title}};
      if (chosen[name]) made[name] = {...made[name], range: chosen[name], autorange: false};
    }
    return coloured(made);
  };

  const draw = chart => {
    const {data, layout: given} = figure(chart);
    const traces = coloured(data).map(trace => groups(trace).some(name => hidden.has(name)) ? {...trace, visible: false} : trace);
    const first = !chart.dataset.drawn;
    chart.dataset.drawn = "yes";
    const fold = chart.querySelector("details[open] .numbers");
    if (fold) fold.replaceChildren(numbers(chart));
    const made = Plotly.react(plot(chart), traces, layout(given, zoomed.get(chart) || {}), reading);
    return first ? made.then(at => at.on("plotly_relayout", change => remember(chart, change))) : made;
  };
  // What a reader zoomed to stays when the chart is drawn again.
  const remember = (chart, change) => {
    const ranges = zoomed.get(chart) || {}, given = figure(chart).layout;
    for (const axis of new Set(Object.keys(change).map(key => key.split(".")[0]).filter(key => /^[xy]axis\d*$/.test(key)))) {
      const now = plot(chart)._fullLayout[axis], whole = (given[axis] || {}).range;
      if (now.autorange === true || (whole && String(whole) === String(now.range))) delete ranges[axis];
      else ranges[axis] = [...now.range];
    }
    zoomed.set(chart, ranges);
  };
  const drawn = () => document.querySelectorAll(".chart[data-drawn]");
  const seen = new IntersectionObserver(entries => entries.forEach(entry => {
    if (entry.isIntersecting && !entry.target.dataset.drawn) draw(entry.target);
  }), {rootMargin: "600px"});

  // Keys of a chart that has the focus: + and - zoom along x, arrows move, 0 shows everything.
  const steer = event => {
    const at = event.currentTarget;
    const axes = Object.keys(at._fullLayout || {}).filter(name => /^xaxis\d*$/.test(name));
    const turn = {"+": [.25, -.25], "=": [.25, -.25], "-": [-.5, .5], ArrowLeft: [-.2, -.2], ArrowRight: [.2, .2]}[event.key];
    if (!axes.length || (!turn && event.key !== "0") || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const given = figure(at.closest(".chart")).layout, change = {};
    for (const axis of axes) {
      const [low, high] = at._fullLayout[axis].range.map(Number), whole = (given[axis] || {}).range;
      if (turn) change[`${axis}.range`] = [low + turn[0] * (high - low), high + turn[1] * (high - low)];
      else if (whole) change[`${axis}.range`] = whole;
      else change[`${axis}.autorange`] = true;
    }
    Plotly.relayout(at, change);
  };

  // The numbers behind a chart, as a table: for those who cannot see it, and for those who want them.
  const cell = (row, kind, words) => { const made = document.createElement(kind); made.textContent = words; row.append(made); };
  const short = value => typeof value === "number" ? String(+value.toPrecision(4)) : value === null || value === undefined ? "-" : String(value);
  const unescaped = words => new DOMParser().parseFromString(String(words), "text/html").documentElement.textContent;
  const line = (table, kind, words) => { const row = table.insertRow(); words.forEach(each => cell(row, kind, each)); };
  const numbers = chart => {
    const table = document.createElement("table");
    figure(chart).data.filter(trace => trace.hoverinfo !== "skip").forEach(trace => {
      const name = unescaped(trace.name || "");
      if (trace.z) {
        line(table, "th", [name, ...trace.x.map(short)]);
        trace.z.forEach((row, at) => line(table, "td", [short(trace.y[at]), ...row.map(short)]));
      } else {
        line(table, "th", [name, "value"]);
        (trace.x || []).forEach((x, at) => line(table, "td", [Array.isArray(trace.text) ? unescaped(trace.text[at]) : short(x), short(trace.y[at])]));
      }
    });
    return table;
  };
  const offer = chart => {
    const fold = document.createElement("details"), title = document.createElement("summary"), box = document.createElement("div");
    title.textContent = "Numbers";
    box.className = "scroll numbers"; box.tabIndex = 0;
    fold.className = "faint"; fold.append(title, box);
    fold.addEventListener("toggle", () => box.replaceChildren(...(fold.open ? [numbers(chart)] : [])));
    chart.append(fold);
  };

  const choose = (group, shown) => {
    shown ? hidden.delete(group) : hidden.add(group);
  };
  const refresh = () => {
    document.querySelectorAll("[data-group]").forEach(key => key.setAttribute("aria-pressed", !hidden.has(key.dataset.group)));
    drawn().forEach(draw);
  };
  const pressed = (key, alone) => {
    const beside = [...key.closest(".legend").querySelectorAll("[data-group]")].map(each => each.dataset.group);
    const group = key.dataset.group;
    if (!alone) choose(group, hidden.has(group));
    else beside.forEach(each => choose(each, each === group || (!hidden.has(group) && beside.every(other => other === group || hidden.has(other)))));
    refresh();
  };

  const begin = within => {
    within.querySelectorAll(".chart:not([data-ready])").forEach(chart => {
      chart.dataset.ready = "yes";
      plot(chart).addEventListener("keydown", steer);
      offer(chart);
      seen.observe(chart);
    });
    within.querySelectorAll("[data-group]").forEach(key => key.setAttribute("aria-pressed", !hidden.has(key.dataset.group)));
  };
  document.addEventListener("click", event => {
    const key = event.target.closest("[data-group]");
    if (key) pressed(key, event.shiftKey);
  });
  document.addEventListener("dblclick", event => {
    const key = event.target.closest("[data-group]");
    if (key) pressed(key, true);
  });
  dark.addEventListener("change", () => drawn().forEach(draw));
  addEventListener("beforeprint", () => document.querySelectorAll(".chart:not([data-drawn])").forEach(draw));
  begin(document);
  return {begin, draw};
})();
