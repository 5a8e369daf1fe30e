"use strict";
// Shared by all pages: the address of the socket, the board, the scores and the clock. Names are untrusted input, so
// text is only ever set as text, never as HTML.

const COLOURS = ["blue", "red", "green", "violet"];
const colourOf = (slot) => `var(--slot${slot % 4})`;
const el = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// The address of this page's socket: `?address=` unchanged, or the page's own address with `/client/<page>`
// replaced by `/<page>`, which keeps a path prefix, a suffix and the whole query.
function socketUrl(page) {
  const address = new URLSearchParams(location.search).get("address");
  const url = new URL(address || location.href, location.href);
  if (!address) url.pathname = url.pathname.replace(new RegExp(`/clients?/${page}(?=/|$)`), `/${page}`);
  url.protocol = url.protocol.replace(/^http/, "ws");
  url.hash = "";
  return url;
}

function nameOf(state, slot) {
  const name = (state.player_names || [])[slot];
  return typeof name === "string" && name ? name : `Slot ${slot}`;
}

function setStatus(status, text) {
  el("status").dataset.status = status;
  el("status").textContent = text;
}

function setNotice(text, detail = "") {
  const notice = el("notice");
  notice.hidden = !text;
  notice.replaceChildren(make("p", {}, text, ...(detail ? [make("small", {}, detail)] : [])));
}

// Keeps a socket open. `hear` gets every message, `over` tells whether a close is final, and `fail` shows an error.
function talk(page, { hear, over, fail, open = () => {} }) {
  let socket = null;
  let tries = 0;
  let everOpen = false;
  const dial = () => {
    try {
      socket = new WebSocket(socketUrl(page));
    } catch (error) {
      fail("This address is not a game.", String(error.message || error));
      return;
    }
    socket.onopen = () => { tries = 0; everOpen = true; open(); };
    socket.onmessage = (event) => hear(JSON.parse(event.data));
    socket.onclose = (event) => {
      if (over(event)) return;
      tries += 1;
      if (tries > (everOpen ? 6 : 3)) {
        fail(
          everOpen ? "The connection is lost." : "Cannot connect.",
          everOpen ? "The game does not answer any more." : "The link may be wrong, or the game may be over.",
        );
        return;
      }
      setStatus("connecting", "Connecting");
      setTimeout(dial, Math.min(250 * 2 ** tries, 4000));
    };
  };
  dial();
  return { send: (value) => { if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(value)); } };
}

// Draws snapshots. Painters glide from tile to tile; an arrow shows the direction of their last move.
class Board {
  constructor(canvas) {
    this.canvas = canvas;
    this.state = null;
    this.me = null;
    this.headings = [];
    this.from = [];
    this.since = 0;
    this.glide = 0;
    this.waiting = false;
    new ResizeObserver(() => this.redraw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
  }

  show(state, glide = 0) {
    const before = this.state;
    const steps = before ? Math.abs(state.tick - before.tick) : Infinity;
    this.from = state.positions.map((to, slot) => (steps === 1 && this.place(slot)) || to);
    state.positions.forEach(([x, y], slot) => {
      const last = before && before.positions[slot];
      if (!last || steps > 1) { if (state.tick === 0 || !before) this.headings[slot] = null; return; }
      const forward = state.tick >= before.tick ? 1 : -1;
      const [dx, dy] = [(x - last[0]) * forward, (y - last[1]) * forward];
      if (dx || dy) this.headings[slot] = [Math.sign(dx), Math.sign(dy)];
    });
    this.state = state;
    this.since = performance.now();
    this.glide = this.still.matches ? 0 : Math.min(glide, 220);
    this.canvas.parentElement.parentElement.style.setProperty("--ratio", String(state.width / state.height));
    this.canvas.dataset.tick = String(state.tick);
    this.canvas.setAttribute("aria-label", this.words());
    this.redraw();
  }

  words() {
    const s = this.state;
    return `Board of ${s.width} by ${s.height} tiles after tick ${s.tick}: `
      + s.scores.map((score, slot) => `${nameOf(s, slot)} owns ${score}`).join(", ");
  }

  // The point where a painter is drawn right now.
  place(slot) {
    const to = this.state && this.state.positions[slot];
    const from = this.from[slot];
    if (!to || !from) return to;
    const t = this.glide ? Math.min((performance.now() - this.since) / this.glide, 1) : 1;
    return [from[0] + (to[0] - from[0]) * t, from[1] + (to[1] - from[1]) * t];
  }

  redraw() {
    if (this.waiting || !this.state) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
      if (this.glide && performance.now() - this.since < this.glide) this.redraw();
    });
  }

  draw() {
    const { canvas, state } = this;
    const scale = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(canvas.clientWidth * scale), Math.round(canvas.clientHeight * scale)];
    if (canvas.width !== wide || canvas.height !== high) { canvas.width = wide; canvas.height = high; }
    const c = canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const colours = [0, 1, 2, 3].map((slot) => style.getPropertyValue(`--slot${slot}`));
    const size = wide / state.width;
    const tall = high / state.height;
    const gap = Math.max(1, Math.min(size, tall) * 0.05);
    const round = Math.min(size, tall) * 0.14;
    c.clearRect(0, 0, wide, high);
    const groups = new Map();
    state.tile_owners.forEach((owner, tile) => {
      if (!groups.has(owner)) groups.set(owner, new Path2D());
      const [x, y] = [tile % state.width, Math.floor(tile / state.width)];
      groups.get(owner).roundRect(x * size + gap / 2, y * tall + gap / 2, size - gap, tall - gap, round);
    });
    const empty = style.getPropertyValue("--empty");
    const ink = style.getPropertyValue("--ink");
    for (const [owner, path] of groups) {
      c.fillStyle = owner < 0 ? empty : colours[owner % 4];
      c.globalAlpha = owner < 0 ? 1 : 0.78;
      c.fill(path);
    }
    c.globalAlpha = 1;
    state.positions.forEach((_, slot) => this.painter(c, slot, colours[slot % 4], ink, size, tall));
  }

  painter(c, slot, colour, ink, size, tall) {
    const [px, py] = this.place(slot);
    const r = Math.min(size, tall) * 0.36;
    c.save();
    c.translate((px + 0.5) * size, (py + 0.5) * tall);
    if (slot === this.me) {
      c.globalAlpha = 0.45; c.beginPath(); c.arc(0, 0, r * 1.34, 0, 7); c.fillStyle = ink; c.fill(); c.globalAlpha = 1;
    }
    c.beginPath(); c.arc(0, 0, r, 0, 7);
    c.shadowColor = "#0008"; c.shadowBlur = r * 0.5; c.fillStyle = colour; c.fill(); c.shadowColor = "transparent";
    c.lineWidth = Math.max(1.5, r * 0.18); c.strokeStyle = "#fff"; c.stroke();
    c.fillStyle = "#fff";
    const heading = this.headings[slot];
    c.beginPath();
    if (heading) {
      c.rotate(Math.atan2(heading[1], heading[0]));
      c.moveTo(r * 0.55, 0); c.lineTo(-r * 0.3, r * 0.45); c.lineTo(-r * 0.3, -r * 0.45); c.closePath();
    } else {
      c.arc(0, 0, r * 0.25, 0, 7);
    }
    c.fill();
    c.restore();
  }
}

