let about = null;
let now = null;
let latest = {}; // the seat's picture, and what its page is told with it
let ended = false;
let send = () => {};
let sent = null; // the last action and its tick
let next = null; // in a game of ticks, what was chosen after the action of this tick

const ticking = () => about.pace.kind === "ticks";
const acts = () => !ended && now && now.your_turn;
const acted = () => sent && sent.tick === now.tick;
const canAct = () => acts() && (ticking() || !acted());
const isOut = () => (latest.eliminated || []).includes(about.seat);

// In a game of ticks, what comes too late for one tick is meant for the next.
function act(action) {
  if (!canAct()) return;
  setNotice("");
  if (acted()) next = { action };
  else {
    sent = { tick: now.tick, action };
    send({ type: "act", tick: now.tick, action, by: "human" });
  }
  if (!ticking()) showStanding();
  showState(action);
}

function showState(action) {
  for (const control of controls.values()) control.enable(canAct(), action);
  markShapes(canAct());
  runClock(acts() && !acted());
  if (now.your_turn && ticking()) setStatus("Playing", "turn");
  else if (now.your_turn && !acted()) setStatus("Your turn", "turn");
  else setStatus(isOut() ? "You are out of the game" : countdown(now) || "Waiting");
}

const SPOKEN = 100;
const spoken = []; // what this seat has heard, and what it has said itself
let heardAt = -1;

// What was heard at once comes again with the next observation, and with one that is sent again.
function listen(heard) {
  const key = ({ tick, seat, text, to }) => JSON.stringify([tick, seat, text, to]);
  const known = spoken.map(key);
  for (const one of heard) {
    const place = known.indexOf(key(one));
    if (place < 0) spoken.push(one);
    else delete known[place];
  }
  showSpoken();
}

function showSpoken() {
  spoken.splice(0, spoken.length - SPOKEN);
  showTalk(about.names, spoken);
}

function offerTalk({ talk: limits, seat: me, names }) {
  el("speak").hidden = !limits;
  if (!limits || el("speak").firstChild) return;
  const hearers = limits.to.flatMap((kind) => {
    if (kind !== "seat") return [[kind, kind === "all" ? "To all" : "To the team"]];
    return names.map((name, seat) => [String(seat), `To ${name}`]).filter(([seat]) => seat !== String(me));
  });
  const to = make("select", { "aria-label": "To" }, ...hearers.map(([value, text]) => make("option", { value }, text)));
  const text = make("textarea", { rows: "2", "aria-label": "Message", maxlength: String(limits.length), autocomplete: "off" });
  el("speak").append(text, to, make("button", { type: "submit" }, "Say"));
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!event.repeat) el("speak").requestSubmit();
  });
  el("speak").addEventListener("submit", (event) => {
    event.preventDefault();
    if (ended || !text.value.trim()) return;
    const said = { text: text.value, to: /^\d+$/.test(to.value) ? Number(to.value) : to.value };
    send({ type: "say", ...said });
    spoken.push({ seat: me, ...said });
    text.value = "";
    showSpoken();
  });
}

function closeTalk() {
  for (const one of el("speak").elements) one.disabled = true;
  const [text] = el("speak").elements;
  if (text) text.placeholder = "The talk is over";
}

let ends = 0;
let clock = 0;

function runClock(runs) {
  clearInterval(clock);
  // It keeps its place while it does not run
  el("clock").hidden = ticking() && !ends;
  el("clock").style.visibility = runs && ends ? "" : "hidden";
  if (!runs || !ends) return;
  const show = () => {
    const left = Math.max(0, Math.ceil((ends - performance.now()) / 1000));
    setText(el("clock"), `Time left ${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`);
    el("clock").dataset.low = String(left <= 10);
  };
  show();
  clock = setInterval(show, 200);
}

function showViews() {
  const text = now.text === undefined ? "" : now.text;
  const seen = el("observation");
  showSight(latest.picture, text, now.observation);
  seen.hidden = !latest.picture && !text;
  if (seen.open) setText(seen.querySelector("pre"), JSON.stringify(now.observation, null, 2));
  showStanding();
}

function showStanding() {
  const to_act = latest.to_act || (now.your_turn ? [about.seat] : []);
  const waits = now.your_turn ? to_act : to_act.filter((seat) => seat !== about.seat);
  const done = ticking() ? [] : [...(latest.acted || []), ...(acted() ? [about.seat] : [])];
  showSeats(about.names, { ...latest, absent: now.absent, to_act: waits, acted: done }, about.seat);
}

