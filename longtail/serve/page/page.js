/** The page: rank labels as one types, see why, find labels, correct and change them. */

import { showCard } from "./card.js";
import { ask, at, bar, closeWithEscape, counted, later, make, opener, replaceItems, say } from "./dom.js";

const FOUND = 10; // labels of a search
const CORRECTIONS = 1000; // that the server gives at a time
const state = { asked: 0, looked: 0, kind: null, probable: [], changes: false, text: "", said: new Map() };

const token = () => at("token").value;
const keyOf = (text, uid) => JSON.stringify([text, uid]);
/** The text as it is sent: a title, with what else there is if the model reads that. */
function given() {
  const title = at("text").value.trim(), content = at("more").hidden ? "" : at("content").value.trim();
  return content ? { title, content } : title;
}

const saidOf = (text, uid) => state.said.get(keyOf(text, uid));

async function predict() {
  const number = ++state.asked;
  const text = given();
  const isSame = JSON.stringify(text) === JSON.stringify(state.text);
  if (!isSame) say("corrected", "");
  state.text = text;
  if (!text) { at("results").replaceChildren(); at("missing").hidden = true; say("status", ""); return; }
  const start = performance.now();
  try {
    const body = await ask("POST", "v1/predict", { texts: [text], k: Number(at("k").value), kind: state.kind, probabilities: state.probable.includes(state.kind) });
    if (number !== state.asked) return; // a newer text was asked for meanwhile
    const labels = body.results[0].labels;
    showResults(text, body.kind, labels, isSame);
    if (!isSame) find(); // what is said to be right is of a text
    at("missing").hidden = !state.changes;
    say("status", `${counted(labels.length, "label", "labels")} by the ${body.kind} score, in ${Math.round(performance.now() - start)} ms; choose one to see why`);
  } catch (problem) {
    if (number === state.asked) say("status", problem.message, true);
  }
}

function showResults(text, kind, labels, isSame) {
  const scores = labels.map((label) => label.score);
  const low = Math.min(0, ...scores), high = Math.max(...scores, low + 1e-9);
  replaceItems(at("results"), labels.map((label) => {
    const chance = label.probability === undefined ? "" : ` · ${Math.round(100 * label.probability)} %`;
    const score = make("span", label.score.toFixed(3) + chance, { class: "score" });
    const item = make("li");
    item.dataset.uid = label.uid;
    const button = opener(item, [bar((label.score - low) / (high - low)), make("span", label.text), score], label.uid, () => why(text, kind, label.uid));
    item.append(make("div", [button, ...verdicts(label, () => text)], { class: "line" }));
    return item;
  }), isSame);
}

async function why(text, kind, uid) {
  const body = await ask("POST", "v1/predict", { texts: [text], k: 1, kind, allowed: [uid], explain: true });
  const { labels: [label], links } = body.results[0];
  if (!label) return ["This label is not there any more, or not given to this text."];
  const most = Math.max(...label.words.map((word) => Math.abs(word.weight)), 1e-9);
  const shown = [
    make("h3", "Scores"),
    make("dl", Object.entries(label.scores).flatMap(([name, score]) => [make("dt", name), make("dd", score.toFixed(3))]), { class: "scores" }),
    make("h3", `What the ${kind} score loses without each word`),
    make("p", label.words.map((word) => {
      const share = word.weight / most;
      const sign = share > 0.1 ? " plus" : share < -0.1 ? " minus" : "";
      return make("span", `${word.word} ${word.weight >= 0 ? "+" : "−"}${Math.abs(word.weight).toFixed(2)}`, { class: `word${sign}` });
    })),
  ];
  if (label.near) shown.push(make("h3", "Nearest remembered documents with this label"), scored(label.near.map(({ title, similarity }) => [similarity, title ?? "a document whose title is not kept"])));
  if (links) shown.push(make("h3", "Nodes that the text is linked to"), scored(links.map(({ text: node, score, weight }) => [weight ?? score, node])));
  return [...shown, make("p", make("small", `Identifier: ${uid}`))];
}

