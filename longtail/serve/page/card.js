/** The model card: what answers, how it was trained, and how good it is. */

import { at, make, number, showList } from "./dom.js";

const WIDE = 480, HIGH = 170, FLOOR = 145;

export function showCard(model) {
  const { labels, settings, index } = model;
  const searched = Object.entries(index).map(([kind, about]) => `${kind}: ${about.method}, recall@${about.k} ${about.recall}`).join("; ");
  showList("card", {
    Recipe: model.recipe,
    Encoder: `${model.encoder}, ${model.width} wide, reads ${model.fields.join(", ")}`,
    Scores: model.kinds.join(", "),
    Labels: `${number(labels.all)}: ${number(labels.model)} of the model, ${number(labels.hidden)} of these hidden, ${number(labels.added)} added`,
    Search: searched || "exact",
  });
  showList("settings", { ...(settings.versions ?? {}), ...(settings.arguments ?? {}) });
  if (model.evaluation) showMetrics(model.evaluation, model.kinds); else drawTraining(model.training);
}

/** The metrics of each score, as a table; the best of each column stands out. */
function showMetrics(evaluation, kinds) {
  const known = kinds.filter((kind) => kind in evaluation.kinds);
  if (!known.length) return;
  const names = ["P@1", "P@5", "R@5", "PSP@5", "nDCG@5"].filter((name) => name in evaluation.kinds[known[0]]);
  const best = Object.fromEntries(names.map((name) => [name, Math.max(...known.map((kind) => evaluation.kinds[kind][name]))]));
  const cell = (value, name) => make("td", value === best[name] ? make("strong", value.toFixed(1)) : value.toFixed(1));
  const rows = known.map((kind) => make("tr", [make("th", kind, { scope: "row" }), ...names.map((name) => cell(evaluation.kinds[kind][name], name))]));
  const head = make("tr", [make("th", "Score", { scope: "col" }), ...names.map((name) => make("th", name, { scope: "col" }))]);
  const caption = make("caption", `Metrics on ${number(evaluation.n)} test documents, in percent`);
  at("measured").replaceChildren(make("table", [caption, make("thead", head), make("tbody", rows)]));
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
  const caption = "Loss by epoch, for each stage of the training";
  if (!stages.length) return;
  const drawn = make("svg", shapes, { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": caption });
  at("measured").replaceChildren(make("figure", [make("figcaption", caption), drawn]));
}

