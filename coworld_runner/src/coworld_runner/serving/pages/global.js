let about = null;
let ended = false;

talk(socketUrl("global"), (message) => {
  if (message.type === "hello") {
    about = message;
    showGame(message, "watching");
  } else if (message.type === "state") {
    showBoard(message.drawing);
    showSeats(about.names, message.to_act);
    setStatus(`Tick ${message.tick}`);
  } else if (message.type === "over") {
    ended = true;
    showSeats(about.names, [], message.scores);
    setStatus(endings[message.reason] || message.reason);
  }
}, () => ended);
