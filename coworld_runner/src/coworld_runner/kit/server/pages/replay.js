const STEP = 600;
let head = null;
const ticks = [];
const spoken = []; // the ticks in which something was heard
const SPOKEN = 20;
let at = 0;
let speed = 1;
let playing = true;
let timer = 0;
let since = { tick: 0, time: 0 }; // where and when playing began, so that no delay adds up

const slider = make("input", { type: "range", min: "0", max: "0", value: "0", "aria-label": "Tick" });
const pause = make("button", { type: "button" }, "Pause");
const back = make("button", { type: "button" }, "Back");
const on = make("button", { type: "button" }, "Step");
const pace = make("select", { "aria-label": "Speed" }, ...[0.25, 0.5, 1, 2, 4, 8].map((value) => make("option", { value: String(value) }, `${value}×`)));
const share = make("button", { type: "button" }, "Copy link");
pace.value = "1";
el("controls").append(pause, back, on, slider, pace, eyes, share);

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
  }
  slider.max = String(ticks.length - 1);
  slider.value = String(at);
  slider.setAttribute("aria-valuetext", `tick ${seen.tick} of ${ticks[ticks.length - 1].tick}`);
  setStatus(last ? endings[head.reason] || head.reason || "The end" : `Tick ${seen.tick}`);
  const by = seen.by || {};
  const actor = (seat) => head.header.names[seat] + (by[seat] ? ` (${by[seat]})` : "");
  const done = Object.entries(doneAt(seen)).map(([seat, action]) => `${actor(seat)}: ${action === null ? "no action" : words(action)}`);
  setNotice(done.join(" · "));
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
  const period = (hz ? 1000 / hz : STEP) / speed;
  if (since.period !== period) since = { tick: at, time: performance.now(), period };
  // Pause briefly at the end, then start again.
  if (at >= ticks.length - 1) { timer = setTimeout(() => { show(0); go(); }, (3 * STEP) / speed); return; }
  const due = since.time + (at + 1 - since.tick) * period;
  timer = setTimeout(() => {
    show(Math.max(at + 1, since.tick + Math.floor((performance.now() - since.time) / period)));
    run();
  }, Math.max(due - performance.now(), 1000 / 60));
}

function hold(tick) { playing = false; show(tick); go(); }

pause.addEventListener("click", () => { playing = !playing; go(); });
back.addEventListener("click", () => hold(at - 1));
on.addEventListener("click", () => hold(at + 1));
slider.addEventListener("input", () => hold(Number(slider.value)));
pace.addEventListener("change", () => { speed = Number(pace.value); go(); });
eyes.addEventListener("change", () => show(at));
window.addEventListener("hashchange", () => { lookAsLinked(); if (ticks.length) show(at); });
share.addEventListener("click", () => {
  location.hash = `tick=${at}&eye=${eyes.value}`;
  if (navigator.clipboard) navigator.clipboard.writeText(location.href).catch(() => {});
});
document.addEventListener("keydown", (event) => {
  if (!ticks.length || event.ctrlKey || event.altKey || event.metaKey || event.target instanceof HTMLSelectElement) return;
  if (event.key === " " && !(event.target instanceof HTMLButtonElement)) { event.preventDefault(); pause.click(); }
  if (event.target === slider) return;
  if (event.key === "ArrowLeft") hold(at - 1);
  if (event.key === "ArrowRight") hold(at + 1);
});

let started = false;
askServer = talk(socketUrl("replay"), (message) => {
  if (message.type === "replay") { head = message; ticks.length = spoken.length = 0; offerEyes(head); showGame(message.header, "replay", message.about); }
  if (message.type === "eye") { hearEye(message); if (started) show(at); }
  if (message.type !== "ticks") return;
  message.ticks.forEach((seen, place) => { if ((seen.said || []).length) spoken.push(ticks.length + place); });
  ticks.push(...message.ticks);
  if (!started) {
    started = true;
    const asked = linked("tick");
    playing = !asked;
    show(Number(asked) || 0);
    go();
  } else show(at);
}, () => started && ticks.length >= head.count);
