const STEP = 600;
const LONG = 3000; // a minute of talk is one tick, and nobody waits for it again
let head = null;
const ticks = [];
const spoken = []; // the ticks in which something was heard
const SPOKEN = 20;
let at = 0;
let speed = 1;
let playing = true;
let timer = 0;
let since = { tick: 0, time: 0 }; // where and when playing began, so that no delay adds up
let pressed = null; // the last key before there was a tick
let sought = null; // the tick to stop at that has not arrived yet
const SEATS = 256; // a stranger's replay may name any number
const NAME = 80;
const PACES = ["0.25", "0.5", "1", "2", "4", "8"];
const HELP = "Space plays and pauses, ← and → (or , and .) go one tick back and on, Home and End to the start and the end.";

const slider = make("input", { type: "range", min: "0", max: "0", value: "0", "aria-label": "Tick" });
const pause = make("button", { type: "button" }, "Pause");
const back = make("button", { type: "button" }, "Back");
const on = make("button", { type: "button" }, "Step");
const earlier = make("button", { type: "button" }, "Previous event");
const later = make("button", { type: "button" }, "Next event");
const pace = make("select", { "aria-label": "Speed" }, ...PACES.map((value) => make("option", { value }, `${value}×`)));
const loop = make("input", { type: "checkbox" });
const told = make("span", { "aria-live": "polite" }, "Copy link");
const share = make("button", { type: "button" }, told);
pace.value = "1";
const scores = make("figure", { hidden: "" });
const expected = make("figure", { hidden: "" });
let chances = null; // what continuations of the game have told, in a page that has it
const marks = make("div", { id: "marks", role: "group", "aria-label": "Events" });
const looping = make("label", { class: "check" }, loop, "Loop");
el("controls").append(make("div", { id: "timeline" }, scores, expected, slider, marks), pause, back, on, earlier, later, pace, looping, eyes, share, make("p", { id: "keys" }, HELP));
// What is said of a tick stands below, so that it moves nothing that is clicked.
el("sight").after(el("controls"));
document.body.classList.add("replay");
let events = [];
let laidOut = 0;

function show(tick) {
  at = Math.max(0, Math.min(tick, ticks.length - 1));
  const seen = ticks[at];
  const last = at === head.count - 1;
  const view = seenAt(at, seen, () => show(at));
  if (view) {
    showSight(view.drawing, view.text, view.observation);
    setViews(view.why);
    showSeats(head.header.names, last && head.results ? { ...view, scores: head.results.scores } : view);
    showTalk(head.header.names, spoken.filter((heard) => heard <= at).flatMap((heard) => saidAt(heard, ticks[heard])).slice(-SPOKEN));
    if (!view.waits) document.body.dataset.tick = String(at);
  }
  keepPlaces();
  slider.max = String(ticks.length - 1);
  slider.value = String(at);
  slider.setAttribute("aria-valuetext", `tick ${seen.tick} of ${ticks[ticks.length - 1].tick}`);
  setStatus(last ? endings[head.reason] || head.reason || "The end" : `Tick ${seen.tick}`);
  const by = seen.by || {};
  const actor = (seat) => head.header.names[seat] + (by[seat] ? ` (${by[seat]})` : "");
  const done = Object.entries(doneAt(seen)).map(([seat, action]) => `${actor(seat)}: ${action === null ? "no action" : words(action)}`);
  setText(el("notice"), done.join(" · ").slice(0, 1000));
  el("notice").hidden = false;
  el("notice").style.visibility = done.length ? "" : "hidden";
}

// Nothing moves from tick to tick: what has needed room keeps it.
function keepPlaces() {
  const board = el("board");
  board.style.minHeight = `${Math.max(parseFloat(board.style.minHeight) || 0, Math.ceil(board.getBoundingClientRect().height))}px`;
  el("talk").style.visibility = el("talk").hidden ? "hidden" : "";
  el("talk").hidden = !spoken.length;
  for (const figure of [scores, expected]) moveNow(figure, at / Math.max(ticks.length - 1, 1));
  earlier.disabled = !events.some((event) => event.at < at);
  later.disabled = !events.some((event) => event.at > at);
}

// Not for each piece of a long replay: only when it is complete, or twice as long as the last time.
function layOut() {
  if (ticks.length < head.count && ticks.length < 2 * laidOut) return;
  laidOut = ticks.length;
  const score = (place, seat) => ((place === head.count - 1 && head.results && head.results.scores) || ticks[place].scores || [])[seat];
  const heard = spoken.flatMap((place) => saidAt(place, ticks[place]).map((said) => [place, said]));
  events = findEvents(ticks, head.header.names, heard, score);
  const live = ticks.some((seen) => seen.scores);
  const series = live ? head.header.names.map((name, seat) => ({ name, value: (place) => score(place, seat) })) : [];
  drawCurves(scores, "Scores", series, ticks.length);
  if (chances && ticks.length === head.count) {
    drawCurves(expected, "Share of the points to expect", expectations(chances.curve, head.header.names), ticks.length, [0, 1]);
    const costs = (chances.moves || []).filter(({ tick, slot }) => ticks[tick] && head.header.names[slot]);
    events = [...events, ...costs.map(({ tick, slot, action, cost, certain }) => {
      const lost = `cost ${Math.round(100 * cost)} % of the points${certain ? "" : ", perhaps"}`;
      return { at: tick, kind: "cost", text: `${head.header.names[slot]}: ${words(action).slice(0, 200)} ${lost}` };
    })].sort((one, other) => one.at - other.at);
  }
  for (const node of [marks, earlier, later]) node.hidden = !events.length;
  showMarks(marks, events, ticks.length, () => at, hold);
}

