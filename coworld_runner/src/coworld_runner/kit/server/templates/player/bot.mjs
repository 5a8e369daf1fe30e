#!/usr/bin/env node
// A player, which is asked for an action whenever it is its turn. Needs Node 18 or later, and nothing else.

/**
 * Return one of the legal actions, or a promise of one; `legal` is undefined if the game does not list them, and an
 * undefined action lets the time pass. `random()` is like Math.random(), and gives the same numbers again in an episode
 * with the same seed.
 */
function act(observation, legal, random) {
  return legal?.[Math.floor(random() * legal.length)];
}

// The rest speaks coworld.seat/1 over a websocket; you need not change it.

import { createHash, randomBytes } from "node:crypto";
import http from "node:http";
import https from "node:https";

const CONNECT_MS = 8000;
const MAX_REFUSED = 20;

/** Return a function that returns numbers from 0 to below 1, which depend on the seed alone; without one: Math.random. */
function numbers(seed) {
  let count = 0;
  const digest = () => createHash("sha256").update(`${seed} ${count++}`).digest();
  return seed ? () => digest().readUIntBE(0, 6) / 2 ** 48 : Math.random;
}

/** Connect; resolves to { send(text), messages }, or rejects with an error whose `final` is true if a retry is useless. */
function connect(url) {
  return new Promise((resolve, reject) => {
    const headers = {
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": randomBytes(16).toString("base64"),
    };
    const request = (url.protocol === "wss:" ? https : http).request(url.href.replace(/^ws/, "http"), { headers });
    request.on("error", reject);
    request.on("response", (answer) => {
      answer.resume();
      const error = new Error(`the game answered with status ${answer.statusCode}`);
      reject(Object.assign(error, { final: answer.statusCode < 500 }));
    });
    request.on("upgrade", (_, socket, head) => {
      socket.setNoDelay(true);
      resolve({ send: (text) => socket.write(frame(1, Buffer.from(text))), messages: messages(socket, head) });
    });
    request.end();
  });
}

/** Encode one frame from a client: masked and unfragmented. */
function frame(opcode, data) {
  const long = data.length < 126 ? 0 : data.length < 65536 ? 2 : 8;
  const head = Buffer.alloc(2 + long + 4);
  head[0] = 0x80 | opcode;
  head[1] = 0x80 | (long === 0 ? data.length : long === 2 ? 126 : 127);
  if (long === 2) head.writeUInt16BE(data.length, 2);
  if (long === 8) head.writeBigUInt64BE(BigInt(data.length), 2);
  const mask = randomBytes(4);
  mask.copy(head, 2 + long);
  return Buffer.concat([head, data.map((byte, index) => byte ^ mask[index % 4])]);
}

/** Yield the game's messages; ends when the game closes the connection, and throws when it is lost. */
async function* messages(socket, head) {
  let data = head;
  let text = [];
  for await (const piece of whole(socket)) {
    data = Buffer.concat([data, piece]);
    for (;;) {
      if (data.length < 2) break;
      const short = data[1] & 0x7f;
      const start = short === 126 ? 4 : short === 127 ? 10 : 2;
      if (data.length < start) break;
      const length = short === 126 ? data.readUInt16BE(2) : short === 127 ? Number(data.readBigUInt64BE(2)) : short;
      if (data.length < start + length) break;
      const [last, opcode, body] = [data[0] & 0x80, data[0] & 0x0f, data.subarray(start, start + length)];
      data = data.subarray(start + length);
      if (opcode === 8) {
        socket.end(frame(8, body.subarray(0, 2)));
        if (length >= 2 && ![1000, 1001].includes(body.readUInt16BE(0))) throw new Error("closed by the game");
        return;
      }
      if (opcode === 9) socket.write(frame(10, body));
      if (opcode > 2) continue;
      text.push(body);
      if (!last) continue;
      yield JSON.parse(Buffer.concat(text).toString());
      text = [];
    }
  }
  throw new Error("the connection was lost");
}

/** Yield the socket's data after an empty piece, so that data that came with the handshake is handled first. */
async function* whole(socket) {
  yield Buffer.alloc(0);
  yield* socket;
}

/** Play until the game is over. */
async function converse({ send, messages }, state) {
  async function answer(asked) {
    try {
      const action = await act(asked.observation, asked.legal, state.random);
      // Without an action, the time passes.
      if (action != null) send(JSON.stringify({ type: "act", tick: asked.tick, action }));
    } catch (error) {
      throw Object.assign(error, { final: true });
    }
  }
  for await (const message of messages) {
    const known = ["hello", "observe", "refused", "over"].includes(message.type);
    if (message.type === "hello" ? message.protocol !== "coworld.seat/1" : !known && !state.greeted) {
      const said = JSON.stringify(message).slice(0, 300);
      throw Object.assign(new Error(`the game does not speak coworld.seat/1, but: ${said}`), { final: true });
    }
    state.greeted = true;
    if (message.type === "observe" && message.your_turn) {
      state.asked = message;
      await answer(message);
    }
    if (message.type === "refused") {
      console.error(`refused in tick ${message.tick}: ${message.reason}`);
      if (message.tick !== state.asked?.tick || !message.legal || message.reason.startsWith("too late")) continue;
      if (++state.refused > MAX_REFUSED) throw Object.assign(new Error("refused too often"), { final: true });
      await answer({ ...state.asked, legal: message.legal });
    }
    if (message.type === "over") return;
  }
}

const address = process.env.COWORLD_PLAYER_WS_URL ?? process.env.COGAMES_ENGINE_WS_URL;
if (!address) {
  console.error("COWORLD_PLAYER_WS_URL is not set; a runner sets it to the address of the game.");
  process.exit(2);
}
const state = { asked: null, greeted: false, refused: 0, random: numbers(process.env.COWORLD_PLAYER_SEED) };
for (let since = Date.now(); ; ) {
  try {
    const connection = await connect(new URL(address));
    since = Infinity;
    await converse(connection, state);
    process.exit(0);
  } catch (error) {
    if (since === Infinity) since = Date.now();
    if (error.final || Date.now() - since > CONNECT_MS) {
      console.error(error);
      process.exit(1);
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
