"use strict";
// Shows one replay after the other. A page says when its replay has ended; one that never does has its time.
const ENDED = "coworld-replay-ended";
const LINGER = 6000;
const LONGEST = 300000;
const AGAIN = 5000;
const WIDE = 1280; // A hall's screen shows what a desk shows, only larger
const el = (id) => document.getElementById(id);
let frame = null;
let name = "";
let timer = 0;
let going = false;

function fit() {
  const scale = Math.max(1, el("stage").clientWidth / WIDE);
  for (const one of el("stage").children) {
    one.style.width = `${el("stage").clientWidth / scale}px`;
    one.style.height = `${el("stage").clientHeight / scale}px`;
    one.style.transform = `scale(${scale})`;
  }
}

function wait(time) {
  clearTimeout(timer);
  timer = setTimeout(next, time);
}

async function next() {
  if (going) return;
  going = true;
  try {
    const answer = await fetch(`next?after=${encodeURIComponent(name)}`);
    const found = await answer.json();
    if (found) show(found);
    else el("what").textContent = "There is no replay to show yet";
    wait(found ? LONGEST : AGAIN);
  } catch {
    el("what").textContent = "The show has ended";
    wait(AGAIN);
  } finally {
    going = false;
  }
}

// The last picture stays until the next replay is there.
function show(found) {
  const older = frame;
  frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.title = "Replay";
  frame.addEventListener("load", () => { if (older) older.remove(); }, { once: true });
  frame.src = found.page;
  name = found.name;
  el("what").textContent = `${found.number} of ${found.count}: ${name}`;
  el("stage").append(frame);
  fit();
}

addEventListener("message", (event) => {
  if (frame && event.source === frame.contentWindow && event.data === ENDED) wait(LINGER);
});
addEventListener("resize", fit);
el("skip").addEventListener("click", next);
el("full").addEventListener("click", () => document.documentElement.requestFullscreen());
next();
