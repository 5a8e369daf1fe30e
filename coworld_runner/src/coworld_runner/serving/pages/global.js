let about = null;
let ended = false;

talk(socketUrl("global"), (message) => {
  if (message.type === "hello") {
    about = message;
    showGame(message, "watching");
  } else if (message.type === "state") {
    showBoard(message.drawing);
    showSeats(about.names, message.to_act);
    setStatus(countdown(message) || `Tick ${message.tick}`);
    const slow = (message.waiting_for || []).map((seat) => about.names[seat]).join(", ");
    setNotice(slow && `Waiting for ${slow}: nothing sent for ${Math.round(message.waited)} s.`);
  } else if (message.type === "over") {
    ended = true;
    showSeats(about.names, [], message.scores);
    setStatus(endings[message.reason] || message.reason);
  }
}, () => ended);