// One row per slot, and one bar for the whole board.
function showScores(state, me = null) {
  const list = el("scores");
  const total = state.width * state.height;
  const best = Math.max(...state.scores);
  const leads = state.scores.filter((score) => score === best).length === 1;
  if (list.children.length !== state.scores.length) {
    list.replaceChildren(...state.scores.map((_, slot) => {
      const row = make("li", { "data-slot": String(slot) }, make("span", { class: "chip" }), make("span", { class: "name" }), make("b"), make("div", { class: "track" }, make("div")));
      row.style.setProperty("--colour", colourOf(slot));
      return row;
    }));
    el("whole").replaceChildren(...state.scores.map((_, slot) => {
      const part = make("div");
      part.style.setProperty("--colour", colourOf(slot));
      return part;
    }));
  }
  state.scores.forEach((score, slot) => {
    const row = list.children[slot];
    const name = row.querySelector(".name");
    const text = nameOf(state, slot);
    if (name.dataset.name !== text || name.dataset.me !== String(me)) {
      name.dataset.name = text;
      name.dataset.me = String(me);
      name.title = text;
      name.replaceChildren(text, ...(slot === me ? [make("em", {}, "you")] : []));
    }
    row.classList.toggle("lead", leads && score === best);
    row.querySelector("b").textContent = String(score);
    row.querySelector(".track > *").style.width = `${(100 * score) / total}%`;
    el("whole").children[slot].style.width = `${(100 * score) / total}%`;
  });
  const free = total - state.scores.reduce((sum, score) => sum + score, 0);
  el("free").textContent = free ? `${free} of ${total} tiles are still free` : `All ${total} tiles are painted`;
}

function showTime(state) {
  const left = Math.max(state.max_ticks - state.tick, 0);
  const seconds = left / (state.tick_rate || 1);
  el("left").style.width = `${(100 * left) / state.max_ticks}%`;
  el("tick").textContent = `Tick ${state.tick} of ${state.max_ticks}`;
  el("seconds").textContent = seconds >= 60 ? `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s left` : `${seconds.toFixed(1)} s left`;
}

// The countdown once all players are connected; the server sends it every second.
const countdown = (state) => (state.starts_in ? `Starts in ${Math.ceil(state.starts_in)}` : "");
const phase = (state) => (state.done ? "done" : !state.started ? "waiting" : state.paused ? "paused" : "running");

// "Ada wins 52 to 40", or the like.
function verdict(state) {
  const best = Math.max(...state.scores);
  const winners = state.scores.flatMap((score, slot) => (score === best ? [slot] : []));
  const result = [...state.scores].sort((a, b) => b - a).join(" to ");
  return winners.length === 1 ? `${nameOf(state, winners[0])} wins ${result}` : `A tie, ${result}`;
}
