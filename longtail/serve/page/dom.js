/** What every part of the page uses: elements, questions to the server, lists. */

const PAUSE = 150; // milliseconds without a key before the server is asked
const SVG = new Set(["svg", "rect", "line", "text", "polyline"]);

export const at = (id) => document.getElementById(id);

export function make(tag, content = [], about = {}) {
  const made = SVG.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(about)) made.setAttribute(name, value);
  made.append(...(Array.isArray(content) ? content : [content]));
  return made;
}

export async function ask(method, path, content, token) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: content && JSON.stringify(content) });
  } catch {
    throw new Error("The server does not answer.");
  }
  const body = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw new Error(body.detail);
  return body;
}

export function later(action) {
  let timer;
  return () => { clearTimeout(timer); timer = setTimeout(action, PAUSE); };
}

export function say(id, text, bad = false) {
  at(id).replaceChildren(text);
  at(id).classList.toggle("bad", bad);
}

export function showList(id, entries) {
  at(id).replaceChildren(...Object.entries(entries).flatMap(([name, value]) => [make("dt", name), make("dd", value === null ? "–" : String(value))]));
}

export const number = (value) => value.toLocaleString("en");

export const counted = (value, one, many) => `${number(value)} ${value === 1 ? one : many}`;

/** A bar behind or beside a value, as wide as a share from 0 to 1 says. */
export function bar(share) {
  const width = `${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%`;
  return make("svg", make("rect", [], { width, height: "100%" }), { "aria-hidden": "true", class: "bar" });
}

/** A button that opens what `fill` makes below it, in its list item, and closes it again. */
export function opener(item, content, title, fill) {
  const button = make("button", content, { class: "label", type: "button", "aria-expanded": "false", title });
  button.addEventListener("click", async () => {
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) { item.querySelector(".why").remove(); return; }
    const why = make("div", "…", { class: "why" });
    item.append(why);
    try { why.replaceChildren(...await fill()); } catch (problem) { why.textContent = problem.message; }
  });
  return button;
}

/** Show other items in a list; what is open may stay open, and the focus stays where it is or goes to the next item. */
export function replaceItems(list, items, staysOpen = true) {
  const before = [...list.children], focused = document.activeElement, place = before.findIndex((item) => item.contains(focused));
  const open = new Set(before.filter((item) => item.querySelector("[aria-expanded=true]")).map((item) => item.dataset.uid));
  list.replaceChildren(...items);
  for (const item of items) if (staysOpen && open.has(item.dataset.uid)) item.querySelector("[aria-expanded]").click();
  if (place < 0 || !items.length) return;
  const item = items.find((one) => one.dataset.uid === before[place].dataset.uid) ?? items[Math.min(place, items.length - 1)];
  (item.querySelector(`button[name="${focused.name}"]`) ?? item.querySelector("button")).focus();
}

/** Escape closes what is open around the focus and goes back to what opened it; if nothing is, all that is open. */
export function closeWithEscape() {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const around = event.target.closest("details[open]") ?? event.target.closest("li");
    if (around?.matches("details")) {
      around.open = false;
      around.querySelector("summary").focus();
      return;
    }
    const own = around?.querySelector("[aria-expanded=true]");
    for (const button of own ? [own] : document.querySelectorAll("[aria-expanded=true]")) button.click();
    own?.focus();
  });
}
