// One changed picture after the other: look, choose what it shows, go on. What was right is never said.

import { get, nameForm, post, Outbox, Preload } from "/api.js";

const $ = (id) => document.getElementById(id);
const RETRY_MS = 3000;
const QUESTIONS = { candidates: "Which of these pictures is it?", classes: "What does the picture show?",
  pairs: "Do both pictures show the same person or thing?" };

let state, upcoming = [], numLeft = 0, numSkipped = 0, now = null, history = [], since = 0;
const done = new Set(), pictures = new Preload(), outbox = new Outbox(showStatus);

function showStatus() {
  const late = outbox.waiting.length ? ` · ${outbox.waiting.length} not saved yet${outbox.failure ? ": " + outbox.failure : ""}` : "";
  $("status").textContent = `${numLeft} left${late}`;
  $("status").classList.toggle("late", Boolean(outbox.failure));
}

function say(text) {
  $("message").textContent = text;
  $("message").hidden = !text;
  $("ask").hidden = Boolean(text);
  if (!text) $("again").hidden = true;
}

function alertUser(error) {
  $("status").textContent = error.message;
  $("status").classList.add("late");
}

function button(title, key, act) {
  const made = document.createElement("button"), hint = document.createElement("kbd");
  made.type = "button";
  hint.textContent = key;
  made.append(`${title} `, hint);
  made.addEventListener("click", act);
  return made;
}

// Addresses of the pictures of a question: the changed one, then the candidates.
function addresses({ number, candidates }) {
  const count = Array.isArray(candidates) ? 0 : candidates;
  return Array.from({ length: count + 1 }, (_, place) => `${number}/${place}`);
}

async function fill() {
  await outbox.saved();  // what is not saved yet would be asked again
  const found = await (await get("/api/next")).json();
  upcoming = found.questions.filter(({ number }) => !done.has(number) && number !== now?.number);
  numLeft = found.num_left;
  numSkipped = found.num_skipped;
  showStatus();
}

async function advance() {
  if (now) history.push(now);
  if (history.length > 20) addresses(history.shift()).forEach((one) => pictures.drop(one));
  now = null;
  try {
    if (!upcoming.length) await fill();
    if (!upcoming.length) return end();
    await show(upcoming.shift());
  } catch {
    say("The server does not answer; it is asked again in a moment.");
    setTimeout(advance, RETRY_MS);
  }
}

async function show(question) {
  const urls = await Promise.all(addresses(question).map((one) => pictures.picture(one)));
  if (urls.includes("")) {  // a picture has changed, or is gone
    done.add(question.number);
    return advance();
  }
  now = question;
  say("");
  $("changed").src = urls[0];
  const names = Array.isArray(question.candidates) ? question.candidates : urls.slice(1);
  const isPair = state.asked === "pairs";
  $("candidates").replaceChildren(...names.map((name, place) => {
    const image = document.createElement("img");
    if (state.asked !== "classes") Object.assign(image, { src: name, alt: `Original ${place + 1}`, draggable: false });
    if (isPair) return image;
    const made = button(state.asked === "classes" ? name : "", place < 9 ? place + 1 : "", () => give("candidate", place + 1));
    if (state.asked !== "classes") made.prepend(image);
    return made;
  }));
  await Promise.all([$("changed"), ...$("candidates").querySelectorAll("img")].map((image) => image.decode()));
  $("ask").dataset.shown = question.number;
  since = performance.now();
  for (const later of upcoming) for (const one of addresses(later)) pictures.picture(one).catch(() => {});
}

function give(answer, place = null) {
  if (!now) return;
  const { number } = now, body = { number, answer, seconds: (performance.now() - since) / 1000 };
  if (place !== null) body.place = place;
  done.add(number);
  numLeft -= 1;
  outbox.send(body).catch((error) => { done.delete(number); alertUser(error); });
  advance();
}

async function undo() {
  const last = history.pop();
  if (!last) return;
  if (now) upcoming.unshift(now);
  now = null;
  done.delete(last.number);
  numLeft += 1;
  outbox.send({ number: last.number, answer: "undo" }).catch(alertUser);
  await show(last).catch(alertUser);
  showStatus();
}

function end() {
  delete $("ask").dataset.shown;
  say(`That was the last one. ${numSkipped ? `You skipped ${numSkipped}.` : "Thank you."}`);
  $("again").hidden = !numSkipped;
}

async function askSkipped() {
  try {
    await post("/api/skipped", {});
    done.clear();
    history = [];
    await advance();
  } catch (error) {
    alertUser(error);
  }
}

function choose(place) { if (now && place <= $("candidates").children.length) give("candidate", place); }

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || $("name-form").hidden === false) return;
  const key = event.key.toLowerCase();
  const yes = state.asked === "pairs" && key === "y" ? 1 : Number.parseInt(key, 10);
  if (key === "z") undo();
  else if (key === "s") give("skip");
  else if (key === "n" || key === "0") give("none");
  else if (yes) choose(yes);
  else return;
  event.preventDefault();
}

const askName = nameForm("ask", alertUser);

async function begin() {
  state = await (await get("/api/state")).json();
  $("who").textContent = state.reviewer ?? "";
  $("who").addEventListener("click", askName);
  if (state.reviewer === null) return askName();
  $("question").textContent = QUESTIONS[state.asked];
  $("candidates").classList.toggle("pair", state.asked === "pairs");
  const none = state.asked === "pairs" ? button("Not the same", "N", () => give("none")) : button("None of these", "N", () => give("none"));
  $("answers").replaceChildren(
    ...(state.asked === "pairs" ? [button("The same", "Y", () => choose(1))] : []), none,
    button("Skip", "S", () => give("skip")), button("Undo", "Z", undo));
  $("again").addEventListener("click", askSkipped);
  addEventListener("keydown", onKey);
  await advance();
}

begin().catch(() => say("The server does not answer; load this page again."));
