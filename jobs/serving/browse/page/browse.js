// Rows of a run by filters. The filter and the page are in the address, behind the #.

import { get, post, send } from "/api.js";
import { lay } from "/boxes.js";
import { rows as listed, WHY } from "/panel.js";

const $ = (id) => document.getElementById(id);
const NULL = "null", MISSING = "not known", ALL = "all";
const SELECTS = { category: "category", level: "level", kind: "kind", policy: "policy", action: "action",
  status: "status-filter", reason: "reason" };
const NO_CATEGORY = "no_category", PLAIN = ["category", "level", "kind", "policy", "action", "status", "reason", "condition"];

let state, titles = {}, shown = [], numRows = 0, focused = 0, opened = null, loading = new AbortController(), urls = [];
let counted = null, asked = 0;

// ---- the address

const address = () => new URLSearchParams(location.hash.slice(1));

function filterOf(said) {
  const filter = { attributes: {} };
  for (const name of PLAIN) if (said.get(name)) filter[name] = said.get(name);
  if (said.get("category") === "") filter.category = "";
  if (said.has(NO_CATEGORY)) filter.has_no_category = true;
  for (const key of Object.keys(titles)) if (said.has(key)) filter.attributes[key] = said.get(key);
  return filter;
}

const pageOf = (said) => Math.max(1, Math.trunc(Number(said.get("page"))) || 1);

// Goes to the address with these changes; null takes a name out.
function change(changes, keepsPage = false) {
  const said = address();
  if (!keepsPage) said.delete("page");
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) said.delete(name);
    else said.set(name, value);
  }
  if (String(said) === location.hash.slice(1)) load();
  else location.hash = String(said);
}

function turnPage(by) {
  const page = pageOf(address()) + by;
  if (page >= 1 && page <= lastPage()) change({ page }, true);
}

const lastPage = () => Math.max(1, Math.ceil(numRows / state.page_rows));

// ---- what fits

async function load() {
  const mine = ++asked, said = address(), filter = filterOf(said), page = pageOf(said);
  $("condition").value = filter.condition ?? "";
  try {
    const found = await post("/api/page", { filter, page });
    if (mine !== asked) return;
    if (found.error) throw new Error(found.error);
    numRows = found.num_rows;
    if (page > lastPage()) return change({ page: lastPage() }, true);
    say("");
    drawGrid(found.rows);
    drawStatus(page);
    const of = JSON.stringify(filter);
    if (of === counted) return;
    const counts = await post("/api/counts", { filter });
    if (mine !== asked) return;
    counted = of;
    drawCounts(counts, filter);
  } catch (error) {
    if (mine !== asked) return;
    numRows = 0;
    counted = null;
    drawGrid([]);
    $("status").textContent = "";
    say(error.message);
  }
}

function say(text) {
  $("error").textContent = text;
  $("error").hidden = !text;
}

function drawStatus(page) {
  const first = (page - 1) * state.page_rows, withheld = Object.entries(state.withheld);
  const rows = numRows ? `rows ${(first + 1).toLocaleString("en")}–${(first + shown.length).toLocaleString("en")} of ` : "";
  $("status").textContent = `${rows}${numRows.toLocaleString("en")} that fit` +
    withheld.map(([why, count]) => `; never shown: ${count.toLocaleString("en")} ${WHY[why]}`).join("");
  $("page").textContent = `${page} of ${lastPage()}`;
  $("earlier").disabled = page <= 1;
  $("later").disabled = page >= lastPage();
  $("browse").dataset.page = page;
}

function words(name, value) {
  if (value === null) return name === "category" ? "no category" : MISSING;
  return name === "level" ? `${value} ${state.levels[value]}` : value || "(empty)";
}

function drawCounts(counts, filter) {
  for (const [name, id] of Object.entries(SELECTS)) {
    if (name === "policy") continue;
    const values = counts[name].filter(({ value }) => name !== "reason" || value !== null);
    if (name === "level") values.sort((a, b) => (a.value ?? 9) - (b.value ?? 9));
    const chosen = name === "category" && filter.has_no_category ? null : filter[name];
    const isChosen = (value) => chosen !== undefined && String(value) === String(chosen === null ? null : chosen);
    if (chosen !== undefined && !values.some(({ value }) => isChosen(value))) {
      values.unshift({ value: name === "level" && chosen === NULL ? null : chosen, num_rows: 0 });
    }
    const options = values.map(({ value, num_rows }) => {
      const option = new Option(`${words(name, value)} (${num_rows.toLocaleString("en")})`, JSON.stringify(value));
      option.selected = isChosen(value) && (name !== "category" || (value === null) === Boolean(filter.has_no_category));
      return option;
    });
    $(id).replaceChildren(new Option(ALL, ""), ...options);
  }
  $("policy").replaceChildren(new Option("none", ""), ...state.policies.map((name) => new Option(name, name)));
  $("policy").value = filter.policy ?? "";
  $("action").disabled = !filter.policy;
  for (const button of $("values").querySelectorAll("button")) {
    const { key, value } = button.dataset, count = counts.attributes[key][value];
    button.textContent = count.toLocaleString("en");
    button.dataset.num = count;
    button.setAttribute("aria-pressed", filter.attributes[key] === value);
  }
}

