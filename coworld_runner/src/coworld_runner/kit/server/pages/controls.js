// What a person can choose, and the controls for it.
const MOST_KEPT = 12; // up to so many different actions, those that are not legal now stay in their places
const MOST_BUTTONS = 9; // more actions that differ in one number alone become a field with a slider
const MOST_SLIDES = 1000;
const MOST_FIELDS = 64; // a longer list is entered as JSON
const ARROWS = { up: "ArrowUp", north: "ArrowUp", down: "ArrowDown", south: "ArrowDown",
  left: "ArrowLeft", west: "ArrowLeft", right: "ArrowRight", east: "ArrowRight" };
const SHOWN = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", " ": "Space" };

let known = []; // the actions that have been legal, as JSON
let numbered = null; // whether a digit means the number in an action, in the whole game, and never a place
let controls = new Map();

// Show these controls; each stays in place while it is needed, with the focus and whatever has been entered.
function place(items) {
  const had = el("controls").contains(document.activeElement);
  const fresh = new Map();
  for (const item of items) {
    const control = controls.get(item.key) || item.build(item);
    fresh.set(item.key, control);
    control.update(item);
  }
  for (const [key, control] of controls) if (!fresh.has(key)) control.node.remove();
  controls = fresh;
  let follows = el("controls").firstElementChild;
  for (const { node } of fresh.values()) {
    if (node === follows) follows = follows.nextElementSibling;
    else el("controls").insertBefore(node, follows);
  }
  // Where a control had the focus, so that the next one is a Tab away and Enter does nothing.
  if (had && !el("controls").contains(document.activeElement)) el("controls").focus();
}

function buildButton({ action, key: what }) {
  const key = make("kbd", { "aria-hidden": "true" });
  const button = make("button", { type: "button" }, key, words(action));
  let legal = true;
  const enabled = () => button.ariaDisabled !== "true";
  // Beside a form that is sent as it changes, a button is held down as its key is.
  button.addEventListener("pointerdown", () => { if (enabled() && steered()) hold(what, action); });
  for (const end of ["pointerup", "pointerleave", "pointercancel"]) button.addEventListener(end, () => letGo(what));
  button.addEventListener("click", ({ detail }) => {
    if (!enabled()) return;
    if (!steered()) act(action);
    else if (!detail) { hold(what, action); letGo(what); }
  });
  return {
    node: button,
    hold(by) { if (enabled()) hold(by, action); },
    update(item) {
      legal = item.legal;
      button.hidden = item.shaped;
      setText(key, item.press === undefined ? "" : SHOWN[item.press] || item.press);
      key.hidden = item.press === undefined;
      if (item.press === undefined) button.removeAttribute("aria-keyshortcuts");
      else button.setAttribute("aria-keyshortcuts", item.press === " " ? "Space" : item.press);
    },
    enable(ready, chosen) {
      button.ariaDisabled = String(!ready || !legal);
      if (chosen !== undefined || !ticking()) button.dataset.sent = String(chosen === action);
    },
  };
}

