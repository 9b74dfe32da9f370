"use strict";
// Tables sort by their heads, which are buttons; the order of a table is kept by its name when its rows are replaced.
const tables = (() => {
  const kept = new Map();
  const key = (row, at) => row.cells[at].dataset.value ?? row.cells[at].textContent;
  const name = table => table.dataset.name || "";
  const sort = (table, at, order) => {
    const heads = [...table.tHead.rows[0].cells], rows = [...table.tBodies[0].rows];
    heads.forEach((head, place) => head.setAttribute("aria-sort", place !== at ? "none" : order > 0 ? "ascending" : "descending"));
    rows.sort((a, b) => {
      const [x, y] = [key(a, at), key(b, at)];
      if (x === "" || y === "") return (x === "") - (y === "");
      return order * (isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y);
    });
    table.tBodies[0].append(...rows);
    if (name(table)) kept.set(name(table), [at, order]);
  };
  document.addEventListener("click", event => {
    const button = event.target.closest("th button"), head = button && button.closest("th"), table = head && head.closest("table.sortable");
    if (table) sort(table, head.cellIndex, head.getAttribute("aria-sort") === "ascending" ? -1 : 1);
  });
  return {again: within => within.querySelectorAll("table.sortable").forEach(table => {
    const found = kept.get(name(table));
    if (found && found[0] < table.tHead.rows[0].cells.length) sort(table, ...found);
  })};
})();