function choose(name, text) {
  if (name === "policy") return change({ policy: text || null, action: null });
  const value = text === "" ? undefined : JSON.parse(text);
  if (name === "category") {
    return change({ category: typeof value === "string" ? value : null, [NO_CATEGORY]: value === null ? "1" : null });
  }
  change({ [name]: value === undefined ? null : String(value) });
}

// ---- the grid

function drawGrid(rows) {
  loading.abort();
  loading = new AbortController();
  for (const url of urls.splice(0)) URL.revokeObjectURL(url);
  shown = rows;
  focused = Math.min(focused, Math.max(0, rows.length - 1));
  const hadFocus = $("grid").contains(document.activeElement) || document.activeElement === document.body;
  $("grid").replaceChildren(...rows.map(tile));
  if (hadFocus) focus(focused);
  rows.forEach((row, place) => fill($("grid").children[place], row, "thumbnail", loading.signal));
}

function tile(row, place) {
  const button = document.createElement("button"), frame = document.createElement("span"), why = document.createElement("span");
  const name = document.createElement("small"), level = document.createElement("small");
  button.type = "button";
  button.className = "tile";
  button.dataset.number = row.number;
  button.tabIndex = place === focused ? 0 : -1;
  frame.className = "frame";
  why.className = "why";
  frame.append(stage(), why);
  name.textContent = button.title = row.key;
  level.textContent = row.status !== "scored" ? row.reason ?? row.status
    : `${row.level === null ? "level not known" : `level ${row.level}`}${row.present.length ? `: ${row.present.map((key) => titles[key]).join(", ")}` : ""}`;
  button.append(frame, name, level);
  button.addEventListener("focus", () => { focused = place; });
  button.addEventListener("click", () => open(place));
  return button;
}

function stage() {
  const stage = document.createElement("span"), image = document.createElement("img"), boxes = document.createElement("span");
  stage.className = "stage";
  boxes.className = "boxes";
  image.alt = "";
  image.draggable = false;
  stage.append(image, boxes);
  return stage;
}

// The picture of a row and its boxes, or why it is not shown.
async function fill(target, row, kind, signal) {
  const stage = target.querySelector(".stage"), why = target.querySelector(".why"), image = stage.querySelector("img");
  const hide = (text) => { stage.hidden = true; why.hidden = false; why.textContent = text; };
  stage.classList.remove("clear");
  stage.hidden = why.hidden = true;
  stage.querySelector(".boxes").replaceChildren();
  if (!row.has_picture) return hide("nothing could be read");
  try {
    const answer = await get(`/api/${kind}/${row.number}`, signal);
    if (answer.headers.get("Content-Type") !== "image/jpeg") return hide(WHY[(await answer.json()).state] ?? "not shown");
    const url = URL.createObjectURL(await answer.blob());
    if (signal.aborted) return URL.revokeObjectURL(url);
    urls.push(url);
    image.src = url;
    await image.decode();
    if (signal.aborted) return;
    stage.hidden = false;
    stage.querySelector(".boxes").replaceChildren(...row.boxes.map((box) => boxOf(box, kind === "picture")));
    target.dataset.shown = row.number;
  } catch (error) {
    if (!signal.aborted) hide("the storage does not answer; load the page again");
  }
}

function boxOf(box, hasName) {
  const element = document.createElement("span");
  lay(element, box);
  if (hasName) {
    const name = document.createElement("span");
    name.textContent = titles[box.attribute] ?? "box";
    element.append(name);
  }
  return element;
}

function focus(place) {
  const tiles = $("grid").children;
  if (!tiles.length) return;
  for (const one of tiles) one.tabIndex = -1;
  focused = Math.min(Math.max(place, 0), tiles.length - 1);
  tiles[focused].tabIndex = 0;
  tiles[focused].focus();
}

const numColumns = () => {
  const tops = [...$("grid").children].map((one) => one.offsetTop);
  return Math.max(1, tops.filter((top) => top === tops[0]).length);
};

// ---- details

let detailing = new AbortController();

