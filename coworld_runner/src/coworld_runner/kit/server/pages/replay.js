const STEP = 600;
let head = null;
const ticks = [];
const spoken = []; // what was said, each with the number of the tick in which it was heard
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
const eyes = make("select", { "aria-label": "Seen by" });
pace.value = "1";
el("controls").append(pause, back, on, slider, pace, eyes, share);

// A seat is drawn only while a page shows it, so some views may be missing, and a game may have none at all.
const recorded = new Set();
const drawn = (seen, seat) => (seen.drawings || {})[seat];

function offerEyes() {
  eyes.hidden = !head.header.draws_seats;
  const seats = head.header.names.map((name, seat) => {
    const option = make("option", { value: String(seat) }, recorded.has(String(seat)) ? name : `${name} (not recorded)`);
    option.disabled = !recorded.has(String(seat));
    return option;
  });
  const chosen = eyes.value;
  eyes.replaceChildren(make("option", { value: "" }, "Spectators"), ...seats);
  eyes.value = recorded.has(chosen) ? chosen : "";
}

function showSeen(seen) {
  const view = eyes.value === "" ? seen.drawing : drawn(seen, eyes.value);
  showBoard(view || "");
  const missing = recorded.size < head.header.names.length;
  if (view === undefined) setViews(`What ${head.header.names[eyes.value]} saw at this tick was not recorded.`);
  else setViews(head.header.draws_seats && missing ? "What a seat saw is recorded only while a page shows it." : "");
}

function show(tick) {
  at = Math.max(0, Math.min(tick, ticks.length - 1));
  const seen = ticks[at];
  const last = at === head.count - 1;
  showSeen(seen);
  showSeats(head.header.names, last && head.results ? { ...seen, scores: head.results.scores } : seen);
  showTalk(head.header.names, spoken.filter(([heard]) => heard <= at).slice(-SPOKEN).map(([, said]) => said));
  slider.max = String(ticks.length - 1);
  slider.value = String(at);
  slider.setAttribute("aria-valuetext", `tick ${seen.tick} of ${ticks[ticks.length - 1].tick}`);
  setStatus(last ? endings[head.reason] || head.reason || "The end" : `Tick ${seen.tick}`);
  const by = seen.by || {};
  const actor = (seat) => head.header.names[seat] + (by[seat] ? ` (${by[seat]})` : "");
  const done = Object.entries(seen.actions).map(([seat, action]) => `${actor(seat)}: ${action === null ? "no action" : words(action)}`);
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
share.addEventListener("click", () => {
  location.hash = `tick=${at}`;
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
talk(socketUrl("replay"), (message) => {
  if (message.type === "replay") { head = message; ticks.length = spoken.length = 0; recorded.clear(); showGame(message.header, "replay", message.about); }
  if (message.type !== "ticks") return;
  message.ticks.forEach((seen, place) => (seen.said || []).forEach((said) => spoken.push([ticks.length + place, said])));
  ticks.push(...message.ticks);
  for (const seen of message.ticks) for (const seat of Object.keys(seen.drawings || {})) recorded.add(seat);
  offerEyes();
  if (!started) {
    started = true;
    const asked = location.hash.match(/^#tick=(\d+)$/);
    playing = !asked;
    show(asked ? Number(asked[1]) : 0);
    go();
  } else show(at);
}, () => started && ticks.length >= head.count);