/** Pairs of a score and what has it, as a list. */
function scored(pairs) {
  if (!pairs.length) return make("p", make("small", "None."));
  return make("ol", pairs.map(([score, text]) => make("li", [make("span", score.toFixed(3), { class: "score" }), make("span", text)])), { class: "scored" });
}

/** The buttons that say of a label that it is right or wrong for a text. */
function verdicts(label, textOf, kinds = ["right", "wrong"]) {
  if (!state.changes) return [];
  return kinds.map((name) => {
    const isRight = name === "right", pressed = isRight && saidOf(textOf(), label.uid) !== undefined;
    const about = `${isRight ? "Right" : "Wrong"} for this text: ${label.text}`;
    const button = make("button", isRight ? "✓" : "✗", { type: "button", class: `verdict ${name}`, "aria-label": about, title: about, name });
    if (isRight) button.setAttribute("aria-pressed", String(pressed));
    button.addEventListener("click", () => (pressed ? takeBack(saidOf(textOf(), label.uid), label.text) : correct(textOf(), label, isRight)));
    return button;
  });
}

async function correct(text, label, right) {
  if (!text) { say("corrected", "Type the text first."); at("text").focus(); return; }
  await change("corrected", async () => {
    const { id, remembered } = await ask("POST", "v1/corrections", { text, uid: label.uid, right }, token());
    if (right) state.said.set(keyOf(text, label.uid), id); else state.said.delete(keyOf(text, label.uid));
    const back = make("button", "Take back", { type: "button", class: "small" });
    back.addEventListener("click", () => takeBack(id, label.text));
    const effect = remembered ? ", and remembered" : right ? ", as data to train on" : ", and not given to it any more";
    return [`Kept: ${label.text} is ${right ? "right" : "wrong"} for this text${effect}. `, back];
  });
}

async function takeBack(id, text) {
  await change("corrected", async () => {
    await ask("DELETE", `v1/corrections/${id}`, null, token());
    for (const [key, known] of state.said) if (known === id) state.said.delete(key);
    return [`Taken back, what was said of ${text ?? "a label"}.`];
  });
}

/** Do something that needs the token, say what came of it, and show everything anew. */
async function change(place, action) {
  try {
    const done = await action();
    for (const id of ["changed", place]) say(id, "");
    at(place).append(...done);
  } catch (problem) {
    say(place, problem.message, true);
    if (/token/.test(problem.message)) at("token").focus();
    return false;
  }
  await Promise.all([predict(), find(), showCorrections(), openModel()]);
  return true;
}

async function find() {
  const number = ++state.looked;
  const query = at("query").value.trim();
  if (!query) { at("found").replaceChildren(); say("matches", ""); return; }
  try {
    const { labels } = await ask("GET", `v1/labels?limit=${FOUND + 1}&query=${encodeURIComponent(query)}`);
    if (number !== state.looked) return;
    replaceItems(at("found"), labels.slice(0, FOUND).map(showFound));
    const some = labels.length > FOUND ? `The first ${FOUND} labels; type more to find others` : counted(labels.length, "label", "labels");
    say("matches", labels.length ? some : "No label contains this.");
  } catch (problem) {
    if (number === state.looked) say("matches", problem.message, true);
  }
}

function showFound(label) {
  const known = [label.added ? "added" : "", label.documents === null ? "" : counted(label.documents, "document", "documents")];
  const item = make("li");
  item.dataset.uid = label.uid;
  const content = [make("span", label.text), make("span", known.filter(Boolean).join(" · "), { class: "score" })];
  const button = opener(item, content, label.uid, () => about(label));
  item.append(make("div", [button, ...verdicts(label, () => state.text, ["right"])], { class: "line" }));
  return item;
}

