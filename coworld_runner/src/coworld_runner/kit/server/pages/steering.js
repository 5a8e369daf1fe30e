// What is held down in a game of ticks: keys, buttons, the pad, a gamepad's stick. There, a form that has no text is sent
// as it changes, at most once a tick. Where silence is the default (`hold` is false), what is held down is done again in
// each tick, and what is let go returns to where it began; otherwise the game itself repeats the last action.
const PAD_STEPS = 200;
const ARROW_STEPS = 10;
const DEAD = 0.15; // a stick is never quite in the middle
const CROSS = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"]; // a gamepad's buttons from 12 on
const held = new Map(); // by what holds it: the action, the newest last

const forgets = () => ticking() && about.pace.hold === false;

// The form that is sent as it changes, or null; of a control, whether it is that.
function steered(control) {
  if (!ticking() || !now || now.legal) return null;
  return control ? control.steers : [...controls.values()].find((one) => one.steers) || null;
}

function hold(by, action) {
  held.delete(by);
  held.set(by, action);
  const form = steered();
  if (form) form.steer(action);
  else act(action);
}

function letGo(by) {
  const action = held.get(by);
  if (!held.delete(by) || !forgets()) return;
  const form = steered();
  if (form) form.release(action, [...held.values()]);
}

// A new tick, for which nothing has been chosen.
function goOn() {
  if (!forgets()) return;
  const form = steered();
  const [newest] = [...held.values()].slice(-1);
  if (form) form.goOn();
  else if (newest !== undefined && (!offers || isOffered(newest))) act(newest);
}

const byKey = (key) => [...controls.values()].find(({ node }) => (node.ariaKeyShortcuts || "").toLowerCase() === (key === " " ? "space" : key.toLowerCase()));

function pressKey(control, by) {
  if (ticking()) control.hold(by);
  else control.node.click();
}

// A pair of numbers as a pad, for mouse, finger, pen and arrows: right and up are more. `fields` have a `name`, a `range`,
// a `value()` and their `index` in the action; `form` enters values and makes an action of them.
function buildPad(fields, form) {
  const dot = make("span");
  const node = make("div", { class: "pad", role: "slider", tabindex: "0", "aria-label": fields.map(({ name }) => name).join(" and "),
    "data-axes": `→ ${fields[0].name}  ↑ ${fields[1].name}`, "aria-valuemin": String(fields[0].range[0]), "aria-valuemax": String(fields[0].range[1]) }, dot);
  const filled = (pair) => {
    const given = [];
    fields.forEach(({ index }, which) => { given[index] = pair[which]; });
    return Array.from(given);
  };
  const rounded = (value, [least, most]) => {
    const step = Math.round((Math.min(Math.max(value, least), most) - least) / (most - least) * PAD_STEPS);
    return Number((least + step * (most - least) / PAD_STEPS).toPrecision(6));
  };
  const move = (by, pair) => {
    const given = filled(pair.map((value, which) => rounded(value, fields[which].range)));
    if (steered()) hold(by, form.action(given));
    else form.enter(given);
  };
  const follow = ({ clientX, clientY }) => {
    const { left, bottom, width, height } = node.getBoundingClientRect();
    const edge = dot.offsetWidth / 2;
    const shares = [(clientX - left - edge) / (width - 2 * edge), (bottom - edge - clientY) / (height - 2 * edge)];
    move("pad", fields.map(({ range: [least, most] }, which) => least + shares[which] * (most - least)));
  };
  node.addEventListener("pointerdown", (event) => {
    if (event.button || !canAct()) return;
    node.setPointerCapture(event.pointerId);
    follow(event);
  });
  node.addEventListener("pointermove", (event) => { if (node.hasPointerCapture(event.pointerId)) follow(event); });
  node.addEventListener("lostpointercapture", () => letGo("pad"));
  node.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!canAct() || event.ctrlKey || event.altKey || event.metaKey || (!steps && event.key !== "Home")) return;
    event.preventDefault();
    event.stopPropagation();
    const home = fields.map(({ index }) => form.rest()[index]);
    move("arrows", steps ? fields.map(({ value, range: [least, most] }, which) => value() + steps[which] * (most - least) / ARROW_STEPS) : home);
    held.delete("arrows"); // like a slider, it stays there
  });
  return {
    node,
    show() {
      const [x, y] = fields.map(({ value, range: [least, most] }) => (value() - least) / (most - least));
      dot.style.left = `calc(${x} * (100% - 1.5rem))`;
      dot.style.bottom = `calc(${y} * (100% - 1.5rem))`;
      node.setAttribute("aria-valuenow", String(fields[0].value()));
      node.setAttribute("aria-valuetext", fields.map(({ name, value }) => `${name} ${value()}`).join(", "));
    },
    // Its stick, from -1 to 1: in the middle, both have the values with which they began.
    stick(axes) {
      move("stick", fields.map(({ index, range: [least, most] }, which) => {
        const middle = form.rest()[index];
        return middle + axes[which] * (axes[which] > 0 ? most - middle : middle - least);
      }));
    },
  };
}

// A gamepad, if there is one: the stick is the pad, the cross has the arrows, the other buttons the author's other keys.
let stood = "0.00,0.00";
const pressing = new Set();
function readGamepad() {
  const gamepad = [...navigator.getGamepads()].find((one) => one);
  if (!gamepad || ended) return;
  requestAnimationFrame(readGamepad);
  if (!about || !acts()) return;
  const others = Object.keys(about.keys || {}).filter((key) => !CROSS.includes(key));
  gamepad.buttons.forEach(({ pressed }, index) => {
    const by = `gamepad ${index}`;
    const control = byKey((index < 12 ? others[index] : CROSS[index - 12]) || "none");
    if (pressed && control && !pressing.has(by)) pressKey(control, by);
    if (pressed) pressing.add(by);
    else if (pressing.delete(by)) letGo(by);
  });
  const form = steered();
  const axes = [gamepad.axes[0] || 0, -(gamepad.axes[1] || 0)].map((axis) => (Math.abs(axis) < DEAD ? 0 : axis));
  const stands = axes.map((axis) => axis.toFixed(2)).join();
  if (!form || !form.stick || stands === stood) return;
  stood = stands;
  form.stick(axes);
  if (!axes.some((axis) => axis)) letGo("stick");
}

window.addEventListener("gamepadconnected", readGamepad);
window.addEventListener("blur", () => { for (const by of [...held.keys()]) letGo(by); });
document.addEventListener("keyup", (event) => letGo(event.code || event.key));
