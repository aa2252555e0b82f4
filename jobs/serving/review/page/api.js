// Talks to the server. Answers are sent in the background, in order, again and again until they are saved.

export async function get(path, signal) {
  const answer = await fetch(path, { cache: "no-store", signal });
  if (!answer.ok) throw Object.assign(new Error(path), { status: answer.status, body: await answer.json().catch(() => ({})) });
  return answer;
}

const REFUSED = { 403: "not saved: open the address that privsieve printed last" };

export async function post(path, body) {
  return (await send(path, body, { keepalive: true })).json().catch(() => ({}));
}

// The answer itself, which may be a file.
export async function send(path, body, options = {}) {
  const answer = await fetch(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), ...options,
  });
  if (answer.ok) return answer;
  const found = await answer.json().catch(() => ({}));
  throw Object.assign(new Error(found.error || REFUSED[answer.status] || "not saved"), { status: answer.status });
}

// The form that takes the name of the person, and then loads the page again. What this returns shows the form in place
// of the page's own part.
export function nameForm(part, alertUser) {
  const $ = (id) => document.getElementById(id);
  $("name-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await post("/api/name", { name: $("name").value });
      location.reload();
    } catch (error) {
      alertUser(error);
    }
  });
  return () => {
    $(part).hidden = $("who").hidden = true;
    $("name-form").hidden = false;
    $("name").focus();
  };
}

const RETRY_MS = 2000;

export class Outbox {
  constructor(changed) {
    this.waiting = [];
    this.sent = 0;
    this.failure = null;
    this.changed = changed;
    this.sending = false;
    addEventListener("beforeunload", (event) => { if (this.waiting.length) event.preventDefault(); });
  }

  // A promise of what the server says once the answer is saved.
  send(answer) {
    return new Promise((done, refused) => {
      this.waiting.push({ answer, done, refused });
      this.sent += 1;
      this.changed();
      this.run();
    });
  }

  // When nothing waits any more.
  async saved() {
    while (this.waiting.length) await new Promise((wake) => setTimeout(wake, 50));
  }

  async run() {
    if (this.sending) return;
    this.sending = true;
    while (this.waiting.length) {
      const { answer, done, refused } = this.waiting[0];
      try {
        const found = await post("/api/answer", answer);
        this.failure = null;
        this.waiting.shift();
        done(found.model);
      } catch (error) {
        if (error.status >= 400 && error.status < 500) {
          this.waiting.shift();
          refused(error);
        } else {  // the server or its storage does not answer now
          this.failure = error.message;
          this.changed();
          await new Promise((wake) => setTimeout(wake, RETRY_MS));
        }
      }
      this.changed();
    }
    this.sending = false;
  }
}

// Pictures of this person, some ahead.
export class Preload {
  constructor() { this.urls = new Map(); }

  // The address of the picture, "" if it is not shown: changed, gone or on the hash list. The server counts these.
  picture(number) {
    if (!this.urls.has(number)) {
      const url = get(`/api/picture/${number}`).then(async (answer) =>
        answer.headers.get("Content-Type") === "image/jpeg" ? URL.createObjectURL(await answer.blob()) : "");
      url.catch(() => this.urls.delete(number));
      this.urls.set(number, url);
    }
    return this.urls.get(number);
  }

  async drop(number) {
    const url = this.urls.get(number);
    this.urls.delete(number);
    if (url) URL.revokeObjectURL(await url.catch(() => ""));
  }
}
