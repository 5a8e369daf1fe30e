// Spectators need no token, so a game with secrets may keep them from seeing its present state.
function later(spectators) {
  if (spectators.kind === "hidden") return "The game is shown when it is over.";
  if (spectators.kind !== "delayed") return "";
  return `The game is shown ${spectators.ticks} ${spectators.ticks === 1 ? "tick" : "ticks"} late.`;
}

let about = null;
let last = {};
let ended = false;
let played = false; // whether it has been here before the end

talk(socketUrl("global"), (message) => {
  if (message.type === "hello") {
    about = message;
    showGame(message, "watching");
    announce(message.pace.kind !== "ticks");
    setViews(later(message.spectators));
  } else if (message.type === "state") {
    last = message;
    played = played || !message.to_act || message.to_act.length > 0;
    if (message.pace) announce(message.pace.kind !== "ticks");
    showBoard(message.drawing);
    showSeats(about.names, message);
    showTalk(about.names, message.said || []);
    setStatus(countdown(message) || `Tick ${message.tick}`);
    const slow = (message.waiting_for || []).map((seat) => about.names[seat]).join(", ");
    setNotice(slow ? `Waiting for ${slow}: nothing sent for ${Math.round(message.waited)} s.` : notHere(about.names, message));
  } else if (message.type === "over") {
    ended = true;
    setViews("");
    announce(true);
    showSeats(about.names, { ...last, to_act: [], acted: [], absent: [], ...(message.scores && { scores: message.scores }) });
    showOutcome(about.names, message);
    offerRematch(about, played);
    setNotice("");
    setStatus(endings[message.reason] || message.reason);
  }
}, () => ended);
