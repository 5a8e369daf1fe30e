// A game for Node: every player names a number, once, and that is its score.

import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { gunzipSync, inflateSync } from "node:zlib";
import { accept } from "../lib/websocket.mjs";

const PAGE = "<!doctype html><title>Higher</title><p>Higher</p>";
const PAGES = ["/client/player", "/client/global", "/client/replay"];
const PATIENCE_MS = 5000;
// What a runner asks of every game; a game that is over sooner would not be there to answer.
const EXPECTED = ["/client/player", "/client/global", "/global", "a stranger"];

const UNPACK = { ".z": inflateSync, ".gz": gunzipSync };

const env = process.env;
const replay = env.COGAME_LOAD_REPLAY_URI && read(env.COGAME_LOAD_REPLAY_URI);
const config = replay ? { tokens: [] } : read(env.COGAME_CONFIG_URI);
const players = new Map();
const viewers = [];
const numbers = config.tokens.map(() => null);
const met = new Set();
let late = false;

/** The JSON of a file, which may be packed. */
function read(url) {
  const data = readFileSync(fileURLToPath(url));
  return JSON.parse((UNPACK[/\.\w+$/.exec(url)?.[0]] ?? ((as) => as))(data).toString());
}

function endIfOver() {
  if (replay || numbers.includes(null) || !(late || EXPECTED.every((each) => met.has(each)))) return;
  writeFileSync(fileURLToPath(env.COGAME_SAVE_REPLAY_URI), JSON.stringify({ numbers }));
  writeFileSync(fileURLToPath(env.COGAME_RESULTS_URI), JSON.stringify({ scores: numbers }));
  for (const socket of [...players.values(), ...viewers]) socket.close();
  setTimeout(() => process.exit(0), 50);
}

const server = createServer((asked, answer) => {
  const { pathname } = new URL(asked.url, "http://here");
  met.add(pathname);
  if (pathname === "/healthz") answer.end("ok");
  else if (PAGES.includes(pathname)) answer.setHeader("Content-Type", "text/html").end(PAGE);
  else answer.writeHead(404).end();
  endIfOver();
});

server.on("upgrade", (asked, socket, first) => {
  const { pathname, searchParams } = new URL(asked.url, "http://here");
  const slot = searchParams.get("slot");
  if (pathname === "/global" || pathname === "/replay") {
    const viewer = accept(asked, socket, first);
    viewers.push(viewer);
    viewer.send(replay ? { type: "replay", ...replay } : { type: "state", numbers });
    met.add(pathname);
  } else if (pathname === "/player" && config.tokens[slot] !== undefined && searchParams.get("token") === config.tokens[slot]) {
    const player = accept(asked, socket, first);
    players.set(slot, player);
    player.onText = (said) => {
      if (typeof said?.number !== "number") return;
      numbers[slot] = said.number;
      setTimeout(() => {
        late = true;
        endIfOver();
      }, PATIENCE_MS).unref();
      endIfOver();
    };
    player.send({ type: "name a number" });
  } else {
    met.add("a stranger");
    socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  }
  endIfOver();
});

process.on("SIGTERM", () => process.exit(0));
server.listen(Number(env.COGAME_PORT), env.COGAME_HOST, () => console.log(`higher: ready, in ${env.HIGHER_LEAGUE}`));
