// Boxes over the picture: shown, moved, resized, added, removed. Sides are fractions of the picture.

const SIDES = ["x_min", "y_min", "x_max", "y_max"];
const STEP = 0.01;
const SMALLEST = 0.01;

// Puts the element of a box where the box is.
export function lay(element, box) {
  element.className = `box ${box.by ?? "model"}`;
  element.style.left = `${100 * box.x_min}%`;
  element.style.top = `${100 * box.y_min}%`;
  element.style.width = `${100 * (box.x_max - box.x_min)}%`;
  element.style.height = `${100 * (box.y_max - box.y_min)}%`;
}

export class Boxes {
  constructor(layer, titleOf) {
    this.layer = layer;
    this.titleOf = titleOf;
    this.clear();
  }

  clear() {
    this.list = [];
    this.isChanged = false;
    this.layer.replaceChildren();
  }

  show(boxes) {
    this.clear();
    this.list = boxes.map((box) => ({ ...box }));
    this.draw();
  }

  add(attribute) {
    this.list.push({ attribute, by: "person", x_min: 0.35, y_min: 0.35, x_max: 0.65, y_max: 0.65 });
    this.isChanged = true;
    this.draw();
    this.layer.lastElementChild.focus();
  }

  // The boxes as the person left them, null if none was changed.
  changed() {
    const rounded = (box) => Object.fromEntries(SIDES.map((side) => [side, Math.round(box[side] * 1e4) / 1e4]));
    return this.isChanged ? this.list.map((box) => ({ ...box, ...rounded(box) })) : null;
  }

  draw() {
    this.layer.replaceChildren(...this.list.map((box, place) => this.element(box, place)));
  }

  element(box, place) {
    const element = document.createElement("div"), label = document.createElement("span"), corner = document.createElement("i");
    element.tabIndex = 0;
    element.setAttribute("role", "group");
    label.textContent = this.titleOf(box.attribute);
    element.setAttribute("aria-label", `Box ${place + 1}: ${label.textContent}`);
    element.append(label, corner);
    lay(element, box);
    element.addEventListener("keydown", (event) => this.key(event, element, box));
    element.addEventListener("pointerdown", (event) => this.drag(event, element, box, event.target === corner));
    return element;
  }

  key(event, element, box) {
    const moves = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };
    if (event.key === "Delete") {
      this.list = this.list.filter((other) => other !== box);
      this.isChanged = true;
      this.draw();
    } else if (event.key in moves) {
      this.change(element, box, { ...box }, moves[event.key], event.shiftKey);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  drag(event, element, box, isResize) {
    event.preventDefault();
    element.focus();
    element.setPointerCapture(event.pointerId);
    const start = { ...box }, { width, height } = this.layer.getBoundingClientRect(), [x, y] = [event.clientX, event.clientY];
    const move = (now) => this.change(element, box, start, [(now.clientX - x) / width, (now.clientY - y) / height], isResize);
    element.addEventListener("pointermove", move);
    const end = () => element.removeEventListener("pointermove", move);
    element.addEventListener("pointerup", end, { once: true });
    element.addEventListener("pointercancel", end, { once: true });
  }

  change(element, box, from, [dx, dy], isResize) {
    const within = (value, low, high) => Math.min(Math.max(value, low), high);
    if (isResize) {
      box.x_max = within(from.x_max + dx, from.x_min + SMALLEST, 1);
      box.y_max = within(from.y_max + dy, from.y_min + SMALLEST, 1);
    } else {
      dx = within(dx, -from.x_min, 1 - from.x_max);
      dy = within(dy, -from.y_min, 1 - from.y_max);
      for (const side of SIDES) box[side] = from[side] + (side[0] === "x" ? dx : dy);
    }
    box.by = "person";
    this.isChanged = true;
    lay(element, box);
  }
}
