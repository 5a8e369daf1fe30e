"use strict";
// Shared by all pages. Names and drawings come from strangers: text is only ever set as text, pictures are images.
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

function setStatus(text, status = "") {
  if (el("status").textContent !== text) el("status").textContent = text;
  el("status").dataset.status = status;
}

// What is shown here, and what is not.
function setViews(text) {
  if (el("views").textContent !== text) el("views").textContent = text;
  el("views").hidden = !text;
}

function setNotice(text) {
  el("notice").textContent = text;
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

function showGame(about, page) {
  el("game").textContent = about.game || about.rules;
  document.title = `${about.game || about.rules} · ${page}`;
}

function showText(place, text) {
  const old = place.querySelector("pre");
  if (!old) place.replaceChildren(make("pre", {}, text));
  else if (old.textContent !== text) old.textContent = text;
}

function showBoard(drawing) {
  if (!drawing.trimStart().startsWith("<svg")) { showText(el("board"), drawing); return; }
  const named = drawing.match(/<title>([^<]*)<\/title>/);
  const source = `data:image/svg+xml,${encodeURIComponent(drawing)}`;
  const image = el("board").querySelector("img") || make("img");
  image.src = source;
  image.alt = named ? named[1] : "The board";
  if (!image.isConnected) el("board").replaceChildren(image);
}

function showSeats(names, toAct, scores = null, me = null) {
  const rows = names.map((name, seat) => {
    const says = scores ? String(scores[seat]) : toAct.includes(seat) ? "to act" : "";
    const row = make("li", { "data-seat": String(seat) }, make("span", {}, seat === me ? `${name} (you)` : name), make("span", {}, says));
    row.setAttribute("aria-current", String(toAct.includes(seat)));
    return row;
  });
  el("seats").replaceChildren(...rows);
}

// An action in words: `take 2`, `move e4, promote queen`, or a text as it is.
function words(action) {
  if (action === null || typeof action !== "object") return String(action);
  return Object.entries(action).map(([name, value]) => `${name} ${words(value)}`).join(", ");
}

const endings = { over: "The game is over", failed: "The game failed", stopped: "The game was stopped" };
