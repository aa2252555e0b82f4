"use strict";
// Sorting: a head's button sorts its table; numbers by their data-value, empty ones last either way.
for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const body = head.closest("table").tBodies[0];
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

const figures = JSON.parse(document.getElementById("figures").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
function draw(ink) {
  for (const [id, figure] of Object.entries(figures)) {
    const layout = { ...figure.layout, font: { family: "system-ui, sans-serif", size: 13, color: ink } };
    Plotly.react(id, figure.data, layout, { displayModeBar: false, displaylogo: false, responsive: true });
  }
}
const screenInk = () => (dark.matches ? "#e8eaed" : "#1c1e21");
draw(screenInk());
dark.addEventListener("change", () => draw(screenInk()));
addEventListener("beforeprint", () => draw("#000000"));
addEventListener("afterprint", () => draw(screenInk()));
