
const FRAME_MS = 200;
const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];
const LABELS = ["¼×", "½×", "1×", "2×", "4×", "8×"];
const board = new Board(el("board"));
let frames = [];
let at = 0;
let speed = 2;
let playing = true;
let timer = null;

// A replay holds the state after each tick; this adds the starting state.
function withStart(replay) {
  const [first] = replay.frames;
  if (!first || first.tick !== 1) return replay.frames;
  const corners = [[0, 0], [first.width - 1, first.height - 1], [0, first.height - 1], [first.width - 1, 0]];
  const start = {
    ...first, tick: 0,
    positions: first.positions.map((_, slot) => corners[slot % 4]),
    tile_owners: first.tile_owners.map(() => -1),
    scores: first.scores.map(() => 0),
  };
  return [start, ...replay.frames];
}

function open(replay) {
  frames = withStart(replay).map((frame) => (frame.player_names ? frame : { ...frame, player_names: replay.player_names }));
  if (!frames.length) {
    setStatus("failed", "Empty");
    setNotice("This replay has no frames.", "The game ended before its first tick.");
    return;
  }
  el("scrub").max = String(frames.length - 1);
  for (const id of ["scrub", "back", "play", "next", "slower", "faster"]) el(id).disabled = false;
  drawCurve();
  setNotice("");
  document.body.dataset.ticks = String(frames.length);
  show(0);
  setPlaying(true);
  follow();
}

// A link may name the tick to stop at, as `#tick=12` does.
function follow() {
  const asked = new URLSearchParams(location.hash.slice(1)).get("tick");
  if (/^\d{1,9}$/.test(asked)) step(Number(asked) - at);
}

function drawCurve() {
  const space = "http://www.w3.org/2000/svg";
  const node = (tag) => document.createElementNS(space, tag);
  const best = Math.max(1, ...frames.map((frame) => Math.max(...frame.scores)));
  const every = Math.max(1, Math.ceil(frames.length / 500));
  const span = Math.max(frames.length - 1, 1);
  const lines = frames[0].scores.map((_, slot) => {
    const points = frames.flatMap((frame, index) =>
      (index % every === 0 || index === frames.length - 1 ? [`${(100 * index) / span},${62 - (60 * frame.scores[slot]) / best}`] : []));
    const line = node("polyline");
    line.setAttribute("points", points.join(" "));
    line.style.setProperty("--colour", colourOf(slot));
    return line;
  });
  const now = node("line");
  now.id = "now";
  now.setAttribute("y1", "0");
  now.setAttribute("y2", "64");
  el("curve").replaceChildren(now, ...lines);
}

function show(index) {
  at = Math.max(0, Math.min(index, frames.length - 1));
  document.body.dataset.tick = String(at);
  const frame = frames[at];
  board.show(frame, playing ? FRAME_MS / SPEEDS[speed] : 0);
  showScores(frame);
  el("scrub").value = String(at);
  const x = String((100 * at) / Math.max(frames.length - 1, 1));
  el("now").setAttribute("x1", x);
  el("now").setAttribute("x2", x);
  el("tick").textContent = `Tick ${frame.tick} of ${frames[frames.length - 1].tick}`;
  el("seconds").textContent = at === frames.length - 1 ? verdict(frame) : "";
}

function setPlaying(value) {
  playing = value;
  el("play").textContent = playing ? "❚❚" : "▶︎";
  el("play").setAttribute("aria-label", playing ? "Pause" : "Play");
  setStatus(playing ? "running" : "paused", playing ? "Playing" : "Paused");
  clearTimeout(timer);
  if (playing) beat();
}

function beat() {
  // The last frame stays longer, so that the result can be read before the replay starts over.
  const pause = at === frames.length - 1 ? 5 * FRAME_MS : FRAME_MS;
  if (at === frames.length - 1 && parent !== window) parent.postMessage("coworld-replay-ended", "*"); // A show goes on
  timer = setTimeout(() => { show(at === frames.length - 1 ? 0 : at + 1); beat(); }, pause / SPEEDS[speed]);
}

function setSpeed(index) {
  speed = Math.max(0, Math.min(index, SPEEDS.length - 1));
  el("speed").textContent = LABELS[speed];
  el("slower").disabled = speed === 0;
  el("faster").disabled = speed === SPEEDS.length - 1;
  if (playing) { clearTimeout(timer); beat(); }
}

function step(by) {
  setPlaying(false);
  show(at + by);
}

talk("replay", {
  hear: (message) => { if (message.type === "replay" && !frames.length) open(message); },
  over: () => frames.length > 0,
  fail: (text, detail) => { setStatus("failed", "Not connected"); setNotice(text, detail); },
});

el("play").addEventListener("click", () => setPlaying(!playing));
el("back").addEventListener("click", () => step(-1));
el("next").addEventListener("click", () => step(1));
el("slower").addEventListener("click", () => setSpeed(speed - 1));
el("faster").addEventListener("click", () => setSpeed(speed + 1));
addEventListener("hashchange", () => { if (frames.length) follow(); });
el("scrub").addEventListener("input", () => { setPlaying(false); show(Number(el("scrub").value)); });

const ACTIONS = {
  " ": () => setPlaying(!playing), ArrowLeft: () => step(-1), ArrowRight: () => step(1),
  "-": () => setSpeed(speed - 1), "+": () => setSpeed(speed + 1), "=": () => setSpeed(speed + 1),
  ArrowDown: () => setSpeed(speed - 1), ArrowUp: () => setSpeed(speed + 1),
  Home: () => step(-at), End: () => step(frames.length),
};
document.addEventListener("keydown", (event) => {
  const action = ACTIONS[event.key];
  if (!action || !frames.length || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  // The space bar would also click a focused button.
  if (document.activeElement instanceof HTMLButtonElement) document.activeElement.blur();
  action();
});
