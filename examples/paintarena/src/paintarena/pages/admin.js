
const board = new Board(el("board"));
let done = false;
let touched = false;

const game = talk("admin", {
  hear: (state) => {
    if (state.type === "error") { el("answer").textContent = state.message; return; }
    if (state.type !== "state") return;
    done = state.done;
    board.show(state, 1000 / state.tick_rate);
    showScores(state);
    showTime(state);
    const now = phase(state);
    setStatus(now, { waiting: "Waiting for players", running: "Running", paused: "Paused", done: "Done" }[now]);
    setNotice(now === "done" ? verdict(state) : "", "The game is over.");
    el("pause").disabled = done || state.paused;
    el("resume").disabled = done || !state.paused;
    if (!touched) el("ticks").value = String(state.tick_rate);
  },
  over: () => done,
  fail: (text, detail) => { setStatus("failed", "Not connected"); setNotice(text, detail); },
});

function command(value) {
  el("answer").textContent = "";
  game.send(value);
}
el("pause").addEventListener("click", () => command({ command: "pause" }));
el("resume").addEventListener("click", () => command({ command: "resume" }));
el("ticks").addEventListener("input", () => { touched = true; });
el("rate").addEventListener("submit", (event) => {
  event.preventDefault();
  touched = false;
  command({ command: "tick_rate", tick_rate: el("ticks").valueAsNumber });
});
