"use strict";
// Coverage of other features than the first two: counted from the sample that the page holds. And films that can be paused.
(() => {
  const chart = document.getElementById("coverage"), figure = chart.querySelector("script");
  const note = document.getElementById("coverage-note"), first = figure.textContent;
  const sample = JSON.parse(document.getElementById("sample").textContent);
  const raw = atob(sample.codes), selects = [...document.querySelectorAll("select[data-axis]")];
  const begun = selects.map(select => select.value).join();
  const escaped = words => words.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const bin = (feature, row) => Math.min(sample.bins - 1, Math.floor(raw.charCodeAt(feature * sample.count + row) * sample.bins / 256));
  const centres = feature => Array.from({length: sample.bins}, (_, at) => +(sample.low[feature] + (at + .5) * (sample.high[feature] - sample.low[feature]) / sample.bins).toPrecision(4));
  const counted = (x, y) => {
    const z = Array.from({length: sample.bins}, () => Array(sample.bins).fill(null));
    for (let row = 0; row < sample.count; row++) z[bin(y, row)][bin(x, row)] += 1;
    return {type: "heatmap", name: "rows", z, x: centres(x), y: centres(y), colorscale: sample.scale, hoverongaps: false,
      colorbar: {title: {text: "rows"}, thickness: 10, outlinewidth: 0}, hovertemplate: "%{z} rows at %{x}, %{y}<extra></extra>"};
  };
  const choose = () => {
    const [x, y] = selects.map(select => Number(select.value)), back = selects.map(select => select.value).join() === begun;
    figure.textContent = back ? first : JSON.stringify({data: [counted(x, y)],
      layout: {xaxis: {title: {text: escaped(sample.names[x])}}, yaxis: {title: {text: escaped(sample.names[y])}}}});
    note.textContent = note.dataset[back ? "all" : "sampled"];
    chart.querySelector(".plot").setAttribute("aria-label", `How many rows lie where, in ${sample.names[x]} (across) and ${sample.names[y]} (upwards)`);
    charts.draw(chart);
  };
  selects.forEach(select => select.addEventListener("change", choose));

  // An animated picture cannot be stopped; a still of it takes its place.
  const pause = document.getElementById("pause");
  if (!pause) return;
  const still = film => {
    const canvas = document.createElement("canvas");
    canvas.width = film.naturalWidth; canvas.height = film.naturalHeight;
    canvas.className = film.className; canvas.setAttribute("role", "img"); canvas.setAttribute("aria-label", film.alt);
    canvas.getContext("2d").drawImage(film, 0, 0);
    return canvas;
  };
  const hold = held => {
    document.querySelectorAll("canvas.film").forEach(canvas => canvas.remove());
    document.querySelectorAll("img.film").forEach(film => { film.hidden = held; if (held) film.after(still(film)); });
    pause.setAttribute("aria-pressed", held);
  };
  pause.addEventListener("click", () => hold(pause.getAttribute("aria-pressed") !== "true"));
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) addEventListener("load", () => hold(true));
})();
