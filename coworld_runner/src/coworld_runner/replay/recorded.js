// Stands in for the replay's websocket: every socket that the page opens receives the recorded messages in order.
(() => {
  "use strict";
  const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const recorded = document.getElementById("coworld-recorded");
  const packed = new Blob([bytesOf(recorded.textContent)]).stream();
  const unpacked = new Response(packed.pipeThrough(new DecompressionStream("deflate"))).json();

  class RecordedSocket extends EventTarget {
    constructor(url) {
      super();
      Object.assign(this, { url: String(url), readyState: 0, bufferedAmount: 0, extensions: "", protocol: "", binaryType: "blob" });
      for (const name of ["open", "message", "close", "error"]) {
        this[`on${name}`] = null;
        this.addEventListener(name, (event) => { if (typeof this[`on${name}`] === "function") this[`on${name}`](event); });
      }
      this.play();
    }

    async play() {
      const messages = await unpacked;
      if (this.readyState !== 0) return;
      this.readyState = 1;
      this.dispatchEvent(new Event("open"));
      for (const message of messages) {
        if (this.readyState !== 1) return;
        this.dispatchEvent(new MessageEvent("message", { data: this.data(message) }));
      }
    }

    data(message) {
      if (typeof message === "string") return message;
      const bytes = bytesOf(message.base64);
      return this.binaryType === "arraybuffer" ? bytes.buffer : new Blob([bytes]);
    }

    send() {}

    close(code = 1000, reason = "") {
      if (this.readyState === 3) return;
      this.readyState = 3;
      setTimeout(() => this.dispatchEvent(new CloseEvent("close", { code, reason, wasClean: true })));
    }
  }
  for (const [number, name] of ["CONNECTING", "OPEN", "CLOSING", "CLOSED"].entries()) {
    RecordedSocket[name] = RecordedSocket.prototype[name] = number;
  }
  window.WebSocket = RecordedSocket;
  if (recorded.dataset.start && !location.hash) location.hash = recorded.dataset.start;
})();