// A form for an action with fields; `compose` makes the action of their values.
function buildForm({ fields, compose, parts }) {
  const entered = fields.map((field) => buildField(field));
  const values = () => entered.map((field) => field.value());
  let rest = null; // the values with which it begins
  let doing = null; // in a game of ticks, the action that it was sent as
  const button = make("button", { type: "button" });
  const pair = entered.filter((field) => field.range);
  const pad = pair.length === 2 && parts && buildPad(pair.map((field) => ({ ...field, index: entered.indexOf(field) })), {
    enter(given) { enter(given); write(); },
    action: (given) => compose(given),
    rest: () => rest,
  });
  const form = make("div", { class: "form", role: "group", "aria-label": "Your action" },
    ...(pad ? [pad.node] : []), ...entered.map((field) => field.node), button);
  const long = entered.some((field) => field.long);
  const write = () => {
    setText(button, long ? "Send" : words(compose(values())));
    if (pad) pad.show();
  };
  const enter = (given) => given.forEach((value, index) => { if (value !== undefined && entered[index]) entered[index].enter(value); });
  const send = () => {
    doing = compose(values());
    act(doing);
  };
  const change = () => { if (steered() && entered.every((field) => field.input.checkValidity())) send(); };
  const submit = () => {
    if (button.ariaDisabled === "true" || !entered.every((field) => field.input.reportValidity())) return;
    for (const field of entered) field.sent = field.input.value;
    send();
  };
  button.addEventListener("click", submit);
  form.addEventListener("input", ({ target }) => {
    write();
    if (target.type !== "number") change();
  });
  form.addEventListener("change", ({ target }) => { if (target.type === "number") change(); });
  form.addEventListener("keydown", (event) => {
    // As in a chat: Enter sends, Shift+Enter starts a new line.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.target === button) return;
    event.preventDefault();
    if (!event.repeat) submit();
  });
  return {
    node: form,
    number: entered.map((field) => field.input).find((input) => input.type === "number"),
    update(item) {
      item.fields.forEach((field, index) => entered[index].bound(field));
      rest = rest || values();
      button.hidden = Boolean(steered(this));
      write();
    },
    // In a game of ticks, a form of numbers, choices and switches is sent as it changes.
    steers: Boolean(parts) && !long,
    steer(action) { enter(parts(action)); write(); send(); },
    // What was let go returns to where it began, unless something else holds it.
    release(action, others) {
      enter(parts(action).map((value, index) => (value === undefined ? value : rest[index])));
      for (const other of others) enter(parts(other));
      write();
      send();
    },
    goOn() { if (doing && canonical(doing) !== canonical(compose(rest))) act(doing); },
    stick: pad && pad.stick,
    enable(ready) { button.ariaDisabled = String(!ready); },
    // A value that a shape of the picture chooses.
    takes: (name, value) => fields.some((field, index) => field.name === name && entered[index].fits(value)),
    has: (name, value) => fields.some((field, index) => field.name === name && entered[index].value() === value),
    set(name, value) {
      fields.forEach((field, index) => { if (field.name === name) entered[index].enter(value); });
      write();
      change();
    },
    clear() { for (const field of entered) if (field.long && field.input.value === field.sent) field.input.value = ""; },
  };
}

// One value of a form: a number (with a slider if it is bounded), a choice, a switch or a text.
function buildField({ name, schema, whole }) {
  const label = { "aria-label": name };
  const field = (input, value) => ({
    node: whole ? input : make("label", { class: "field" }, name, input),
    input,
    value,
    bound() {},
    fits: (given) => typeof given === (schema.type || "string"),
    enter(given) { input.value = given; },
  });
  if (schema.enum) {
    const input = make("select", label, ...schema.enum.map((value, index) => make("option", { value: String(index) }, words(value))));
    const at = (given) => schema.enum.findIndex((value) => canonical(value) === canonical(given));
    const enter = (given) => { input.value = String(at(given)); };
    if (at(schema.default) >= 0) enter(schema.default);
    return { ...field(input, () => schema.enum[Number(input.value)]), fits: (given) => at(given) >= 0, enter };
  }
  if (schema.type === "boolean") {
    const input = make("input", { ...label, type: "checkbox" });
    input.checked = schema.default === true;
    return { ...field(input, () => input.checked), enter(given) { input.checked = given; } };
  }
  if (schema.type === "string" || !schema.type) {
    const input = whole ? make("textarea", { ...label, spellcheck: String(Boolean(schema.type)) }) : make("input", { ...label, type: "text" });
    input.value = typeof schema.default === "string" ? schema.default : "";
    const parsed = () => { try { return JSON.parse(input.value); } catch { return input.value; } };
    return { ...field(input, () => (schema.type ? input.value : parsed())), long: true };
  }
  const input = make("input", { ...label, type: "number", required: "" });
  const slider = make("input", { "aria-label": `${name}, slider`, type: "range" });
  input.addEventListener("input", () => { slider.value = input.value; });
  slider.addEventListener("input", () => { input.value = slider.value; });
  return {
    node: make("div", { class: "field" }, make("span", {}, name), slider, input),
    input,
    value: () => Number(input.value),
    name,
    range: isRange(schema) ? [schema.minimum, schema.maximum] : null,
    fits: (given) => typeof given === "number" && !(given < schema.minimum || given > schema.maximum),
    enter(given) { slider.value = input.value = String(given); },
    bound({ schema: { minimum, maximum, step = "any", default: first } }) {
      for (const one of [input, slider]) {
        for (const [attribute, value] of Object.entries({ min: minimum, max: maximum, step })) {
          if (value === undefined) one.removeAttribute(attribute);
          else one.setAttribute(attribute, String(value));
        }
      }
      slider.hidden = minimum === undefined || maximum === undefined || (maximum - minimum) / (step === "any" ? 1 : step) > MOST_SLIDES;
      if (document.activeElement === input) return;
      if (input.value === "") input.value = String(first ?? 0);
      if (input.validity.rangeUnderflow) input.value = String(minimum);
      if (input.validity.rangeOverflow) input.value = String(maximum);
      slider.value = input.value;
    },
  };
}

