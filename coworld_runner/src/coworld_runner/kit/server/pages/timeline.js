// What lies along the ticks of a replay: curves, and marks where something has happened.
const LINES = 16;
const POINTS = 400;
const MARK = 24; // CSS pixels: what a finger hits
const THUMB = 8; // half of the slider's thumb, which stays within the slider
const SIGNS = { cost: "▼", out: "✕", score: "▲", talk: "❞" };
const drawnTag = (tag, attributes) => {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};
const shortNumber = (value) => String(Number(value.toFixed(3)));

// Draw a line for each `{ name, value }`, whose function gives the value at each of `count` ticks; what is not a number is a
// gap. Without any number there is no figure. `range` is the lowest and the highest value; by default, those that are drawn.
// `band` gives the lowest and the highest value that are likely at a tick.
function drawCurves(figure, label, series, count, range = null) {
  const steps = Math.max(Math.min(count - 1, POINTS), 1);
  const places = Array.from({ length: steps + 1 }, (_, step) => step / steps);
  const lines = series.slice(0, LINES).map(({ name, value, band }, number) => {
    const values = places.map((part) => value(Math.round(part * (count - 1))));
    const known = values.filter(Number.isFinite);
    const bands = band ? places.map((part) => band(Math.round(part * (count - 1)))) : [];
    return { name, values, bands, number, low: Math.min(...known), high: Math.max(...known) };
  }).filter(({ low, high }) => low <= high);
  const [low, high] = range || [Math.min(...lines.map((line) => line.low)), Math.max(...lines.map((line) => line.high))];
  const span = high - low || 1;
  figure.hidden = !lines.length || !Number.isFinite(span);
  if (figure.hidden) return;
  const title = drawnTag("title", {});
  title.textContent = `${label}: ${lines.map((line) => `${line.name} ${shortNumber(line.low)} to ${shortNumber(line.high)}`).join("; ")}`;
  const point = (value, place) => `${(1000 * places[place]).toFixed(1)} ${(97 - (94 * (value - low)) / span).toFixed(1)}`;
  const paths = lines.map(({ values, number }) => {
    const points = values.map((value, place) => {
      if (!Number.isFinite(value)) return "";
      return `${Number.isFinite(values[place - 1]) ? "L" : "M"}${point(value, place)}`;
    });
    return drawnTag("path", { d: points.join(""), class: `line${number % 8}${number % 2 ? " dashed" : ""}` });
  });
  const bands = lines.filter((line) => line.bands.length).map(({ bands: ends, number }) => {
    const there = ends.map((end, place) => point(end[1], place));
    const back = ends.map((end, place) => point(end[0], place)).reverse();
    return drawnTag("polygon", { points: [...there, ...back].join(" "), class: `line${number % 8} band` });
  });
  const svg = drawnTag("svg", { viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img" });
  svg.append(title, drawnTag("line", { class: "now", y1: "0", y2: "100" }), ...bands, ...paths);
  const legend = lines.map(({ name, number }) => make("span", { class: `line${number % 8}` }, name));
  const more = series.length > LINES ? [` and ${series.length - LINES} more`] : [];
  figure.replaceChildren(svg, make("figcaption", {}, `${label}, ${shortNumber(low)} to ${shortNumber(high)}: `, ...legend, ...more));
}

// Where the present tick is; `part` is 0 at the first and 1 at the last.
function moveNow(figure, part) {
  for (const line of figure.querySelectorAll(".now")) for (const end of ["x1", "x2"]) line.setAttribute(end, String(1000 * part));
}

// Put a button under the slider for each `{ at, kind, text }`. Those too close for a finger share one, which goes from
// one of them to the next.
function showMarks(place, events, count, now, go) {
  const room = Math.max(place.clientWidth - 2 * THUMB, 1);
  const groups = [];
  for (const event of events) {
    const left = THUMB + (room * event.at) / Math.max(count - 1, 1);
    const last = groups[groups.length - 1];
    if (last && left - last.left < MARK) last.events.push(event);
    else groups.push({ left, events: [event] });
  }
  place.replaceChildren(...groups.map(({ left, events }) => {
    const kind = Object.keys(SIGNS).find((one) => events.some((event) => event.kind === one));
    const rest = events.length > 3 ? [`${events.length - 3} more`] : [];
    const says = [...events.slice(0, 3).map(({ at, text }) => `${at}: ${text}`), ...rest].join("; ");
    const mark = make("button", { type: "button", tabindex: "-1", title: says, "aria-label": `Go to ${says}`, "data-kind": kind }, SIGNS[kind]);
    mark.style.left = `${left}px`;
    mark.addEventListener("click", () => go((events.find(({ at }) => at > now()) || events[0]).at));
    return mark;
  }));
}

const EVENTS = 10000;

// What happened from tick to tick: what was said, who left the game, whose score changed. Where scores change all the
// time, it counts who leads.
function findEvents(ticks, names, spoken, score) {
  const events = spoken.map(([at, { seat }]) => ({ at, kind: "talk", text: `${names[seat]} speaks` }));
  const changes = [];
  const leads = [];
  let first = "";
  for (let at = 1; at < ticks.length && events.length < EVENTS; at += 1) {
    const [were, are] = [at - 1, at].map((place) => new Set(ticks[place].eliminated));
    names.forEach((name, seat) => { if (are.has(seat) && !were.has(seat)) events.push({ at, kind: "out", text: `${name} is out` }); });
    const changed = names.flatMap((name, seat) => {
      const [from, to] = [score(at - 1, seat), score(at, seat)];
      return !Number.isFinite(from) || !Number.isFinite(to) || from === to ? [] : [`${name} ${shortNumber(from)} → ${shortNumber(to)}`];
    });
    if (changed.length) changes.push({ at, kind: "score", text: changed.join(", ") });
    if (!changed.length) continue;
    const best = names.reduce((most, _, seat) => Math.max(most, score(at, seat) ?? -Infinity), -Infinity);
    const leading = names.filter((_, seat) => score(at, seat) === best).join(" and ");
    if (leading !== first) leads.push({ at, kind: "score", text: `${leading} in front` });
    first = leading;
  }
  return [...events, ...(changes.length > ticks.length / 2 ? leads : changes)].slice(0, EVENTS).sort((one, other) => one.at - other.at);
}

// What a seat could expect at each tick, `{ slots: [{ share, interval }] }` by tick, as lines with the band of what is likely;
// between two ticks that were looked at, it is on the line between them.
function expectations(curve, names) {
  const number = (value, usual) => (Number.isFinite(value) ? Math.min(Math.max(value, 0), 1) : usual);
  const known = (curve || []).filter((one) => one && Number.isInteger(one.tick) && Array.isArray(one.slots));
  const between = (tick, read) => {
    const after = known.findIndex((point) => point.tick >= tick);
    if (after < 0 || (after === 0 && known[0].tick > tick)) return NaN;
    const [late, early] = [known[after], known[Math.max(after - 1, 0)]];
    const part = late.tick === early.tick ? 1 : (tick - early.tick) / (late.tick - early.tick);
    return read(early) * (1 - part) + read(late) * part;
  };
  return names.map((name, seat) => {
    const share = ({ slots }) => number((slots[seat] || {}).share, NaN);
    const end = (which) => (point) => number(((point.slots[seat] || {}).interval || {})[which], share(point));
    return {
      name,
      value: (tick) => between(tick, share),
      band: (tick) => ["low", "high"].map((which) => between(tick, end(which))).map((value) => number(value, 0)),
    };
  });
}
