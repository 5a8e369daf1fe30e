
const board = new Board(el("board"));
const KEYS = {
  ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right", Space: "stay",
  KeyW: "up", KeyS: "down", KeyA: "left", KeyD: "right",
};
let held = "stay";
let last = null;
let ended = false;

function steer(move) {
  if (ended) return;
  held = move;
  for (const button of el("pad").children) button.setAttribute("aria-pressed", String(button.dataset.move === held));
  game.send({ move });
}

function show(state) {
  last = state;
  board.me = state.slot;
  board.show(state, 1000 / state.tick_rate);
  showScores(state, state.slot);
  showTime(state);
  const name = nameOf(state, state.slot);
  document.documentElement.style.setProperty("--colour", colourOf(state.slot));
  const colour = COLOURS[state.slot % 4];
  el("who").replaceChildren("You are ", make("strong", {}, name), `, painting ${colour}`);
  document.title = `${name} · Paint Arena`;
  const now = phase(state);
  setStatus(now, countdown(state) || { waiting: "Waiting for players", running: "Running", paused: "Paused", done: "Done" }[now]);
  if (countdown(state)) setNotice(countdown(state), "Everybody is here.");
  else if (now === "waiting") setNotice("Waiting for the other players", "The game starts by itself.");
  else if (now === "done") setNotice(outcome(state), "The game is over.");
  else setNotice("");
}

function outcome(state) {
  const mine = state.scores[state.slot];
  const others = state.scores.filter((_, slot) => slot !== state.slot);
  const rest = Math.max(...others, 0);
  return mine > rest ? `You win, ${mine} to ${rest}` : mine < rest ? `You lose, ${mine} to ${rest}` : `A tie, ${mine} to ${rest}`;
}

const game = talk("player", {
  hear: (message) => {
    if (message.type === "observation" || message.type === "final") show(message);
    if (message.type === "final") {
      ended = true;
      for (const button of el("pad").children) button.disabled = true;
    }
  },
  // After a lost connection the game holds the last move that it received; send the one that the buttons show.
  open: () => { if (last) game.send({ move: held }); },
  over: (event) => {
    if (ended) return true;
    if (!event.reason.startsWith("replaced")) return false;
    ended = true;
    setStatus("failed", "Seat taken");
    setNotice("Somebody else has taken this seat.", "A newer connection with the same link plays on. Reload to take it back.");
    return true;
  },
  fail: (text, detail) => { ended = true; setStatus("failed", "Not connected"); setNotice(text, detail); },
});

document.addEventListener("keydown", (event) => {
  const move = KEYS[event.code];
  if (!move || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  // The space bar would also click a focused button.
  if (document.activeElement instanceof HTMLButtonElement) document.activeElement.blur();
  if (!event.repeat) steer(move);
});
el("pad").addEventListener("pointerdown", (event) => {
  const button = event.target.closest("button");
  if (button && !button.disabled) steer(button.dataset.move);
});
// Buttons pressed by keyboard or screen reader send a click without pointer events.
el("pad").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button && event.detail === 0) steer(button.dataset.move);
});
