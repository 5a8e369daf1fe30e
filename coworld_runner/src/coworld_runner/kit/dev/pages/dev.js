const states = { starting: "Starting", playing: "Playing", over: "Over", failed: "Failed" };
const delays = [[0, "no delay"], [0.5, "0.5 s late"], [2, "2 s late"], [10, "10 s late"]];
const seats = [];
let send = () => {};

// Replace a frame instead of changing its address, which would fill the browser's history.
function showFrame(holder, url, title, looking) {
  if (holder.dataset.url !== (url || "")) {
    holder.dataset.url = url || "";
    const old = holder.querySelector("iframe");
    const next = url ? make("iframe", { src: url, title }) : null;
    if (old) old.remove();
    if (next) holder.append(next);
  }
  const frame = holder.querySelector("iframe");
  if (frame) frame.inert = looking;
}

function showChoices(select, pairs, chosen) {
  const now = JSON.stringify(pairs);
  if (select.dataset.pairs !== now) {
    select.dataset.pairs = now;
    select.replaceChildren(...pairs.map(([value, text]) => make("option", { value: String(value) }, text)));
  }
  select.value = String(chosen);
}

function makeSeat(slot) {
  const seat = {
    name: make("h2"),
    swap: make("button", { type: "button" }),
    who: make("select", { "aria-label": `Player in seat ${slot}` }),
    mute: make("input", { type: "checkbox" }),
    late: make("select", { "aria-label": `Delay of messages from seat ${slot}` }),
    drop: make("button", { type: "button", title: "Cut the connection, as a network failure would" }, "Drop"),
    says: make("span", { class: "says" }),
  };
  seat.node = make("section", { "aria-label": `Seat ${slot}`, "data-seat": String(slot) },
    make("div", { class: "row" }, seat.name, seat.says),
    make("div", { class: "row" }, seat.who, seat.swap),
    make("div", { class: "row faults" }, make("label", {}, seat.mute, " Mute"), seat.late, seat.drop));
  seat.swap.addEventListener("click", () => send({ do: "sit", slot, who: seat.swap.dataset.who }));
  seat.who.addEventListener("change", () => send({ do: "sit", slot, who: seat.who.value }));
  seat.mute.addEventListener("change", () => send({ do: "mute", slot, on: seat.mute.checked }));
  seat.late.addEventListener("change", () => send({ do: "late", slot, seconds: Number(seat.late.value) }));
  seat.drop.addEventListener("click", () => send({ do: "drop", slot }));
  el("views").append(seat.node);
  return seat;
}

function named(who) {
  return who === "human" ? "A person" : who.replace(/^.*\//, "");
}

function showSeat(slot, now, scores) {
  const seat = seats[slot] || (seats[slot] = makeSeat(slot));
  const person = now.who === "human";
  seat.name.textContent = `${slot} · ${now.name}`;
  seat.says.textContent = scores ? `scores ${scores[slot]}` : person ? "" : now.status;
  seat.swap.textContent = person ? "Hand back" : "Take over";
  seat.swap.title = person ? `to ${named(now.bot)}` : "";
  seat.swap.dataset.who = person ? now.bot : "human";
  seat.mute.checked = now.muted;
  showChoices(seat.late, delays, now.late);
  showFrame(seat.node, now.page, `Seat ${slot}`, !person);
}

function showState(state) {
  el("game").textContent = state.name || "coworld dev";
  document.title = `${state.name} · dev`;
  setStatus(states[state.status], state.status);
  setNotice("");
  showChoices(el("variant"), state.variants.map((variant) => [variant.id, variant.name]), state.variant);
  el("variant-label").hidden = state.variants.length < 2;
  el("reseed").hidden = state.seed === null;
  el("seed").textContent = state.seed === null ? "" : `seed ${state.seed}`;
  el("problem").hidden = !state.problem;
  if (state.problem) {
    el("place").textContent = state.problem.place;
    el("what").textContent = state.problem.text;
    el("detail").textContent = state.problem.detail;
  }
  // Keep the last game visible while the next one starts.
  if (state.status === "starting") return;
  showFrame(el("viewer"), state.viewer, "Spectators", false);
  for (const seat of seats.splice(state.seats.length)) seat.node.remove();
  state.seats.forEach((seat, slot) => showSeat(slot, seat, state.scores));
  state.seats.forEach((seat, slot) => showChoices(seats[slot].who, state.choices.map((who) => [who, named(who)]), seat.who));
}

function showLine(line) {
  const log = el("log");
  const end = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  log.append(make("li", { "data-who": line.who }, make("b", {}, line.who), line.text));
  while (log.childElementCount > 1000) log.firstChild.remove();
  if (end) log.scrollTop = log.scrollHeight;
}

el("restart").addEventListener("click", () => send({ do: "restart", new_seed: false }));
el("reseed").addEventListener("click", () => send({ do: "restart", new_seed: true }));
el("variant").addEventListener("change", () => send({ do: "variant", id: el("variant").value }));

const url = new URL("socket", location.href);
url.protocol = "ws:";
let stale = false;
send = talk(url, (message) => {
  // A new connection receives the whole log again; keep the old lines until then.
  if (stale) el("log").replaceChildren();
  stale = false;
  if (message.type === "state") showState(message);
  else showLine(message);
}, () => { stale = true; return false; });
