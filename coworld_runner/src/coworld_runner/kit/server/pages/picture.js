// The picture of a game, in the page. Whoever made it is not trusted: no parser of the browser ever sees the drawing. It is
// read here, strictly, and of what it has only what is on the lists of INLINE_SVG is made anew in the page, node by node.
// (DOMParser would run and load nothing either, but the page's policy protests against each style and handler that it meets.)
const SVG = "http://www.w3.org/2000/svg";
const LONGEST = 4 << 20; // characters of a drawing
const MOST_NODES = 20_000;
const DEEPEST = 64;
const TOKEN = /<!--[^]*?-->|<\?[^]*?\?>|<!\[CDATA\[([^]*?)\]\]>|([^<]+)|<\/([\w:.-]+)\s*>|<([\w:.-]+)((?:\s+[\w:.-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>/gy;
const ENTITIES = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };
const OURS = new Set(["style", "role", "tabindex", "aria-label", "aria-disabled", "aria-pressed"]);
const [ELEMENTS, ATTRIBUTES, STYLES, FUNCTIONS, ANIMATIONS] = ["elements", "attributes", "styles", "functions", "animations"]
  .map((name) => new Set(INLINE_SVG[name]));

// Text without its entities. Throws a RangeError at one that is unknown.
function plain(text) {
  return text.replace(/&(?:#(\d+)|#x([\da-f]+)|(\w+));|&/gi, (found, number, hex, name) => {
    if (number || hex) return String.fromCodePoint(number ? Number(number) : parseInt(hex, 16));
    if (!Object.hasOwn(ENTITIES, name)) throw new RangeError(`${found} is unknown`);
    return ENTITIES[name];
  });
}

// The elements of a drawing as `{ name, attributes, children }`, and its texts. Throws a RangeError if it is too large, too
// deep or not well-formed.
function read(drawing) {
  const root = { name: "", attributes: new Map(), children: [] };
  const open = [root];
  let nodes = 0;
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < drawing.length) {
    const [token, raw, text, end, name, more, empty] = TOKEN.exec(drawing) || [];
    const [inner] = open.slice(-1);
    if (token === undefined || drawing.length > LONGEST || (nodes += 1) > MOST_NODES || open.length > DEEPEST) throw new RangeError("not a picture");
    if (raw !== undefined || text !== undefined) inner.children.push(raw ?? plain(text));
    if (end !== undefined && open.pop().name !== end) throw new RangeError(`</${end}> ends nothing`);
    if (name === undefined) continue;
    const attributes = [...more.matchAll(/([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g)];
    const element = { name, attributes: new Map(attributes.map(([, key, one, other]) => [key, plain(one ?? other)])), children: [] };
    inner.children.push(element);
    if (!empty) open.push(element);
  }
  const [svg, ...rest] = root.children;
  if (open.length > 1 || rest.length || svg.name !== "svg") throw new RangeError("not one picture");
  return svg;
}

// Ids of a picture must not be those of the page.
const own = (id) => `picture-${id}`;

// The value of an attribute that is read as CSS, or null if it could lead out of the picture.
function safeStyle(value) {
  if (value.includes("\\")) return null;
  const references = /\burl\(\s*(["']?)#([\w.-]+)\1\s*\)/gi;
  const calls = [...value.replace(references, "").matchAll(/([\w-]*)\(/g)];
  if (!calls.every(([, name]) => !name || FUNCTIONS.has(name.toLowerCase()))) return null;
  return value.replace(references, (found, quote, id) => `url(#${own(id)})`);
}

// An attribute as a pair of name and value; the value is null if pictures may not have it.
function safe([name, value]) {
  if (name === "href" || name === "xlink:href") return ["href", /^#[\w.-]+$/.test(value.trim()) ? `#${own(value.trim().slice(1))}` : null];
  if (name === "id") return [name, own(value)];
  if (name === "attributeName") return [name, (ATTRIBUTES.has(value) && !value.startsWith("data-")) || STYLES.has(value) ? value : null];
  if (STYLES.has(name)) return [name, safeStyle(value)];
  return [name, ATTRIBUTES.has(name) ? value : null];
}

// The properties of a `style`, each of which must be one that could be an attribute.
function safeProperties(text) {
  const { style } = document.createElementNS(SVG, "g");
  style.cssText = text;
  const known = [...style].filter((name) => STYLES.has(name)).map((name) => [name, safeStyle(style.getPropertyValue(name))]);
  return known.filter(([, value]) => value !== null).map(([name, value]) => `${name}: ${value}`).join("; ");
}

// Whether an element is shown at all: not if it is unknown, or animates what pictures may not have.
function isShown({ name, attributes }) {
  if (!ANIMATIONS.has(name) || name === "animateMotion") return ELEMENTS.has(name);
  return safe(["attributeName", attributes.get("attributeName") || ""])[1] !== null;
}

// What tells a node from its siblings: a button stays the same node wherever it moves to, so that it keeps the focus.
const keyOf = (name, get) => [name, get("data-action"), get("data-field"), get("data-value")].join(" ");
const keyOfNode = (node) => (node.nodeType === Node.TEXT_NODE ? "" : keyOf(node.localName, (name) => node.getAttribute(name)));

// Make a node of the page look like an element of a drawing. What is the same stays, so that a tick disturbs neither the
// focus nor a held mouse button.
function redraw(node, { attributes, children }) {
  const wanted = new Map([...attributes].map(safe).filter(([, value]) => value !== null));
  for (const { name } of [...node.attributes]) if (!wanted.has(name) && !OURS.has(name)) node.removeAttribute(name);
  for (const [name, value] of wanted) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  const style = attributes.get("style") || "";
  if ((node.styled || "") !== style) node.style.cssText = safeProperties(style);
  node.styled = style;
  const had = new Map();
  for (const child of [...node.childNodes].reverse()) {
    const key = keyOfNode(child);
    if (!had.has(key)) had.set(key, []);
    if (!child.isFrame) had.get(key).push(child);
  }
  let follows = node.firstChild;
  for (const child of children) {
    const isText = typeof child === "string";
    if (!isText && !isShown(child)) continue;
    const key = isText ? "" : keyOf(child.name, (name) => child.attributes.get(name) ?? null);
    const copy = (had.get(key) || []).pop() || (isText ? document.createTextNode("") : document.createElementNS(SVG, child.name));
    if (isText) setText(copy, child);
    else redraw(copy, child);
    if (copy === follows) follows = follows.nextSibling;
    else node.insertBefore(copy, follows);
  }
  for (const rest of had.values()) for (const child of rest) child.remove();
}

// The picture of a drawing as an `<svg>` of this page; an older one changes into it. Null if it is no picture.
function picture(drawing, older) {
  let source = null;
  try {
    source = read(drawing.trim());
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
  const root = older || document.createElementNS(SVG, "svg");
  const focused = root.contains(document.activeElement);
  redraw(root, source);
  // What is used may use nothing else: a few lines would make millions of shapes.
  for (const use of root.querySelectorAll("use")) {
    const used = root.querySelector(`[id="${CSS.escape((use.getAttribute("href") || "").slice(1))}"]`);
    if (!used || used.matches("use, :has(use)")) use.remove();
  }
  const size = ["width", "height"].map((name) => parseFloat(source.attributes.get(name)));
  if (!root.hasAttribute("viewBox") && size.every((length) => length > 0)) root.setAttribute("viewBox", `0 0 ${size.join(" ")}`);
  const title = [...root.children].find((child) => child.localName === "title");
  root.setAttribute("role", "img");
  root.setAttribute("aria-label", (title && title.textContent.trim()) || "The board");
  // Each drawing has animations of its own, which begin with it.
  if (root.querySelector([...ANIMATIONS].join())) root.setCurrentTime(0);
  if (focused && !root.contains(document.activeElement)) el("board").focus();
  return root;
}
