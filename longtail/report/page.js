// The examples of a report: two methods side by side, on documents drawn at random or where one of them is ahead.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const [first, second, view] = ["first", "second", "view"].map((id) => document.getElementById(id));
  const shown = document.getElementById("documents");

  function node(tag, kind, text) {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function list(tag, ids, isHit) {
    const made = node(tag);
    for (const id of ids) {
      const [text, count] = data.labels[id];
      const item = node("li", isHit(id) ? "hit" : "", text);
      item.append(count ? node("span", "count", `${count}×`) : node("span", "unseen", "unseen"));
      made.append(item);
    }
    return made;
  }

  function card(one, methods) {
    const made = node("div", "card example");
    const truth = new Set(one.true);
    made.append(node("h3", "text", one.text));
    const columns = node("div", "columns");
    const right = node("div");
    right.append(node("h4", "", one.true.length === 1 ? "1 true label" : `${one.true.length} true labels`));
    right.append(list("ul", one.true.slice(0, 12), () => false));
    if (one.true.length > 12) right.append(node("span", "note", `and ${one.true.length - 12} more`));
    columns.append(right);
    for (const i of methods) {
      const part = node("div");
      part.append(node("h4", "", data.methods[i]));
      part.append(one.tops[i].length ? list("ol", one.tops[i], (id) => truth.has(id)) : node("p", "note", "nothing"));
      columns.append(part);
    }
    made.append(columns);
    return made;
  }

  function named() {
    const [a, b] = [first, second].map((select) => data.methods[select.value]);
    view.options[1].textContent = `where ${a} is ahead (${data.wins[first.value][second.value].toFixed(1)} %)`;
    view.options[2].textContent = `where ${b} is ahead (${data.wins[second.value][first.value].toFixed(1)} %)`;
  }

  function show() {
    const alone = data.methods.length === 1;
    const methods = alone ? [0] : [...new Set([first.value, second.value])].map(Number);
    if (!alone) named();
    const [a, b] = methods;
    const key = { random: "random", first: `${a},${b}`, second: `${b},${a}` }[alone ? "random" : view.value];
    const documents = data.views[key] || [];
    shown.replaceChildren(...documents.map((i) => card(data.documents[i], methods)));
    if (!documents.length) shown.append(node("p", "note", "There is no such document."));
  }

  for (const select of [first, second, view]) if (select) select.addEventListener("change", show);
  show();
})();
