let about = null;
let now = null;
let picture = "";
let ended = false;
let send = () => {};
let held = false; // whether one of the removed controls had the focus

// Show other controls. If the old ones had the focus and it has not moved elsewhere, the first new one gets it.
function place(...nodes) {
  held = held || el("controls").contains(document.activeElement);
  el("controls").replaceChildren(...nodes);
  const first = el("controls").querySelector("textarea, button");
  if (!first) return;
  if (held && document.activeElement === document.body) first.focus();
  held = false;
}

function act(action) {
  if (ended || !now || !now.your_turn) return;
  send({ type: "act", tick: now.tick, action, by: "human" });
  held = el("controls").contains(document.activeElement);
  for (const button of el("controls").querySelectorAll("button")) button.disabled = true;
}

function showChoices() {
  setNotice("");
  if (!now.your_turn) { place(); return; }
  if (now.legal) {
    place(...now.legal.map((action, number) => {
      const key = number < 9 ? [make("kbd", { "aria-hidden": "true" }, String(number + 1))] : [];
      const button = make("button", { type: "button" }, ...key, words(action));
      button.addEventListener("click", () => act(action));
      return button;
    }));
    return;
  }
  const plain = about.action_schema && about.action_schema.type === "string";
  const typed = make("textarea", { "aria-label": plain ? "Your words" : "Your action, as JSON", spellcheck: String(plain) });
  const button = make("button", { type: "button" }, "Send");
  button.addEventListener("click", () => {
    if (plain) { act(typed.value); return; }
    try { act(JSON.parse(typed.value)); } catch { act(typed.value); }
  });
  // As in a chat: Enter sends, Shift+Enter starts a new line.
  typed.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    button.click();
  });
  place(typed, button);
}

// The seat's picture and its text; what is the same in both is shown once, and what has neither as it is.
function showViews() {
  const text = now.text === undefined ? "" : now.text;
  showBoard(picture || text || JSON.stringify(now.observation, null, 2));
  const both = picture && text && text !== picture;
  el("words").hidden = !both;
  if (both) showText(el("words"), text);
}

function hear(message) {
  if (message.type === "hello") {
    about = message;
    picture = "";
    showGame(message, message.names[message.seat]);
    send({ type: "picture" });
  } else if (message.type === "picture") {
    picture = message.picture;
    if (now) showViews();
  } else if (message.type === "observe") {
    now = message;
    if (message.picture !== undefined) picture = message.picture;
    showViews();
    showSeats(about.names, message.your_turn ? [about.seat] : [], null, about.seat);
    setStatus(message.your_turn ? "Your turn" : countdown(message) || "Waiting", message.your_turn ? "turn" : "");
    showChoices();
  } else if (message.type === "refused") {
    if (now && message.tick === now.tick) { showChoices(); setNotice(message.reason); }
  } else if (message.type === "over") {
    ended = true;
    el("controls").replaceChildren();
    showSeats(about.names, [], message.scores, about.seat);
    setStatus(endings[message.reason] || message.reason);
  }
}

send = talk(socketUrl("player"), hear, (event) => {
  if (ended) return true;
  if (!event.reason.startsWith("replaced")) return false;
  ended = true;
  setStatus("Seat taken", "failed");
  setNotice("A newer connection with the same link plays on. Reload to take the seat back.");
  return true;
});

document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLTextAreaElement;
  if (typing || event.ctrlKey || event.altKey || event.metaKey || event.repeat || !now || !now.legal) return;
  const number = Number(event.key) - 1;
  if (Number.isInteger(number) && number >= 0 && number < Math.min(9, now.legal.length)) act(now.legal[number]);
});
