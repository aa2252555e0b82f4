// One picture after the other: look, answer with one key, see what the model said, go on.

import { get, nameForm, post, Outbox, Preload } from "/api.js";
import { Boxes } from "/boxes.js";
import { modelRows, rows, showProgress } from "/panel.js";

const $ = (id) => document.getElementById(id);
const AHEAD = 5, RETRY_MS = 3000, PROGRESS_MS = 10000;
const WORDS = { 0: "absent", 1: "present", 0.5: "unclear cue", null: "cannot say" };
const ATTRIBUTE_KEYS = "1234567890abcdefghijklmoqrtwy";  // letters that no other key uses
const WHOLE = [["private", "Private", "1", "p"], ["public", "Not private", "2", "n"]];
const YES_NO = [["yes", "Yes", "1", ""], ["no", "No", "2", ""]];
const OPEN = [["unclear", "Unclear", "3", "u"], ["skip", "Skip", "4", "s"]];

let state, upcoming = [], numLeft = 0, now = null, values = {}, history = [], seconds = 0, since = null;
const answered = new Set(), pictures = new Preload(), outbox = new Outbox(showStatus);
let boxes, titles = {};

// ---- what is on the screen

function showStatus() {
  const late = outbox.waiting.length ? ` · ${outbox.waiting.length} not saved yet${outbox.failure ? ": " + outbox.failure : ""}` : "";
  $("status").textContent = `${numLeft} of ${state.total} left${late}`;
  $("status").classList.toggle("late", Boolean(outbox.failure));
}

function say(text) {
  $("message").textContent = text;
  $("message").hidden = !text;
  $("stage").hidden = Boolean(text);
}

function setClear(isClear) { $("stage").classList.toggle("clear", isClear); }

function keepClear(isKept) {
  $("keep").setAttribute("aria-pressed", isKept);
  setClear(isKept);
}

const isKept = () => $("keep").getAttribute("aria-pressed") === "true";

// Answers with a digit: private or not, yes or no, or votes or classes.
function choices() {
  if (state.judged === "private") return WHOLE;
  if (state.judged === "question") return YES_NO;
  return Object.entries(state.choices).map(([choice, shown], place) =>
    [choice, `${choice[0].toUpperCase()}${choice.slice(1)}: ${shown}`, String(place + 1), ""]);
}

function drawAnswers() {
  const isWhole = state.judged === "private";
  const done = [["attributes", "Done: all others are absent", "Enter", "enter"]];
  const all = [...(state.judged === "attributes" ? done : choices()),
    ...OPEN.map(([answer, title, digit, letter]) => [answer, title, isWhole ? digit : letter.toUpperCase(), letter])];
  $("answers").replaceChildren(...all.map(([answer, title, key]) => {
    const button = document.createElement("button"), hint = document.createElement("kbd");
    button.type = "button";
    button.dataset.answer = answer;
    hint.textContent = key;
    button.append(`${title} `, hint);
    button.addEventListener("click", () => give(answer));
    return button;
  }));
}

function drawAttributes() {
  $("attributes").replaceChildren();
  let level = 0;
  state.attributes.forEach((attribute, place) => {
    if (attribute.level !== level) {
      level = attribute.level;
      const head = document.createElement("h3");
      head.textContent = `Level ${level}: ${state.levels[level]}`;
      $("attributes").append(head);
    }
    const button = document.createElement("button"), hint = document.createElement("kbd"), word = document.createElement("small");
    button.type = "button";
    button.title = attribute.shows + (attribute.ambiguous ? `; unclear cue: ${attribute.ambiguous}` : "");
    button.dataset.key = attribute.key;
    hint.textContent = (ATTRIBUTE_KEYS[place] ?? "").toUpperCase();
    button.append(hint, ` ${attribute.title} `, word);
    button.addEventListener("click", () => turn(attribute));
    $("attributes").append(button);
  });
  $("attributes").hidden = false;
}

function showValues() {
  for (const button of $("attributes").querySelectorAll("button")) {
    const value = values[button.dataset.key];
    button.dataset.value = String(value);
    button.lastChild.textContent = value === 0 ? "" : WORDS[value];
    button.setAttribute("aria-label", `${titles[button.dataset.key]}: ${WORDS[value]}`);
  }
}

// The next value of an attribute: absent, present, unclear where the taxonomy has that, cannot say.
function turn(attribute) {
  if (!now || now.answer) return;
  const order = attribute.ambiguous ? [0, 1, 0.5, null] : [0, 1, null];
  values[attribute.key] = order[(order.indexOf(values[attribute.key]) + 1) % order.length];
  showValues();
}

// ---- one picture