async function about(label) {
  const { results: [{ labels }] } = await ask("POST", "v1/predict", { texts: [label.text], k: 6 });
  const others = labels.filter((other) => other.uid !== label.uid).slice(0, 5);
  const shown = [
    make("h3", "Identifier"), make("p", label.uid),
    make("h3", "Nearest labels, by its text"),
    scored(others.map((other) => [other.score, other.text])),
  ];
  if (!state.changes) return shown;
  const button = make("button", "Remove this label", { type: "button", class: "small" });
  button.addEventListener("click", () => change("changed", async () => {
    await ask("DELETE", `v1/labels/${encodeURIComponent(label.uid)}`, null, token());
    return [`Removed ${label.uid}.`];
  }));
  return [...shown, button];
}

/** What was said of texts and labels, newest first, asked for part by part. */
async function allCorrections() {
  const found = [];
  for (let before = ""; ; before = `&before=${found[found.length - 1].id}`) {
    const { corrections } = await ask("GET", `v1/corrections?limit=${CORRECTIONS}${before}`, null, token());
    found.push(...corrections);
    if (corrections.length < CORRECTIONS) return found;
  }
}

async function showCorrections() {
  if (!at("kept").open) return;
  try {
    const corrections = await allCorrections();
    at("none").hidden = corrections.length > 0;
    for (const { id, text, uid, right } of corrections) if (right) state.said.set(keyOf(text.content ? { title: text.title, content: text.content } : text.title, uid), id);
    replaceItems(at("corrections"), corrections.map(({ id, text, uid, label, right }) => {
      const button = make("button", "Take back", { type: "button", class: "small", "aria-label": `Take back: ${label ?? uid}` });
      button.addEventListener("click", () => takeBack(id, label));
      return make("li", [make("span", [make("strong", label ?? uid), right ? " is right for " : " is wrong for ", make("q", text.title || text.content)]), button]);
    }));
  } catch (problem) {
    at("kept").open = false;
    say("changed", problem.message, true);
    at("token").focus();
  }
}

async function add(event) {
  event.preventDefault();
  const examples = at("examples").value.split("\n").map((line) => line.trim()).filter(Boolean);
  const label = { uid: at("uid").value, text: at("title").value, examples };
  const done = await change("changed", async () => {
    await ask("POST", "v1/labels", label, token());
    return [`Added ${label.uid}.`];
  });
  if (done) {
    for (const id of ["uid", "title", "examples"]) at(id).value = "";
    at("uid").focus();
  }
}

async function openModel() {
  let model;
  try { model = await ask("GET", "v1/model"); } catch (problem) { say("summary", problem.message, true); return; }
  say("summary", `${model.recipe} · ${counted(model.labels.all, "label", "labels")}`);
  Object.assign(state, { probable: model.probabilities, changes: model.changes });
  if (!state.kind) showKinds(model.kinds);
  at("more").hidden = !model.fields.includes("content");
  at("changes").hidden = !model.changes;
  at("no-changes").hidden = model.changes;
  showCard(model);
}

function showKinds(kinds) {
  state.kind = kinds[kinds.length - 1];
  at("kinds").append(...kinds.map((kind) => {
    const input = make("input", [], { type: "radio", name: "kind", value: kind });
    input.checked = kind === state.kind;
    input.addEventListener("change", () => { state.kind = kind; predict(); });
    return make("label", [input, kind]);
  }));
}

for (const id of ["text", "content"]) at(id).addEventListener("input", later(predict));
at("k").addEventListener("change", predict);
for (const id of ["ask", "access"]) at(id).addEventListener("submit", (event) => event.preventDefault());
at("query").addEventListener("input", later(find));
at("find").addEventListener("submit", (event) => { event.preventDefault(); find(); });
at("missing").firstElementChild.addEventListener("click", () => { say("matches", "Find the label, and mark it as right for the text."); at("query").focus(); });
at("kept").addEventListener("toggle", async () => { await showCorrections(); predict(); }); // which marks what is right
at("add").addEventListener("submit", add);
closeWithEscape();
openModel();
