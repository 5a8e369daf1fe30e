// Stands in for the server of a static viewer: answers the page's requests from the page itself.
(() => {
  "use strict";
  const REPLAY = "https://replay.invalid/replay";
  const BUNDLE = "https://viewer.invalid/";
  const held = JSON.parse(document.getElementById("coworld-bundle").textContent);
  const made = new Map();
  let root = BUNDLE;
  try {
    root = new URL(".", document.baseURI).href;
  } catch {
    // a frame whose page has no address of its own
  }

  /** Returns the name of the held file at an address; undefined if there is none. */
  const nameOf = (asked) => {
    const text = String(asked instanceof Request ? asked.url : asked).split(/[?#]/)[0];
    if (text === REPLAY) return "replay";
    const base = [BUNDLE, root].find((each) => text.startsWith(each));
    if (!base && /^[a-z][a-z0-9+.-]*:/i.test(text)) return undefined;
    const name = decodeURIComponent(new URL(base ? text.slice(base.length) : text, BUNDLE).pathname.slice(1));
    return `bundle/${name}` in held ? `bundle/${name}` : undefined;
  };

  /** Returns the address to request instead. */
  const heldAt = (asked) => {
    const name = nameOf(asked);
    if (name === undefined) return asked;
    if (!made.has(name)) {
      const [type, text] = held[name];
      const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
      made.set(name, URL.createObjectURL(new Blob([bytes], { type })));
    }
    return made.get(name);
  };

  const { fetch, Worker } = window;
  const { open } = XMLHttpRequest.prototype;
  window.fetch = (asked, ...more) => fetch(heldAt(asked), ...more);
  XMLHttpRequest.prototype.open = function (method, asked, ...more) {
    return open.call(this, method, heldAt(asked), ...more);
  };
  window.Worker = class extends Worker {
    constructor(asked, options) {
      super(heldAt(asked), options);
    }
  };
  for (const element of [HTMLImageElement, HTMLMediaElement, HTMLSourceElement]) {
    const { get, set } = Object.getOwnPropertyDescriptor(element.prototype, "src");
    Object.defineProperty(element.prototype, "src", { get, set(asked) { set.call(this, heldAt(asked)); } });
  }
  location.hash = `replay=${encodeURIComponent(REPLAY)}`;
})();
