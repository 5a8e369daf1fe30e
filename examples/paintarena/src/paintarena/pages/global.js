
const board = new Board(el("board"));
let done = false;

talk("global", {
  hear: (state) => {
    if (state.type !== "state") return;
    done = state.done;
    board.show(state, 1000 / state.tick_rate);
    showScores(state);
    showTime(state);
    const now = phase(state);
    setStatus(now, countdown(state) || { waiting: "Waiting for players", running: "Running", paused: "Paused", done: "Done" }[now]);
    if (countdown(state)) setNotice(countdown(state), "Everybody is here.");
    else if (now === "waiting") setNotice("Waiting for players", "The game starts when everybody is here.");
    else if (now === "done") setNotice(verdict(state), "The game is over.");
    else setNotice("");
  },
  over: () => done,
  fail: (text, detail) => { setStatus("failed", "Not connected"); setNotice(text, detail); },
});
