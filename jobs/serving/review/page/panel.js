// What the page says of the review, and of the model's answer. All texts go in as text, never as HTML.

export function rows(target, pairs) {
  target.replaceChildren(...pairs.flatMap(([name, value]) => {
    const term = document.createElement("dt"), said = document.createElement("dd");
    term.textContent = name;
    said.textContent = value;
    return [term, said];
  }));
}

const share = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(0)} %`);

export function modelRows(model, titles, levels) {
  const level = model.level === null ? "not known" : `${model.level} (${levels[model.level]})`;
  const chance = model.probability === null ? "" : `, probability ${model.probability.toFixed(2)}`;
  const said = model.private === null ? "not known" : model.private ? "private" : "not private";
  const found = model.attributes.map(({ attribute, value, probability }) =>
    titles[attribute] + (value === 0.5 ? " (unclear)" : "") + (probability === null ? "" : ` ${probability.toFixed(2)}`));
  return [
    ["Answer", said + chance], ["Level", level], ["Attributes", found.join(", ") || "none"],
    ["Evidence", model.rationale || "–"], ["Key", model.key], ["Category", model.category ?? "–"],
    ...(model.num_frames > 1 ? [["Frames", `1 of ${model.num_frames} is shown`]] : []),
  ];
}

export const WHY = { listed: "on the hash list", not_compared: "that cannot be compared with the hash list",
  changed: "changed since the scan", gone: "not in the source any more", undecodable: "cannot be decoded" };

export function showProgress(target, says) {
  const lines = [["You", says.in_words]];
  if (says.enough) {
    const { answered, drawn, interval, second_look, twice } = says.enough;
    const width = interval ? `; corrected share of private pictures ${share(interval[0])} to ${share(interval[1])} (95 %). Stop when it is narrow enough, never because of what it says` : "";
    lines.push(["Audit sample", `${answered} of ${drawn} drawn pictures have an answer${width}`]);
    if (second_look)
      lines.push(["Second look", `${twice} pictures were judged by two people; the first ${second_look} are meant for it`]);
  }
  for (const [name, count] of Object.entries(says.people)) lines.push([name, `${count} answered`]);
  for (const [name, [right, asked]] of Object.entries(says.known ?? {})) {
    lines.push([`Known answers: ${name}`, `${right} of ${asked} right`]);
  }
  for (const [why, count] of Object.entries(says.not_shown)) lines.push(["Not shown", `${count} ${WHY[why]}`]);
  for (const command of says.next) lines.push(["Next, in a terminal", command]);
  const table = document.createElement("table");
  for (const [name, value] of lines) {
    const row = table.insertRow(), head = document.createElement("th");
    head.scope = "row";
    head.textContent = name;
    row.append(head);
    row.insertCell().textContent = value;
  }
  target.replaceChildren(table);
}