// Whether a number is one of two that a pad could have.
const isRange = ({ type, minimum, maximum, step }) => type === "number" && step === "any" && minimum < maximum;

// The only number in an action, as `[name, value]`; the name is null if the action itself is the number.
function onlyNumber(action) {
  if (typeof action === "number") return [null, action];
  if (action === null || typeof action !== "object" || Array.isArray(action)) return null;
  const numbers = Object.entries(action).filter(([, value]) => typeof value === "number");
  return numbers.length === 1 ? numbers[0] : null;
}

// What an action has in common with those that differ from it in its only number.
function commonOf(action) {
  const number = onlyNumber(action);
  return number && (number[0] === null ? "" : canonical({ ...action, [number[0]]: null }));
}

// Actions that differ in one number alone as a form, if there are many of them, at equal distances.
function formOf(common, actions) {
  const key = `number ${common}`;
  const [name] = onlyNumber(actions[0]);
  const values = actions.map((action) => onlyNumber(action)[1]).sort((one, other) => one - other);
  const step = values.length > 1 ? values[1] - values[0] : 1;
  const even = step && values.every((value, index) => Number.isInteger(value) && value === values[0] + index * step);
  if (!even || (values.length <= MOST_BUTTONS && !controls.has(key))) return null;
  const { [name]: number, ...others } = name === null ? {} : actions[0];
  const label = [words(others), name === null ? "number" : name].filter((word) => word).join(", ");
  const schema = { type: "integer", minimum: values[0], maximum: values[values.length - 1], step };
  const compose = ([value]) => (name === null ? value : { ...others, [name]: value });
  return { key, build: buildForm, fields: [{ name: label, schema }], compose };
}

// The numbers in what a button says, such as "take 2" or "row 0, column 1"; the one in "e4" is part of a word.
const numbersIn = (action) => words(action).match(/(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])/g) || [];

// How many numbers an action of a type may have: none, one, or 2 for several.
function countsOf(schema, root, depth = 0) {
  if (depth > 8) return [];
  const inside = (inner) => countsOf(inner, root, depth + 1);
  if (schema.$ref) return inside((root.$defs || {})[schema.$ref.replace("#/$defs/", "")] || {});
  if (schema.const !== undefined || schema.enum) return (schema.enum || [schema.const]).map((value) => numbersIn(value).length);
  if (schema.anyOf || schema.oneOf) return (schema.anyOf || schema.oneOf).flatMap(inside);
  const own = { integer: 1, number: 1, array: 2 }[schema.type] || 0;
  const add = (sums, counts) => [...new Set(sums.flatMap((sum) => counts.map((count) => Math.min(sum + count, 2))))];
  return Object.values(schema.properties || {}).map(inside).reduce(add, [own]);
}

// The key of each action: the author's, an arrow for a direction, or else a digit. Where actions have a number, a digit
// is that number in the whole game, and otherwise the place of the button.
function keysOf(actions, fields, said) {
  const keys = new Map(Object.entries(about.keys || {}).map(([key, action]) => [canonical(action), key]));
  const taken = new Set(keys.values());
  for (const action of actions) {
    const last = words(action).toLowerCase().match(/(?:^|[^a-z])([a-z]+)$/);
    const arrow = last && ARROWS[last[1]];
    if (!arrow || taken.has(arrow) || keys.has(canonical(action))) continue;
    taken.add(arrow);
    keys.set(canonical(action), arrow);
  }
  const rest = actions.filter((action) => !keys.has(canonical(action)));
  const numbers = actions.flatMap(numbersIn);
  // Not for a digit that several have, that a longer number begins with or contains, or that is typed into a field.
  const isKey = (digit) => /^\d$/.test(digit) && !taken.has(digit) && (!numbered
    || (!fields && numbers.filter((number) => number.includes(digit)).length === 1));
  // What has no button has no place either.
  const placed = rest.filter((action) => !isShaped(action, said));
  (numbered ? rest : placed).forEach((action, index) => {
    const own = numbersIn(action);
    const digit = numbered ? own.length === 1 && own[0] : String(index + 1);
    if (isKey(digit)) keys.set(canonical(action), digit);
  });
  return keys;
}

const isOffered = (action) => offers.some((one) => canonical(one) === canonical(action));

// JSON with sorted keys: the author's actions and the legal ones may be written differently.
function canonical(value) {
  return JSON.stringify(value, (name, inner) => (inner && typeof inner === "object" && !Array.isArray(inner)
    ? Object.fromEntries(Object.entries(inner).sort(([one], [other]) => (one < other ? -1 : 1))) : inner));
}