async function fill() {
  const sent = outbox.sent, isSaved = !outbox.waiting.length;
  const found = await (await get("/api/next")).json();
  const fresh = found.numbers.filter((number) => !answered.has(number) && number !== now?.number);
  upcoming = [...upcoming.filter((number) => !fresh.includes(number) && !answered.has(number)), ...fresh].slice(0, 12);
  if (isSaved && sent === outbox.sent) numLeft = found.num_left;  // else it may not count the last answer
  for (const number of upcoming.slice(0, AHEAD)) pictures.picture(number).catch(() => {});
  showStatus();
}

async function advance() {
  leave();
  now = null;
  try {
    if (!upcoming.length) await fill();
    else if (upcoming.length <= AHEAD) fill().catch(() => {});
    if (!upcoming.length && outbox.waiting.length) {  // what is not saved yet is in the way of what follows
      await outbox.saved();
      await fill();
    }
    if (!upcoming.length) return end();
    await show(upcoming.shift());
  } catch (error) {
    say("The server does not answer; it is asked again in a moment.");
    setTimeout(advance, RETRY_MS);
  }
}

async function show(number, given = null) {
  now = { number, answer: null };
  ask(false);
  values = given ?? Object.fromEntries(state.attributes.map(({ key }) => [key, 0]));
  boxes.clear();
  keepClear(false);
  $("model").hidden = true;
  for (const button of $("answers").children) button.classList.remove("given");
  showValues();
  try {
    const url = await pictures.picture(number);
    if (now?.number !== number) return;
    if (!url) {
      numLeft -= 1;
      return advance();
    }
    $("picture").src = url;
    await $("picture").decode();
  } catch (error) {
    if (now?.number !== number) return;
    say("The storage of the pictures does not answer; it is asked again in a moment.");
    setTimeout(() => { if (now?.number === number) show(number, values); }, RETRY_MS);
    return;
  }
  say("");
  $("again").hidden = true;
  $("review").dataset.shown = number;
  [seconds, since] = [0, document.hidden ? null : performance.now()];
  for (const next of upcoming.slice(0, AHEAD)) pictures.picture(next).catch(() => {});
}

function leave() {
  if (!now?.answer) return;
  const changed = boxes.changed();
  if (changed) outbox.send({ ...now.answer, boxes: changed }).catch((error) => alertUser(error));
  history.push({ number: now.number, values });
  if (history.length > 50) pictures.drop(history.shift().number);
}

function elapsed() { return (seconds + (since === null ? 0 : performance.now() - since)) / 1000; }

async function give(answer) {
  if (!now || now.answer || $("stage").hidden) return;
  const one = now, body = { number: one.number, answer, seconds: elapsed() };
  if (answer in state.choices) Object.assign(body, { answer: state.judged === "votes" ? "vote" : "class", choice: answer });
  if (answer === "attributes") body.values = values;
  one.answer = body;
  answered.add(one.number);
  numLeft -= 1;
  document.querySelector(`[data-answer="${answer}"]`).classList.add("given");
  const saved = outbox.send(body);
  saved.then(refreshProgress, (error) => { answered.delete(one.number); alertUser(error); });
  if ($("at-once").checked || answer === "skip" || state.is_blind) return advance();  // what is not judged keeps the model's answer hidden
  const model = await saved.catch(() => null);
  if (now !== one || !model) return;
  rows($("said"), modelRows(model, titles, state.levels));
  boxes.show(model.boxes);
  $("model").hidden = false;
}

async function undo() {
  let last = null;
  if (now?.answer) last = { number: now.number, values };
  else if (history.length) {
    last = history.pop();
    if (now) upcoming.unshift(now.number);
  }
  if (!last) return;
  answered.delete(last.number);
  numLeft += 1;
  outbox.send({ number: last.number, answer: "undo" }).then(refreshProgress, alertUser);
  await show(last.number, last.values);
  showStatus();
}

function alertUser(error) {
  $("status").textContent = error.message;
  $("status").classList.add("late");
}

// What is asked, as long as there is a picture to judge.
function ask(isOver) {
  const asked = { private: "Is this picture private?", attributes: "What does this picture show?",
    classes: "Which of these does this picture show?",
    votes: "If it were yours, and showed people you know: who may see this picture?",
    question: state.question }[state.judged];
  $("question").textContent = isOver ? "You are done" : asked;
  $("means").textContent = isOver || state.judged !== "private" ? "" : state.private_means;
  $("answers").hidden = $("hold").hidden = $("keep").hidden = $("at-once-label").hidden = isOver;
  $("rules").hidden = !state.rules.length;
  if (state.is_blind) $("at-once-label").hidden = true;
  $("attributes").hidden = isOver || state.judged !== "attributes";
}

