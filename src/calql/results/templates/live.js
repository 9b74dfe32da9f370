"use strict";
// Asks the server for what has changed and puts it in place: what was zoomed, hidden, sorted, opened and scrolled to stays.
(() => {
  const OFTEN = 2000, SELDOM = 10000;  // milliseconds between questions; seldom where nobody looks
  const seen = new Map();  // section -> its text as it came last
  let version = "", missed = 0;
  const state = document.createElement("p");
  state.className = "live"; state.setAttribute("role", "status");
  document.body.append(state);
  const say = (words, gone) => { if (state.textContent !== words) state.textContent = words; state.classList.toggle("gone", gone); };

  const focusable = "summary, button, [tabindex]";
  const keep = (old, made) => {
    const opened = [...old.querySelectorAll("details")].map(each => each.open);
    made.querySelectorAll(".chart[id]").forEach(chart => {
      const here = document.getElementById(chart.id);
      if (!here) return;
      here.querySelector("script").textContent = chart.querySelector("script").textContent;
      here.querySelector(".plot").setAttribute("aria-label", chart.querySelector(".plot").getAttribute("aria-label"));
      chart.replaceWith(here);
    });
    const before = [...made.querySelectorAll("details")];
    if (before.length === opened.length) before.forEach((each, at) => { each.open = opened[at]; });
  };
  const renewed = (old, made) => {
    const places = [...old.querySelectorAll(focusable)], at = places.indexOf(document.activeElement), focus = document.activeElement;
    const boxes = [...old.querySelectorAll(".scroll")].map(box => box.scrollLeft);
    keep(old, made);
    old.replaceWith(made);
    tables.again(made);
    charts.begin(made);
    made.querySelectorAll(".chart[data-drawn]").forEach(charts.draw);
    [...made.querySelectorAll(".scroll")].forEach((box, place) => { box.scrollLeft = boxes[place] || 0; });
    if (at >= 0) (made.contains(focus) ? focus : [...made.querySelectorAll(focusable)][at] || made).focus({preventScroll: true});
  };
  const renew = text => {
    const made = new DOMParser().parseFromString(text, "text/html").querySelector("main"), here = document.querySelector("main");
    for (const part of ["h1", ".sub"]) here.querySelector(part).textContent = made.querySelector(part).textContent;
    document.title = made.querySelector("h1").textContent;
    const sections = [...made.querySelectorAll(":scope > section")];
    [...here.querySelectorAll(":scope > section")].filter(old => !sections.some(each => each.id === old.id)).forEach(old => old.remove());
    let last = here.querySelector(".sub");
    for (const section of sections) {
      const source = section.outerHTML, old = document.getElementById(section.id);
      if (!old) { last.after(section); tables.again(section); charts.begin(section); }
      else if (seen.get(section.id) !== source) renewed(old, section);
      seen.set(section.id, source);
      last = document.getElementById(section.id);
    }
  };

  const ask = async () => {
    try {
      const answer = await fetch("now", {headers: {"If-None-Match": version}, cache: "no-store"});
      if (!answer.ok && answer.status !== 304) throw new Error(answer.status);
      if (answer.status === 200) { version = answer.headers.get("ETag"); renew(await answer.text()); }
      missed = 0;
      say("live", false);
    } catch {
      missed += 1;
      if (missed > 1) say("The run has ended, or the connection is gone: this is what was known last.", true);
    }
    setTimeout(ask, document.hidden || missed > 1 ? SELDOM : OFTEN);
  };
  document.querySelectorAll("main > section").forEach(section => seen.set(section.id, ""));
  document.addEventListener("visibilitychange", () => { if (!document.hidden && missed === 0) ask(); });
  ask();
})();
