"use strict";

const PAUSE = 150; // milliseconds without a key before the server is asked
const at = (id) => document.getElementById(id);
const state = { asked: 0, looked: 0, kind: null, probable: [] };

function make(tag, content, about = {}) {
  const svg = ["svg", "rect", "line", "text", "polyline", "title"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(about)) made.setAttribute(name, value);
  made.append(...(Array.isArray(content) ? content : [content]));
  return made;
}

async function ask(method, path, content, token) {
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

function later(action) {
  let timer;
  return () => { clearTimeout(timer); timer = setTimeout(action, PAUSE); };
}

function say(id, text, bad = false) {
  at(id).textContent = text;
  at(id).classList.toggle("bad", bad);
}

async function predict() {
  const number = ++state.asked;
  const text = at("text").value.trim();
  if (!text) { at("results").replaceChildren(); say("status", ""); return; }
  const start = performance.now();
  try {
    const body = await ask("POST", "v1/predict", { texts: [text], k: Number(at("k").value), kind: state.kind, probabilities: state.probable.includes(state.kind) });
    if (number !== state.asked) return; // a newer text was asked for meanwhile
    const labels = body.results[0].labels;
    showResults(text, body.kind, labels);
    say("status", `${labels.length} labels by the ${body.kind} score, in ${Math.round(performance.now() - start)} ms; choose one to see why`);
  } catch (problem) {
    if (number === state.asked) say("status", problem.message, true);
  }
}

function showResults(text, kind, labels) {
  const scores = labels.map((label) => label.score);
  const low = Math.min(0, ...scores), high = Math.max(...scores, low + 1e-9);
  at("results").replaceChildren(...labels.map((label) => {
    const width = Math.max(0, (label.score - low) / (high - low));
    const bar = make("svg", make("rect", [], { width: `${(100 * width).toFixed(1)}%`, height: "100%" }), { "aria-hidden": "true" });
    const chance = label.probability === undefined ? "" : ` · ${Math.round(100 * label.probability)} %`;
    const score = make("span", label.score.toFixed(3) + chance, { class: "score" });
    const button = make("button", [bar, make("span", label.text), score], { class: "label", type: "button", "aria-expanded": "false", title: label.uid });
    const item = make("li", button);
    button.addEventListener("click", () => explain(item, button, text, kind, label.uid));
    return item;
  }));
}

async function explain(item, button, text, kind, uid) {
  const open = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!open));
  if (open) { item.lastChild.remove(); return; }
  const why = make("div", "…", { class: "why" });
  item.append(why);
  try {
    const body = await ask("POST", "v1/predict", { texts: [text], k: 1, kind, allowed: [uid], explain: true });
    const label = body.results[0].labels[0];
    if (!label) { why.textContent = "This label is not there any more."; return; }
    const scores = Object.entries(label.scores).map(([name, score]) => `${name} ${score.toFixed(3)}`).join(" · ");
    const most = Math.max(...label.words.map((word) => Math.abs(word.weight)), 1e-9);
    why.replaceChildren(
      make("p", `Scores: ${scores}`),
      make("p", `What the ${kind} score loses without each word:`),
      ...label.words.map((word) => {
        const share = word.weight / most;
        const sign = share > 0.1 ? " plus" : share < -0.1 ? " minus" : "";
        return make("span", `${word.word} ${word.weight >= 0 ? "+" : "−"}${Math.abs(word.weight).toFixed(2)}`, { class: `word${sign}` });
      }),
      make("p", make("small", `Identifier: ${uid}`)),
    );
  } catch (problem) {
    why.textContent = problem.message;
  }
}

async function find() {
  const number = ++state.looked;
  const query = at("query").value.trim();
  if (!query) { at("found").replaceChildren(); return; }
  try {
    const body = await ask("GET", `v1/labels?limit=8&query=${encodeURIComponent(query)}`);
    if (number !== state.looked) return;
    at("found").replaceChildren(...body.labels.map((label) => {
      const button = make("button", "Remove", { type: "button", "aria-label": `Remove ${label.text}` });
      button.addEventListener("click", () => change(() => ask("DELETE", `v1/labels/${encodeURIComponent(label.uid)}`, null, at("token").value), `Removed ${label.uid}.`));
      return make("li", [make("span", [label.text, " ", make("small", label.added ? "added" : "")]), button]);
    }));
    if (!body.labels.length) at("found").replaceChildren(make("li", make("small", "No label contains this.")));
  } catch (problem) {
    say("changed", problem.message, true);
  }
}

async function change(action, done) {
  try {
    await action();
    say("changed", done);
    predict(); find(); card();
    return true;
  } catch (problem) {
    say("changed", problem.message, true);
    return false;
  }
}

async function add(event) {
  event.preventDefault();
  const examples = at("examples").value.split("\n").map((line) => line.trim()).filter(Boolean);
  const label = { uid: at("uid").value, text: at("title").value, examples };
  if (await change(() => ask("POST", "v1/labels", label, at("token").value), `Added ${label.uid}.`)) {
    for (const id of ["uid", "title", "examples"]) at(id).value = "";
    at("uid").focus();
  }
}