// What this seat can do, as controls; what shapes of the picture do needs none.
function offer() {
  offers = null;
  if (isOut()) { place([]); return; }
  if (!now.your_turn) return;
  const items = now.legal ? choices(now.legal) : ofSchema(about.action_schema || {});
  place(items);
  if (!items.some(({ press }) => /^\d$/.test(press) && !(press in (about.keys || {})))) return;
  el("digits").hidden = false;
  setText(el("digits"), numbered ? "A digit chooses the action with that number." : "A digit chooses the button in that place.");
}

function showObservation(message) {
  if (now && now.tick !== message.tick && !ticking()) { setNotice(""); chosen = {}; }
  if (sent && sent.tick < message.tick) for (const control of controls.values()) if (control.clear) control.clear();
  if (message.absent || (now && now.absent)) setNotice(notHere(about.names, message));
  now = message;
  about.pace = message.pace || about.pace;
  ends = message.time_left === undefined ? 0 : performance.now() + 1000 * message.time_left;
  if (message.picture !== undefined) latest = message;
  showViews();
  if (message.tick !== heardAt) listen(message.heard || []);
  heardAt = message.tick;
  offer();
  showState();
  const late = next;
  next = null;
  if (late) act(late.action);
  else goOn();
}

function showRefusal({ tick, reason }) {
  if (!sent || !now) return;
  if (ticking() && reason.startsWith("too late")) {
    const late = next || sent;
    if (sent.tick === tick) return;
    next = tick > now.tick ? late : null;
    if (!next) act(late.action);
    return;
  }
  if (acted()) sent = null;
  showState();
  setNotice(reason);
}

function hear(message) {
  if (message.type === "hello") {
    about = message;
    latest = {};
    sent = null;
    showGame(message, message.names[message.seat]);
    offerTalk(message);
    runClock(false);
    spoken.splice(0, spoken.length, ...(message.talked || []));
    heardAt = -1;
    showSpoken();
    send({ type: "picture" });
  } else if (message.type === "picture") {
    latest = message;
    if (message.talked) spoken.splice(0, spoken.length, ...message.talked);
    showSpoken();
    if (now) { showViews(); offer(); showState(); }
  } else if (message.type === "observe") {
    showObservation(message);
  } else if (message.type === "acted") {
    if (!now || message.tick !== now.tick) return;
    latest.acted = message.acted;
    showStanding();
  } else if (message.type === "heard") {
    spoken.push(...message.heard);
    showSpoken();
  } else if (message.type === "say_refused") {
    const mine = spoken.map(({ seat }) => seat).lastIndexOf(about.seat);
    if (mine >= 0) spoken.splice(mine, 1);
    showSpoken();
    setNotice(message.reason);
  } else if (message.type === "refused") {
    showRefusal(message);
  } else if (message.type === "over") {
    ended = true;
    held.clear();
    runClock(false);
    place([]);
    markShapes(false);
    showOutcome(about.names, message, about.seat);
    closeTalk();
    offerRematch(about, Boolean(now));
    el("digits").hidden = true;
    showSeats(about.names, { ...latest, to_act: [], acted: [], ...(message.scores && { scores: message.scores }) }, about.seat);
    setStatus(endings[message.reason] || message.reason);
  }
}

send = talk(socketUrl("player"), hear, (event) => {
  if (ended) return true;
  if (!event.reason.startsWith("replaced")) return false;
  ended = true;
  setStatus("Seat taken", "failed");
  setNotice("A newer connection with the same link plays on. Reload to take the seat back.");
  return true;
});

el("observation").addEventListener("toggle", () => { if (now) showViews(); });

document.addEventListener("keydown", (event) => {
  const target = event.target;
  const shape = shapeAt(target);
  if (shape && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    if (!event.repeat || ticking()) press(shape);
    return;
  }
  if (event.key === "Escape" && Object.keys(chosen).length) { choose({}); return; }
  // A key that is held down acts again and again only where the game does not wait.
  if (event.repeat && about && !ticking()) {
    if (event.key === "Enter" && target instanceof HTMLButtonElement) event.preventDefault();
    return;
  }
  const typed = target.matches("textarea, select, input:not([type=range], [type=checkbox])");
  const moved = target.matches("input[type=range]") && /^(Arrow|Page|Home$|End$)/.test(event.key);
  if (event.ctrlKey || event.altKey || event.metaKey || !acts() || typed || moved) return;
  const pressed = byKey(event.key);
  if (pressed && !(target.matches("button, summary, input[type=checkbox]") && event.key === " ")) {
    event.preventDefault();
    if (!event.repeat) pressKey(pressed, event.code || event.key);
    return;
  }
  // A number that is typed goes into its field.
  const number = [...controls.values()].map((control) => control.number).find((input) => input);
  if (number && /^\d$/.test(event.key)) { number.focus(); number.select(); }
});