function choices(legal) {
  offers = legal;
  if (!legal.some((action) => fits(action, chosen))) chosen = {};
  const said = spelled();
  const groups = new Map();
  for (const action of legal.filter((one) => !isShaped(one, said))) {
    const common = commonOf(action);
    if (common === null) continue;
    if (!groups.has(common)) groups.set(common, []);
    groups.get(common).push(action);
  }
  const forms = new Map([...groups].map(([common, actions]) => [common, formOf(common, actions)]).filter(([, form]) => form));
  const told = new Set(legal.filter((action) => !forms.has(commonOf(action))).map(canonical));
  // Buttons that come and go would move under the mouse.
  const all = [...new Set([...known.filter((text) => !forms.has(commonOf(JSON.parse(text)))), ...told])];
  known = all.length <= MOST_KEPT ? all : [...told];
  const actions = known.map((text) => JSON.parse(text));
  const schema = about.action_schema || {};
  numbered ??= countsOf(schema, schema).includes(1) || legal.some((action) => numbersIn(action).length === 1);
  const keys = keysOf(actions, forms.size > 0, said);
  const buttons = actions.map((action, index) => {
    const text = known[index];
    const shaped = isShaped(action, said);
    return { key: text, build: buildButton, action, legal: told.has(text), press: keys.get(text), shaped };
  });
  return [
    // What shapes do has no button to be seen; its key acts all the same.
    ...buttons.filter(({ shaped, press }) => !shaped || press !== undefined),
    ...forms.values(),
    ...keyButtons().filter(({ action }) => forms.has(commonOf(action)) && isOffered(action)),
  ];
}

// The items of a list that has a fixed length.
function listed({ prefixItems = [], items, minItems, maxItems }) {
  const rest = minItems === maxItems && items && minItems <= MOST_FIELDS ? minItems - prefixItems.length : 0;
  return [...prefixItems, ...new Array(Math.max(0, rest)).fill(items)].slice(0, MOST_FIELDS + 1);
}

// The actions of a game that does not list the legal ones: all of them if they are few, else a form.
function ofSchema(root) {
  const plain = (schema) => {
    const found = schema.$ref ? { ...(root.$defs || {})[schema.$ref.replace("#/$defs/", "")], ...schema } : schema;
    return found.const === undefined ? found : { ...found, enum: [found.const] };
  };
  const simple = (schema) => schema.enum || ["boolean", "string", "integer", "number"].includes(schema.type);
  const bounds = (schema) => {
    const { type, exclusiveMinimum: above, exclusiveMaximum: below } = schema;
    const whole = type === "integer" ? 1 : 0;
    const minimum = schema.minimum ?? (above === undefined ? undefined : above + whole);
    const maximum = schema.maximum ?? (below === undefined ? undefined : below - whole);
    return { ...schema, step: schema.multipleOf || (whole ? 1 : "any"), minimum, maximum };
  };
  const form = (fields, compose, parts) => [{ key: "form", build: buildForm, fields, compose, parts }, ...keyButtons()];
  const action = plain(root);
  if (action.enum) return choices(action.enum);
  const fields = Object.entries(action.properties || {}).map(([name, schema]) => ({ name, schema: bounds(plain(schema)) }));
  if (fields.length && fields.every(({ schema }) => simple(schema))) {
    if (fields.length === 1 && fields[0].schema.enum) return choices(fields[0].schema.enum.map((value) => ({ [fields[0].name]: value })));
    const compose = (values) => Object.fromEntries(fields.map(({ name }, index) => [name, values[index]]));
    return form(fields, compose, (given) => fields.map(({ name }) => fieldsOf(given)[name]));
  }
  const items = listed(action).map((schema, index) => ({ name: `number ${index + 1}`, schema: bounds(plain(schema)) }));
  if (items.length && items.length <= MOST_FIELDS && items.every(({ schema }) => schema.enum || ["integer", "number"].includes(schema.type))) {
    return form(items, (values) => values, (values) => values);
  }
  const label = { string: "Your words", integer: "number", number: "number" }[action.type];
  const field = { name: label || "Your action, as JSON", schema: label ? bounds(action) : {}, whole: true };
  return form([field], ([value]) => value, label && ((value) => [value]));
}

// The author's keys, where a form has no button for what they do.
function keyButtons() {
  return Object.entries(about.keys || {}).map(([press, action]) => ({ key: `key ${press}`, build: buildButton, action, legal: true, press }));
}