async function end() {
  now = null;
  ask(true);
  delete $("review").dataset.shown;
  $("model").hidden = true;
  boxes.clear();
  numLeft = 0;
  showStatus();
  say("That was the last picture.");
  const skipped = await openProgress(true);
  if (now) return;  // an answer was taken back meanwhile
  say(`That was the last picture. ${skipped ? `You skipped ${skipped}.` : "Thank you. What comes next is above."}`);
  $("again").textContent = `Look at the skipped ${skipped === 1 ? "picture" : "pictures"} again`;
  $("again").hidden = !skipped;
}

async function askSkipped() {
  $("again").hidden = true;
  try {
    await post("/api/skipped", {});
    answered.clear();
    await advance();
  } catch (error) {
    alertUser(error);
    $("again").hidden = false;
  }
}

// ---- progress

// How many pictures the person skipped, as far as it is known.
async function refreshProgress() {
  showStatus();
  if ($("progress").hidden) return 0;
  try {
    const says = await (await get("/api/progress")).json();
    showProgress($("progress"), says);
    return says.num_skipped;
  } catch { return 0; /* the next time */ }
}

function openProgress(isOpen) {
  $("progress").hidden = !isOpen;
  $("progress-button").setAttribute("aria-expanded", isOpen);
  return refreshProgress();
}

// ---- keys and buttons

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("review").hidden) return;
  const key = event.key.toLowerCase(), target = event.target;
  if (target.matches("input:not([type=checkbox]), select") || (key === " " && target.matches("input"))) return;
  if (key === " ") { if (!event.repeat) setClear(true); return event.preventDefault(); }
  if (event.repeat) return;
  if (key === "enter" && target.matches("header button, #undo, #keep, #box-add, #again")) return;
  if (key === "enter" && !now?.answer && target.matches("[data-answer]")) return;
  if (key === "enter" || key === "arrowright") {
    if (now?.answer) { event.preventDefault(); return advance(); }
    if (key === "enter" && state.judged === "attributes") { event.preventDefault(); return give("attributes"); }
    return;
  }
  const action = { z: undo, backspace: undo, v: () => keepClear(!isKept()), x: addBox }[key];
  const chosen = choices().find(([, , digit, letter]) => letter === key || digit === key);
  const whole = chosen ?? OPEN.find(([, , digit, letter]) => letter === key || (state.judged === "private" && digit === key));
  const place = state.judged === "attributes" ? ATTRIBUTE_KEYS.indexOf(key) : -1;
  if (action) action();
  else if (whole) give(whole[0]);
  else if (key.length === 1 && place >= 0) turn(state.attributes[place]);
  else return;
  event.preventDefault();
}

function addBox() { if (!$("model").hidden) boxes.add($("box-attribute").value || null); }

function listen() {
  addEventListener("keydown", onKey);
  addEventListener("keyup", (event) => { if (event.key === " ") { setClear(isKept()); event.preventDefault(); } });
  addEventListener("blur", () => setClear(isKept()));
  $("hold").addEventListener("pointerdown", (event) => {
    event.preventDefault();
    $("hold").setPointerCapture(event.pointerId);
    setClear(true);
  });
  for (const kind of ["pointerup", "pointercancel"]) $("hold").addEventListener(kind, () => setClear(isKept()));
  for (const id of ["hold", "stage"]) $(id).addEventListener("contextmenu", (event) => event.preventDefault());
  $("keep").addEventListener("click", () => keepClear(!isKept()));
  $("undo").addEventListener("click", undo);
  $("next").addEventListener("click", advance);
  $("again").addEventListener("click", askSkipped);
  $("box-add").addEventListener("click", addBox);
  $("progress-button").addEventListener("click", () => openProgress($("progress").hidden));
  $("at-once").checked = localStorage.getItem("at-once") === "yes";
  $("at-once").addEventListener("change", () => localStorage.setItem("at-once", $("at-once").checked ? "yes" : "no"));
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && since !== null) { seconds += performance.now() - since; since = null; }
    else if (!document.hidden && since === null) since = performance.now();
  });
  setInterval(refreshProgress, PROGRESS_MS);
}

// ---- beginning

const askName = nameForm("review", alertUser);

async function begin() {
  state = await (await get("/api/state")).json();
  $("title").textContent = document.title = state.title;
  $("who").textContent = state.reviewer ?? "";
  $("who").addEventListener("click", askName);
  if (state.reviewer === null) return askName();
  titles = Object.fromEntries(state.attributes.map(({ key, title }) => [key, title]));
  boxes = new Boxes($("boxes"), (key) => titles[key] ?? "box");
  $("box-attribute").append(...state.attributes.map(({ key, title }) => new Option(title, key)));
  drawAnswers();
  rows($("rule-list"), state.rules);
  if (state.judged === "attributes") drawAttributes();
  $("review").hidden = $("progress-button").hidden = false;
  listen();
  await advance();
}

begin().catch(() => { $("review").hidden = false; say("The server does not answer; load this page again."); });
