// By whom a replay is seen. The game's own rules play it again for each eye; what was recorded is shown only with these words.
const eyes = make("select", { "aria-label": "Seen by" });
const PATIENCE = 400; // until the page says that it waits
const seen = new Map(); // of each eye that was asked for: its views, and whether they are complete
let askServer = () => {};

// A part of the link, such as `eye` of `#tick=3&eye=public`.
const linked = (name) => new URLSearchParams(location.hash.slice(1)).get(name);

function offerEyes(head) {
  const { names } = head.header;
  const known = (head.eyes || ["all"]).filter((eye) => eye in EYES || names[eye] !== undefined);
  const label = (eye) => EYES[eye] || (names[eye] === `Seat ${eye}` ? names[eye] : `${eye} ${names[eye]}`);
  eyes.replaceChildren(...known.map((eye) => make("option", { value: eye }, label(eye))));
  eyes.hidden = known.length < 2;
  lookAsLinked();
  seen.clear();
}

const EYES = { all: "All revealed", public: "The public" };

function lookAsLinked() {
  const asked = linked("eye");
  if ([...eyes.options].some(({ value }) => value === asked)) eyes.value = asked;
  else if (eyes.selectedIndex < 0) eyes.value = "all";
}

function hearEye({ eye, from, views, problem }) {
  if (!seen.has(eye)) seen.set(eye, { views: [] });
  const known = seen.get(eye);
  if (!from) known.views.length = 0;
  known.views.push(...views);
  if (problem !== undefined) Object.assign(known, { problem, done: true });
}

// What the chosen eye sees at a tick: `drawing`, the standing, and in words what is wrong with it as `why`; undefined while
// the game is played again. `again` shows the tick once more when that takes long.
function seenAt(at, recorded, again) {
  const eye = eyes.value;
  if (!seen.has(eye)) {
    const asked = { views: [] };
    seen.set(eye, asked);
    askServer({ type: "eye", eye });
    setTimeout(() => { if (!asked.done) { asked.late = true; again(); } }, PATIENCE);
  }
  const { views, problem, done, late } = seen.get(eye);
  if (views[at]) return { ...views[at], why: "" };
  if (!done && !late) return undefined;
  const drawing = eye in EYES ? recorded.drawing : (recorded.drawings || {})[eye];
  const shown = `Shown is ${eye === "all" ? "the public view as it" : "what"} was recorded.`;
  const why = `${done ? problem : "The game has not been played again yet."} ${drawing === undefined ? "What was seen was not recorded." : shown}`;
  return { ...(eye in EYES ? recorded : { to_act: [] }), drawing, why };
}

// What the chosen eye has heard or said at a tick. What a team heard was not recorded.
function saidAt(at, recorded) {
  const eye = eyes.value;
  const view = seen.get(eye)?.views[at];
  if (view) return view.said || [];
  return recorded.said.filter(({ seat, to }) => eye === "all" || to === "all" || [seat, to].includes(Number(eye)));
}

// What the chosen eye knows of what was done: spectators are told of no actions, and a seat of its own.
function doneAt({ actions }) {
  if (eyes.value === "all") return actions;
  return Object.fromEntries(Object.entries(actions).filter(([seat]) => seat === eyes.value));
}
