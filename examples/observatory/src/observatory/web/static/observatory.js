"use strict";
// Keeps a page's episodes up to date by the change feed, and turns times into words. Without it the page still reads.

const words = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const spans = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

function tellTimes() {
  for (const element of document.querySelectorAll("time[datetime]")) {
    const seconds = (Date.parse(element.dateTime) - Date.now()) / 1000;
    const [unit, size] = spans.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
    element.title ||= element.textContent;
    element.textContent = words.format(Math.round(seconds / size), unit);
  }
}

const over = (status) => ["completed", "failed", "cancelled", "canceled"].includes(status);
const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

function show(episode) {
  for (const row of document.querySelectorAll(`[data-episode="${CSS.escape(episode.id)}"]`)) {
    for (const badge of row.querySelectorAll(".badge")) {
      badge.dataset.status = episode.status;
      badge.textContent = episode.status;
    }
    (episode.scores ?? []).forEach((score, slot) => {
      const place = row.querySelector(`[data-score="${slot}"]`);
      if (place && score !== null) place.textContent = String(Math.round(score * 100) / 100);
    });
    if (over(episode.status)) {
      row.removeAttribute("data-live");
      // what the episode has left behind is the server's to show
      if (row.hasAttribute("data-reload")) location.reload();
    }
  }
}

async function follow() {
  let cursor = "";
  while (true) {
    const ids = [...new Set([...document.querySelectorAll("[data-live]")].map((row) => row.dataset.episode))].slice(0, 50);
    if (!ids.length) {
      if (!document.querySelector("[data-refresh]")) return;
      await pause(2);
      continue;
    }
    try {
      const query = new URLSearchParams({ ids: ids.join(","), wait: "20", after: cursor });
      const answer = await fetch(`/live?${query}`, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      const changes = await answer.json();
      changes.episodes.forEach(show);
      cursor = changes.cursor;
      document.documentElement.dataset.feed = "live";
    } catch {
      document.documentElement.dataset.feed = "lost";
      await pause(5);
    }
  }
}

// Parts of a page that change by themselves are taken from the page as it is now. What is being looked at stays.
async function refresh() {
  const shown = new Map();
  while (document.querySelector("[data-refresh]")) {
    await pause(5);
    if (document.hidden) continue;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) continue;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of document.querySelectorAll("[data-refresh]")) {
        const other = fresh.getElementById(part.id);
        if (!other || part.contains(document.activeElement) || shown.get(part.id) === other.innerHTML) continue;
        shown.set(part.id, other.innerHTML);
        const turned = [...part.querySelectorAll("details")].map((one) => (one.dataset.turned ? one.open : null));
        part.replaceChildren(...other.childNodes);
        part.querySelectorAll("details").forEach((one, at) => {
          if ((turned[at] ?? null) === null) return;
          one.open = turned[at];
          one.dataset.turned = "by hand";
        });
      }
      tellTimes();
    } catch {
      // the server is away for a while: what is shown stays
    }
  }
}

async function startReplay(button) {
  const stage = document.getElementById("stage");
  const note = document.getElementById("stage-note");
  button.disabled = true;
  note.textContent = "Starting the game's own viewer…";
  try {
    let answer = await fetch(button.dataset.start, { method: "POST" });
    while (answer.status === 503 && answer.headers.has("Retry-After")) {
      await pause(Number(answer.headers.get("Retry-After")) || 2);
      answer = await fetch(button.dataset.start, { method: "POST" });
    }
    const session = await answer.json();
    if (!answer.ok) throw new Error(session.detail ?? `HTTP ${answer.status}`);
    const frame = document.createElement("iframe");
    frame.className = "stage";
    frame.title = "Replay";
    frame.setAttribute("sandbox", "allow-scripts allow-forms allow-pointer-lock");
    frame.allow = "fullscreen";
    frame.src = session.viewer_url;
    stage.replaceChildren(frame);
    const link = document.getElementById("viewer");
    link.href = session.viewer_url;
    link.hidden = false;
  } catch (error) {
    note.textContent = `The replay cannot be shown: ${error.message}`;
    button.disabled = false;
  }
}

// The published platform's addresses keep their place behind the hash: #tab=leagues&detail=league:league_…
function goOn() {
  const [kind, id] = (new URLSearchParams(location.hash.slice(1)).get("detail") ?? "").split(":");
  const places = { league: "/leagues/", "policy-version": "/policies/versions/", episode: "/episodes/" };
  location.replace(id && places[kind] ? places[kind] + encodeURIComponent(id) : "/");
}

if (document.getElementById("deep-link")) goOn();
tellTimes();
setInterval(tellTimes, 20_000);
follow();
refresh();
document.addEventListener("click", (event) => {
  const folded = event.target.closest("summary")?.parentElement;
  if (folded) folded.dataset.turned = "by hand";
});
document.getElementById("play-replay")?.addEventListener("click", (event) => startReplay(event.currentTarget));