async function open(place) {
  const row = shown[place];
  if (!row) return;
  detailing.abort();
  detailing = new AbortController();
  const { signal } = detailing;
  opened = place;
  focused = place;
  delete $("large").dataset.shown;
  listed($("facts"), [["image", row.key]]);
  $("decisions").replaceChildren();
  if (!$("details").open) $("details").showModal();
  fill($("large"), row, "picture", signal);
  try {
    const says = await (await get(`/api/details/${row.number}`, signal)).json();
    if (signal.aborted) return;
    listed($("facts"), says.facts);
    listed($("decisions"), says.decisions.map(({ policy, action, rule, reason, condition }) =>
      [policy, `${action}, by the rule ${rule}: ${reason}${condition ? `; ${condition}` : ""}`]));
  } catch (error) {
    if (!signal.aborted) listed($("facts"), [["image", row.key], ["details", error.body?.error ?? "the server does not answer"]]);
  }
}

function close() {
  if ($("details").open) $("details").close();
}

// ---- clear while held

function setClear(isClear) {
  const one = opened === null ? $("grid").children[focused] : $("large");
  for (const other of document.querySelectorAll(".stage.clear")) other.classList.remove("clear");
  if (isClear) one?.querySelector(".stage").classList.add("clear");
}

// ---- keys and buttons

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target, isTile = target.matches(".tile, body");
  if (event.key === "PageDown" || event.key === "PageUp") {
    if (opened !== null || target.matches("input, select")) return;
    event.preventDefault();
    return turnPage(event.key === "PageDown" ? 1 : -1);
  }
  if (event.key === " " && (isTile || opened !== null) && !target.matches("#close")) {
    event.preventDefault();
    if (!event.repeat) setClear(true);
    return;
  }
  if (event.key === "Enter" && opened !== null && target.matches("#hold, dialog")) return event.preventDefault();
  if (!event.key.startsWith("Arrow")) return;
  const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (opened !== null) {
    if (!along) return;
    event.preventDefault();
    const place = opened + along;
    return place >= 0 && place < shown.length ? open(place) : undefined;
  }
  if (!isTile) return;
  event.preventDefault();
  focus(focused + (along ?? (event.key === "ArrowDown" ? numColumns() : -numColumns())));
}

async function exportRows() {
  $("export").disabled = true;
  try {
    const file = await (await send("/api/export", { filter: filterOf(address()) })).blob();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = "rows.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    say("");
  } catch (error) {
    say(error.message);
  }
  $("export").disabled = false;
}

function listen() {
  addEventListener("hashchange", load);
  addEventListener("keydown", onKey);
  addEventListener("keyup", (event) => {
    if (event.key !== " ") return;
    setClear(false);
    if (event.target.matches(".tile, #hold")) event.preventDefault();
  });
  addEventListener("blur", () => setClear(false));
  $("hold").addEventListener("pointerdown", (event) => {
    event.preventDefault();
    $("hold").setPointerCapture(event.pointerId);
    setClear(true);
  });
  for (const kind of ["pointerup", "pointercancel"]) $("hold").addEventListener(kind, () => setClear(false));
  for (const id of ["grid", "large"]) $(id).addEventListener("contextmenu", (event) => event.preventDefault());
  $("close").addEventListener("click", close);
  $("details").addEventListener("close", () => {
    setClear(false);
    detailing.abort();
    focus(opened ?? focused);
    opened = null;
  });
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const [name, id] of Object.entries(SELECTS)) $(id).addEventListener("change", () => choose(name, $(id).value));
  $("condition").addEventListener("change", () => change({ condition: $("condition").value.trim() || null }));
  $("clear").addEventListener("click", () => { location.hash = ""; });
  $("earlier").addEventListener("click", () => turnPage(-1));
  $("later").addEventListener("click", () => turnPage(1));
  $("export").addEventListener("click", exportRows);
}

function drawAttributes() {
  for (const { key, title, level } of state.attributes) {
    const line = $("values").tBodies[0].insertRow(), head = document.createElement("th");
    head.scope = "row";
    head.textContent = `${level} ${title}`;
    line.append(head);
    for (const value of state.values) {
      const button = document.createElement("button");
      button.type = "button";
      Object.assign(button.dataset, { key, value });
      button.setAttribute("aria-label", `${title}: ${value === NULL ? "not assessed" : value}`);
      button.title = button.getAttribute("aria-label");
      button.addEventListener("click", () => change({ [key]: filterOf(address()).attributes[key] === value ? null : value }));
      line.insertCell().append(button);
    }
  }
}

async function begin() {
  state = await (await get("/api/state")).json();
  titles = Object.fromEntries(state.attributes.map(({ key, title }) => [key, title]));
  $("title").textContent = document.title = state.title;
  drawAttributes();
  listen();
  if (state.policy !== null && !location.hash) change({ policy: state.policy });
  else await load();
}

begin().catch(() => say("The server does not answer; load this page again."));
