// Shapes of the picture that a person can click: each does an action (`data-action`), or chooses the value of one field
// of an action (`data-field`, `data-value`). Only what is legal now is a button.
let offers = null; // the legal actions; null if none are listed, and a form has the fields
let chosen = {}; // the fields that were chosen on the picture, of a move of several clicks

const shapes = () => [...el("board").querySelectorAll("svg [data-action], svg [data-field]")];
const shapeAt = (node) => node.closest("#board svg [data-action], #board svg [data-field]");
const entry = (name, value) => `${name} ${canonical(value)}`;
const fieldsOf = (action) => (action !== null && typeof action === "object" && !Array.isArray(action) ? action : {});
const fits = (action, part) => Object.entries(part).every(([name, value]) => name in fieldsOf(action) && entry(name, action[name]) === entry(name, value));

function meaning({ dataset }) {
  try {
    if (dataset.action !== undefined) return { action: JSON.parse(dataset.action), fields: [] };
    return { fields: dataset.field.split(" ").filter((name) => name), value: JSON.parse(dataset.value) };
  } catch {
    return { fields: [] };
  }
}

// What the picture can say, however many clicks it takes: whole actions, fields and their values.
function spelled() {
  const said = { actions: new Set(), fields: new Set(), entries: new Set() };
  for (const { action, fields, value } of shapes().map(meaning)) {
    if (action !== undefined) said.actions.add(canonical(action));
    for (const name of fields) { said.fields.add(name); said.entries.add(entry(name, value)); }
  }
  return said;
}

// Whether an action needs no button, because shapes do it. One of several that differ in what has no shape gets a button
// once the rest is chosen.
function isShaped(action, said) {
  const names = Object.keys(fieldsOf(action)).filter((name) => said.fields.has(name));
  if (said.actions.has(canonical(action))) return true;
  if (!names.length || !names.every((name) => said.entries.has(entry(name, action[name])))) return false;
  return !(names.every((name) => name in chosen) && fits(action, chosen));
}

// What a click on each kind of shape would do now: nothing (null), an action, a choice, or a value in the form.
function effects() {
  const form = [...controls.values()].find((control) => control.set);
  const whole = offers && new Set(offers.map(canonical));
  const entries = (actions) => new Set(actions.flatMap((action) => Object.entries(fieldsOf(action)).map(([name, value]) => entry(name, value))));
  const [first, next] = offers ? [entries(offers), entries(offers.filter((action) => fits(action, chosen)))] : [];
  return (shape) => {
    const { action, fields, value } = meaning(shape);
    if (action !== undefined) return !whole || whole.has(canonical(action)) ? { action } : null;
    if (!offers) {
      const name = fields.find((one) => form && form.takes(one, value));
      return name === undefined ? null : { name, value, pressed: form.has(name, value) };
    }
    const open = fields.find((name) => !(name in chosen));
    if (open !== undefined && next.has(entry(open, value))) return { choose: { ...chosen, [open]: value }, pressed: false };
    if (fields.some((name) => name in chosen && entry(name, chosen[name]) === entry(name, value))) return { choose: {}, pressed: true };
    const again = fields.find((name) => name in chosen && first.has(entry(name, value)));
    return again === undefined ? null : { choose: { [again]: value }, pressed: false };
  };
}

// Show which shapes are buttons. One that has the focus keeps it for as long as it has it, as a button below does.
function markShapes(ready) {
  const effect = effects();
  const told = new Set();
  for (const shape of shapes()) {
    const does = ready ? effect(shape) : null;
    if (!does && shape !== document.activeElement) {
      for (const name of ["role", "tabindex", "aria-label", "aria-disabled", "aria-pressed"]) shape.removeAttribute(name);
      continue;
    }
    const { action, fields, value } = meaning(shape);
    const title = [...shape.children].find((child) => child.localName === "title");
    const label = (title && title.textContent.trim()) || words(action === undefined ? { [fields[0]]: value } : action);
    // Of shapes that do the same, such as the squares of a column, Tab reaches the first.
    const same = canonical(meaning(shape));
    const known = told.has(same);
    told.add(same);
    const marks = { role: "button", tabindex: known ? "-1" : "0", "aria-label": label, "aria-disabled": String(!does) };
    for (const [name, text] of Object.entries(marks)) if (shape.getAttribute(name) !== text) shape.setAttribute(name, text);
    if (does && does.pressed !== undefined) shape.setAttribute("aria-pressed", String(does.pressed));
    else shape.removeAttribute("aria-pressed");
  }
  const root = el("board").querySelector("svg");
  // The parts of an image are not read out, those of a group are.
  if (root) root.setAttribute("role", shapes().length ? "group" : "img");
  frame();
}

// A frame in each group that is a button, around all of it: an outline would be as wide as units of the picture are. A
// single shape gets a stroke by its style.
function frame() {
  const groups = shapes().filter((shape) => shape.localName === "g");
  const [buttons, others] = [groups.filter((shape) => shape.role), groups.filter((shape) => !shape.role)];
  const frameOf = (shape) => [...shape.children].find((child) => child.isFrame);
  for (const shape of others) if (frameOf(shape)) frameOf(shape).remove();
  for (const shape of buttons) {
    const rect = frameOf(shape) || shape.appendChild(Object.assign(document.createElementNS(SVG, "rect"), { isFrame: true }));
    rect.setAttribute("class", "frame");
    rect.setAttribute("display", "none");
  }
  const boxes = buttons.map((shape) => shape.getBBox());
  buttons.forEach((shape, index) => {
    const { x, y, width, height } = boxes[index];
    const place = { x, y, width, height, rx: Math.min(width, height) / 12 };
    for (const [name, value] of Object.entries(place)) frameOf(shape).setAttribute(name, String(value));
    frameOf(shape).removeAttribute("display");
  });
}

function press(shape) {
  if (!canAct()) return;
  const does = effects()(shape);
  if (!does) return;
  if (does.action !== undefined) { act(does.action); return; }
  if (!does.choose) {
    for (const control of controls.values()) if (control.set) control.set(does.name, does.value);
    showState();
    return;
  }
  choose(does.choose);
}

function choose(fields) {
  chosen = fields;
  const said = spelled();
  const left = offers.filter((action) => fits(action, chosen));
  const done = left.length === 1 && Object.keys(left[0]).every((name) => name in chosen || !said.fields.has(name));
  if (done) { chosen = {}; act(left[0]); }
  offer();
  showState();
  if (!done) setNotice(Object.keys(chosen).length ? `${words(chosen)} …` : "");
}

// A piece that stands on a square must not be in the way of a click on it.
el("board").addEventListener("click", ({ target, clientX, clientY }) => {
  const under = [target, ...document.elementsFromPoint(clientX, clientY)].map(shapeAt);
  const shape = under.find((one) => one && one.role && one.ariaDisabled !== "true");
  if (shape) press(shape);
});