async function card() {
  let model;
  try { model = await ask("GET", "v1/model"); } catch (problem) { say("summary", problem.message, true); return; }
  const number = (value) => value.toLocaleString("en");
  const { labels, settings, index } = model;
  say("summary", `${model.recipe} · ${number(labels.all)} labels`);
  state.probable = model.probabilities;
  if (!state.kind) showKinds(model.kinds);
  at("changes").hidden = !model.changes;
  at("no-changes").hidden = model.changes;
  const searched = Object.entries(index).map(([kind, about]) => `${kind}: ${about.method}, recall@${about.k} ${about.recall}`).join("; ");
  showList("card", {
    Recipe: model.recipe,
    Encoder: `${model.encoder}, ${model.width} wide, reads ${model.fields.join(", ")}`,
    Scores: model.kinds.join(", "),
    Labels: `${number(labels.all)}: ${number(labels.model)} of the model, ${number(labels.hidden)} of these hidden, ${number(labels.added)} added`,
    Search: searched || "exact",
  });
  showList("settings", { ...(settings.versions ?? {}), ...(settings.arguments ?? {}) });
  if (model.evaluation) drawMetrics(model.evaluation, model.kinds); else drawTraining(model.training);
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

function showList(id, entries) {
  at(id).replaceChildren(...Object.entries(entries).flatMap(([name, value]) => [make("dt", name), make("dd", value === null ? "–" : String(value))]));
}

const WIDE = 480, HIGH = 170, FLOOR = 145;

function figure(caption, shapes, legend) {
  at("chart").hidden = false;
  at("chart").querySelector("figcaption").textContent = caption;
  at("plot").replaceChildren(make("svg", shapes, { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": caption }));
  at("legend").replaceChildren(...legend);
}

function drawMetrics(evaluation, kinds) {
  const names = ["P@1", "P@5", "R@5", "PSP@5", "nDCG@5"].filter((name) => name in evaluation.kinds[kinds[0]]);
  const most = Math.max(1, ...kinds.flatMap((kind) => names.map((name) => evaluation.kinds[kind]?.[name] ?? 0)));
  const group = WIDE / names.length, width = (group - 24) / kinds.length;
  const shapes = [make("line", [], { x1: 0, x2: WIDE, y1: FLOOR, y2: FLOOR })];
  names.forEach((name, i) => {
    shapes.push(make("text", name, { x: group * (i + 0.5), y: FLOOR + 18, "text-anchor": "middle" }));
    kinds.forEach((kind, j) => {
      const value = evaluation.kinds[kind]?.[name] ?? 0, height = (value / most) * (FLOOR - 20);
      const x = group * i + 12 + width * j;
      shapes.push(make("rect", make("title", `${kind} ${name} ${value.toFixed(1)}`), { x, y: FLOOR - height, width: width - 3, height, class: `k${j}` }));
      shapes.push(make("text", value.toFixed(0), { x: x + (width - 3) / 2, y: FLOOR - height - 4, "text-anchor": "middle" }));
    });
  });
  const legend = kinds.map((kind, j) => make("span", [make("svg", make("rect", [], { width: "100%", height: "100%", class: `k${j}` }), { "aria-hidden": "true" }), kind]));
  figure(`Metrics on ${evaluation.n.toLocaleString("en")} test documents, in percent`, shapes, legend);
}

function drawTraining(log) {
  const lines = log.filter((line) => line.terms); // an epoch each; others say what was planned or pruned
  const stages = [...new Set(lines.map((line) => line.stage))];
  const width = (WIDE - 20 * (stages.length + 1)) / stages.length;
  const shapes = stages.flatMap((stage, i) => {
    const losses = lines.filter((line) => line.stage === stage).map((line) => Object.values(line.terms).reduce((sum, value) => sum + value, 0));
    const most = Math.max(...losses, 1e-9), left = 20 + i * (width + 20), step = width / Math.max(1, losses.length - 1);
    const points = losses.map((loss, j) => `${(left + j * step).toFixed(1)},${(FLOOR - (loss / most) * (FLOOR - 30)).toFixed(1)}`);
    return [
      make("line", [], { x1: left, x2: left + width, y1: FLOOR, y2: FLOOR }),
      make("polyline", [], { points: points.join(" ") }),
      make("text", `${losses[0].toFixed(3)} → ${losses[losses.length - 1].toFixed(3)}`, { x: left, y: 18 }),
      make("text", `${stage}, ${losses.length} epochs`, { x: left, y: FLOOR + 18 }),
    ];
  });
  if (stages.length) figure("Loss by epoch, for each stage of the training", shapes, []);
}

at("text").addEventListener("input", later(predict));
at("k").addEventListener("change", predict);
at("ask").addEventListener("submit", (event) => event.preventDefault());
at("query").addEventListener("input", later(find));
at("find").addEventListener("submit", (event) => { event.preventDefault(); find(); });
at("add").addEventListener("submit", add);
card();