function go() {
  clearTimeout(timer);
  pause.textContent = playing ? "Pause" : "Play";
  announce(!playing);
  el("notice").ariaLive = playing ? "off" : "assertive";
  since = { tick: at, time: performance.now() };
  if (playing) run();
}

// A game with ticks has its own pace, at which several may be due at once; in one that waits, each move takes a moment.
function run() {
  const { hz } = ticks[at].pace || head.pace || {};
  const period = (hz ? Math.min(1000 / hz, LONG) : STEP) / speed;
  if (since.period !== period) since = { tick: at, time: performance.now(), period };
  if (at >= ticks.length - 1) {
    const more = ticks.length < head.count; // is on its way
    if (!more && parent !== window) parent.postMessage("coworld-replay-ended", "*"); // A show goes on to the next
    if (more) timer = setTimeout(go, STEP);
    else if (loop.checked) timer = setTimeout(() => { show(0); go(); }, (3 * STEP) / speed);
    else hold(at);
    return;
  }
  const due = since.time + (at + 1 - since.tick) * period;
  timer = setTimeout(() => {
    show(Math.max(at + 1, since.tick + Math.floor((performance.now() - since.time) / period)));
    run();
  }, Math.max(due - performance.now(), 1000 / 60));
}

// Stop at a tick; if it has not arrived yet, as soon as it has.
function hold(tick) {
  playing = false;
  show(tick);
  sought = tick > at && ticks.length < head.count ? tick : null;
  go();
}

// What a link asks for, as in `#tick=12&eye=0&pace=2`. What is not valid is ignored, and other keys are kept.
const fragment = () => new URLSearchParams(location.hash.slice(1));

function follow() {
  const asked = fragment();
  if (PACES.includes(asked.get("pace"))) { pace.value = asked.get("pace"); speed = Number(pace.value); }
  lookAsLinked();
  const tick = asked.get("tick");
  if (/^\d{1,9}$/.test(tick)) hold(Number(tick));
  else { show(at); go(); }
}

pause.addEventListener("click", () => {
  playing = !playing;
  sought = null;
  if (playing && at === head.count - 1) show(0);
  go();
});
back.addEventListener("click", () => hold(at - 1));
on.addEventListener("click", () => hold(at + 1));
earlier.addEventListener("click", () => hold(events.findLast((event) => event.at < at).at));
later.addEventListener("click", () => hold(events.find((event) => event.at > at).at));
slider.addEventListener("input", () => hold(Number(slider.value)));
pace.addEventListener("change", () => { speed = Number(pace.value); go(); });
eyes.addEventListener("change", () => { laidOut = 0; layOut(); show(at); });
share.addEventListener("click", async () => {
  const asked = fragment();
  asked.set("tick", String(at));
  asked.set("pace", pace.value);
  if (!eyes.hidden) asked.set("eye", eyes.value);
  const link = `${location.href.split("#")[0]}#${asked}`;
  try {
    history.replaceState(null, "", link);
    await navigator.clipboard.writeText(link);
    setText(told, "Copied");
  } catch {
    setText(told, "See address");
  }
  setTimeout(() => setText(told, "Copy link"), 3000);
});
const KEYS = { ArrowLeft: () => at - 1, ",": () => at - 1, ArrowRight: () => at + 1, ".": () => at + 1, Home: () => 0, End: () => head.count - 1 };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target instanceof HTMLSelectElement) return;
  if (!ticks.length) { pressed = event.key; return; }
  if (event.key === " " && !(event.target instanceof HTMLButtonElement) && event.target !== loop) { event.preventDefault(); pause.click(); }
  if (!(event.key in KEYS)) return;
  event.preventDefault();
  hold(KEYS[event.key]());
});
addEventListener("hashchange", () => { if (ticks.length) follow(); });
addEventListener("resize", () => {
  el("board").style.minHeight = "";
  if (ticks.length) showMarks(marks, events, ticks.length, () => at, hold);
});

let started = false;
askServer = talk(socketUrl("replay"), (message) => {
  if (message.type === "replay") {
    head = message;
    head.header.names = head.header.names.slice(0, SEATS).map((name) => name.slice(0, NAME));
    ticks.length = spoken.length = laidOut = 0;
    offerEyes(head);
    showGame(message.header, "replay", message.about);
    document.body.dataset.ticks = String(head.count);
    if (!head.count) setStatus("This replay has no ticks", "failed");
  }
  if (message.type === "eye") { hearEye(message); if (started) show(at); }
  if (message.type === "chances" && head) {
    chances = message;
    laidOut = 0;
    layOut();
    show(at);
  }
  if (message.type !== "ticks") return;
  message.ticks.forEach((seen, place) => { if ((seen.said || []).length) spoken.push(ticks.length + place); });
  ticks.push(...message.ticks);
  layOut();
  if (!started) {
    follow();
    if (pressed in KEYS) hold(KEYS[pressed]());
  } else if (sought !== null) hold(sought);
  else show(at);
  started = true;
}, () => started && ticks.length >= head.count);
