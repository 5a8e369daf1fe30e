// Spectators need no token, so a game with secrets may keep them from seeing its present state.
function later(spectators) {
  if (spectators.kind === "hidden") return "The game is shown when it is over.";
  if (spectators.kind !== "delayed") return "";
  return `The game is shown ${spectators.ticks} ${spectators.ticks === 1 ? "tick" : "ticks"} late.`;
}

let about = null;
let ended = false;

talk(socketUrl("global"), (message) => {
  if (message.type === "hello") {
    about = message;
    showGame(message, "watching");
    setViews(later(message.spectators));
  } else if (message.type === "state") {
    showBoard(message.drawing);
    showSeats(about.names, message.to_act);
    setStatus(countdown(message) || `Tick ${message.tick}`);
    const slow = (message.waiting_for || []).map((seat) => about.names[seat]).join(", ");
    setNotice(slow && `Waiting for ${slow}: nothing sent for ${Math.round(message.waited)} s.`);
  } else if (message.type === "over") {
    ended = true;
    setViews("");
    showSeats(about.names, [], message.scores);
    setStatus(endings[message.reason] || message.reason);
  }
}, () => ended);
