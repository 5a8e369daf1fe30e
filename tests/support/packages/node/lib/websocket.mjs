// Websockets by Node alone: whole text frames in both directions, and hanging up.

import { createHash, randomBytes } from "node:crypto";
import { request } from "node:http";

const MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** The JSON of a message; null for one that is none. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** One frame; what a client sends is masked. */
function frame(opcode, data, masked) {
  const long = data.length < 126 ? 0 : 2;
  const head = Buffer.alloc(2 + long);
  head[0] = 0x80 | opcode;
  head[1] = (masked ? 0x80 : 0) | (long ? 126 : data.length);
  if (long) head.writeUInt16BE(data.length, 2);
  if (!masked) return Buffer.concat([head, data]);
  const mask = randomBytes(4);
  return Buffer.concat([head, mask, data.map((byte, index) => byte ^ mask[index % 4])]);
}

/** A connection that has been upgraded: { send, close, onText, onEnd }. */
function opened(socket, first, client) {
  let data = first;
  const it = {
    onText() {},
    onEnd() {},
    send: (value) => socket.write(frame(1, Buffer.from(JSON.stringify(value)), client)),
    close: () => socket.end(frame(8, Buffer.from([0x03, 0xe8]), client)),
  };
  const read = () => {
    while (data.length >= 2) {
      const short = data[1] & 0x7f;
      const masked = data[1] & 0x80;
      const start = 2 + (short === 126 ? 2 : 0);
      const length = short === 126 && data.length >= 4 ? data.readUInt16BE(2) : short;
      const end = start + (masked ? 4 : 0) + length;
      if (short === 127) return socket.destroy();
      if (data.length < start || data.length < end) return undefined;
      const opcode = data[0] & 0x0f;
      const mask = masked ? data.subarray(start, start + 4) : Buffer.alloc(4);
      const body = data.subarray(end - length, end).map((byte, index) => byte ^ mask[index % 4]);
      data = data.subarray(end);
      if (opcode === 1) it.onText(parsed(body.toString()));
      if (opcode === 8) socket.end(frame(8, body.subarray(0, 2), client));
      if (opcode === 9) socket.write(frame(10, body, client));
    }
    return undefined;
  };
  socket.setNoDelay(true);
  socket.on("error", () => socket.destroy());
  socket.on("close", () => it.onEnd());
  socket.on("data", (piece) => {
    data = Buffer.concat([data, piece]);
    read();
  });
  setImmediate(read);
  return it;
}

/** Take a request to upgrade. */
export function accept(asked, socket, first) {
  const key = createHash("sha1").update(asked.headers["sec-websocket-key"] + MAGIC).digest("base64");
  const head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
  socket.write(`${head}Sec-WebSocket-Accept: ${key}\r\n\r\n`);
  return opened(socket, first, false);
}

/** Connect to a ws:// address. */
export function connect(url) {
  return new Promise((resolve, reject) => {
    const headers = { Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13" };
    headers["Sec-WebSocket-Key"] = randomBytes(16).toString("base64");
    const asked = request(url.replace(/^ws/, "http"), { headers });
    asked.on("error", reject);
    asked.on("response", (answer) => reject(new Error(`the game answered with status ${answer.statusCode}`)));
    asked.on("upgrade", (_, socket, first) => resolve(opened(socket, first, true)));
    asked.end();
  });
}
