"use strict";
// Shared by all pages. Names and drawings come from strangers: text is only ever set as text, pictures are copied by a list.
const el = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// The value of `?address=`, or the page's own address with `/client/<page>` replaced by `/<page>`, which keeps a path
// prefix, a suffix and the whole query.
function socketUrl(page) {
  const address = new URLSearchParams(location.search).get("address");
  const url = new URL(address || location.href, location.href);
  if (!address) url.pathname = url.pathname.replace(new RegExp(`/clients?/${page}(?=/|$)`), `/${page}`);
  url.protocol = url.protocol.replace(/^http/, "ws");
  url.hash = "";
  return url;
}

// Only a change touches the page: what has the focus, is selected or is being read out stays as it is.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setStatus(text, status = "") {
  setText(el("status"), text);
  el("status").dataset.status = status;
}

// What is shown here, and what is not.
function setViews(text) {
  setText(el("views"), text);
  el("views").hidden = !text;
}

function setNotice(text) {
  setText(el("notice"), text);
  el("notice").hidden = !text;
}

// All players are connected and the game is about to start; the game sends the remaining time every second.
const countdown = (message) => (message.starts_in ? `Starts in ${Math.ceil(message.starts_in)}` : "");

// Keep a socket open until `over()`; after several failed attempts the page reports it.
function talk(url, hear, over) {
  let socket = null;
  let tries = 0;
  const dial = () => {
    try {
      socket = new WebSocket(url);
    } catch {
      setStatus("This is not the address of a game", "failed");
      return;
    }
    socket.onmessage = (event) => { tries = 0; hear(JSON.parse(event.data)); };
    socket.onclose = (event) => {
      if (over(event)) return;
      tries += 1;
      if (tries > 6) { setStatus("Not connected", "failed"); setNotice("The game does not answer. The link may be wrong, or the game over."); return; }
      setStatus("Connecting");
      setTimeout(dial, Math.min(250 * 2 ** tries, 4000));
    };
  };
  dial();
  return (value) => { if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(value)); };
}

// Screen readers are not told of every tick.
function announce(on) {
  el("status").ariaLive = on ? "polite" : "off";
}

function showGame(about, page, rules = about.about) {
  el("game").textContent = about.game || about.rules;
  document.title = `${about.game || about.rules} · ${page}`;
  el("rules").hidden = !rules;
  setText(el("rules").querySelector("p"), rules || "");
}

function showText(place, text) {
  if (!place.querySelector("pre")) place.replaceChildren(make("pre"));
  setText(place.querySelector("pre"), text);
}

function showBoard(drawing) {
  if (!drawing.trimStart().startsWith("<svg")) { showText(el("board"), drawing); return; }
  const older = el("board").querySelector("svg");
  const root = picture(drawing, older);
  if (!root) showText(el("board"), "This picture cannot be shown: it is too large, or not well-formed.");
  else if (root !== older) el("board").replaceChildren(root);
}

// What a seat sees, its picture and its text; what is the same in both is shown once, and what has neither as it is.
function showSight(drawing, text, observation) {
  showBoard(drawing || text || (observation === undefined ? "" : JSON.stringify(observation, null, 2)));
  el("board").className = drawing ? "" : "prose";
  const both = drawing && text && text !== drawing;
  el("words").hidden = !both;
  if (both) showText(el("words"), text);
  else el("words").replaceChildren();
}

// The seats with their scores; `to_act` and `eliminated` are seats, as in the messages of the game, `known` what else is public.
function showSeats(names, { to_act = [], scores, eliminated = [], known }, me = null) {
  const list = el("seats");
  while (list.childElementCount > names.length) list.lastChild.remove();
  names.forEach((name, seat) => {
    const row = list.children[seat] || list.appendChild(make("li", { "data-seat": String(seat) }, make("span"), make("span")));
    const acts = to_act.includes(seat);
    const out = eliminated.includes(seat);
    const says = [out ? "out" : acts ? "to act" : "", scores && scores[seat] !== null ? Number(scores[seat].toFixed(3)) : ""];
    // Actions know seats by their numbers
    row.firstChild.dataset.number = name === `Seat ${seat}` ? "" : `${seat} `;
    setText(row.firstChild, seat === me ? `${name} (you)` : name);
    setText(row.lastChild, says.filter((word) => word !== "").join(" · "));
    row.setAttribute("aria-current", String(acts));
    row.dataset.out = String(out);
  });
  setText(el("known"), known ? words(known) : "");
  el("known").hidden = !known;
}

// The newest of what seats say to each other. Who reads the end of the list goes on doing so.
function showTalk(names, said) {
  const list = el("said");
  el("talk").hidden = !said.length && el("speak").hidden;
  const follows = list.scrollTop + list.clientHeight >= list.scrollHeight - 4;
  while (list.childElementCount > said.length) list.lastChild.remove();
  said.forEach(({ seat, text, to }, at) => {
    const row = list.children[at] || list.appendChild(make("li", {}, make("b"), make("span")));
    setText(row.firstChild, names[seat] + (to === "all" ? "" : ` to ${to === "team" ? "the team" : names[to]}`));
    setText(row.lastChild, text);
  });
  if (follows) list.scrollTop = list.scrollHeight;
}

// An action in words: `take 2`, `move e4, promote queen`, or a text as it is.
function words(action) {
  if (action === null || typeof action !== "object") return String(action);
  if (Array.isArray(action)) return action.map(words).join(", ");
  return Object.entries(action).map(([name, value]) => `${name} ${words(value)}`).join(", ");
}

const endings = { over: "The game is over", failed: "The game failed", stopped: "The game was stopped" };
