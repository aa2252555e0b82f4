"use strict";
// Sorting: a head's button sorts its table; numbers by their data-value, empty ones last either way.
for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const table = head.closest("table");
    const body = table.tBodies[0];
    const column = head.cellIndex;
    const numeric = head.classList.contains("num");
    const falling = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending" : numeric;
    const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      const order = numeric ? Number(x) - Number(y) : x.localeCompare(y, undefined, { numeric: true });
      return falling ? -order : order;
    });
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    body.append(...rows);
  });
}

// A long table shows 40 rows until it is asked for all of them; a search looks at all.
const groups = document.getElementById("groups-table");
const rows = [...groups.tBodies[0].rows];
const found = document.getElementById("found");
const more = document.querySelector("[data-shows=groups-table]");
const FOLDED = 40;
const fold = (folded) => {
  groups.classList.toggle("folded", folded);
  more.hidden = rows.length <= FOLDED;
  more.textContent = folded ? `Show all ${rows.length.toLocaleString("en")}` : `Show the first ${FOLDED}`;
  more.setAttribute("aria-expanded", String(!folded));
};
more.addEventListener("click", () => fold(!groups.classList.contains("folded")));
fold(rows.length > FOLDED);

const search = document.getElementById("search");
const nameOf = (row) => row.querySelector("th").firstChild.textContent.toLowerCase();
search.addEventListener("input", () => {
  const wanted = search.value.trim().toLowerCase();
  let count = 0;
  for (const row of rows) {
    row.hidden = wanted !== "" && !nameOf(row).includes(wanted);
    if (!row.hidden) count += 1;
  }
  if (wanted) groups.classList.remove("folded");
  else fold(rows.length > FOLDED);
  more.hidden = more.hidden || wanted !== "";
  found.textContent = wanted ? `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")}` : "";
});

// The rows that the search shows, in their order; without a search those too for which the table has no room. No cell
// can be run as a formula.
const cell = (value) => {
  let text = value === null ? "" : String(value);
  if (typeof value === "string" && /^[=+\-@\t\r']/.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
document.getElementById("csv").addEventListener("click", () => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const shown = [...groups.tBodies[0].rows].filter((row) => !row.hidden);
  const others = search.value.trim() ? [] : figures.rows.slice(rows.length);
  const lines = [figures.heads, ...shown.map((row) => figures.rows[Number(row.dataset.row)]), ...others];
  const text = lines.map((line) => line.map(cell).join(",")).join("\n") + "\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = "privacy-rates.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
