"""The picture of the README: labels that a trained run ranks for a text, why the first one, and how good the run is.

    longtail evaluate RUN --json RUN/evaluation.json
    python docs/picture.py RUN 'a text' docs/picture.svg

Everything in it is what the run answers. One drawing serves light and dark.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from longtail.files import read_json, replacing
from longtail.model import load
from longtail.model.explanation import explain

WIDTH, HEIGHT, EDGE, MIDDLE, LINE, TOP = 860, 332, 24, 532, 34, 92
_LABELS, _LETTERS, _KINDS = 6, 50, 5  # and the best score kinds
_METRICS = ("P@1", "P@5", "R@5", "PSP@5")
_STYLE = """
text{font:14px system-ui,"Helvetica Neue",sans-serif;fill:#1d1f21}
.q{fill:#565b60;font-size:12px}.b{font-weight:600}.e{text-anchor:end}
.ground{fill:#fff;stroke:#d9d6cf}.field{fill:#fbfaf7;stroke:#85898d}.bar{fill:#d3ebe0}.minus{fill:#f6d5cf}.rule{stroke:#d9d6cf}
@media(prefers-color-scheme:dark){text{fill:#e8e6e1}.q{fill:#b0b5b9}.ground{fill:#1e2123;stroke:#383c40}
.field{fill:#16181a;stroke:#84898e}.bar{fill:#21473a}.minus{fill:#5d2f29}.rule{stroke:#383c40}}
"""


def picture(run: Path, text: str) -> str:
    """The drawing as SVG."""
    model = load(run, device="cpu")
    labels = model.predict([text], _LABELS)
    (why,) = explain(model, {"title": text}, labels.rows[0, :1])
    chances = [f"{100 * chance:.0f} %" for chance in labels.probabilities[0]] if model.calibrations else []
    path = run / "evaluation.json"
    evaluation = read_json(path, remedy="longtail evaluate RUN --json RUN/evaluation.json", keys={"kinds": dict})
    parts = [
        f'<rect class="ground" x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10"/>',
        *_ranking(text, [label.text for label in labels[0]], labels.scores[0].tolist(), chances),
        *_words(why.words),
        *_table(evaluation, model.kinds[-_KINDS:]),
    ]
    about = f"Labels that a trained model ranks for the text {text}, why the first one, and its metrics."
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    return f"{head}<title>{escape(about)}</title><style>{_STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"


def _text(x: float, y: float, content: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(content)}</text>'


def _cut(content: str, letters: int) -> str:
    return content if len(content) <= letters else content[: letters - 1].rstrip() + "…"


def _ranking(text: str, labels: Sequence[str], scores: Sequence[float], chances: Sequence[str]) -> list[str]:
    """The text, and its labels with bars as long as their scores."""
    width = MIDDLE - 2 * EDGE
    parts = [
        _text(EDGE, 30, "a text", "q"),
        f'<rect class="field" x="{EDGE}" y="40" width="{width}" height="36" rx="5"/>',
        _text(EDGE + 12, 63, _cut(text, _LETTERS + 10)),
    ]
    for i, (label, score) in enumerate(zip(labels, scores, strict=True)):
        y, share = TOP + LINE * i, score / scores[0]
        parts.append(f'<rect class="bar" x="{EDGE}" y="{y}" width="{width * share:.0f}" height="{LINE - 4}" rx="3"/>')
        parts.append(_text(EDGE + 12, y + 20, _cut(label, _LETTERS - 3 * (i == 0)), "b" if i == 0 else ""))
        parts.append(_text(EDGE + width - 10, y + 20, chances[i] if chances else f"{score:.2f}", "e"))
    said = "how probable each label is" if chances else "by their score"
    return [*parts, _text(EDGE, HEIGHT - 18, f"labels ranked by the model, and {said}", "q")]


def _words(words: Sequence[tuple[str, float]]) -> list[str]:
    """What the first label's score loses without each word."""
    parts, x, y = [_text(MIDDLE, 30, "why the first: what it loses without a word", "q")], float(MIDDLE), 40
    most = max([abs(weight) for _, weight in words] + [1e-9])
    for word, weight in words:
        said = f"{_cut(word, 24)} {weight:+.2f}"
        width = 8.2 * len(said) + 14
        if x + width > WIDTH - EDGE:
            x, y = MIDDLE, y + 32
        if y > 136:
            break
        shade = "bar" if weight > most / 10 else "minus" if weight < -most / 10 else "field"
        parts.append(f'<rect class="{shade}" x="{x:g}" y="{y}" width="{width:g}" height="26" rx="4"/>')
        parts.append(_text(x + 7, y + 18, said))
        x += width + 6
    return parts


def _table(evaluation: dict[str, Any], kinds: Sequence[str]) -> list[str]:
    """The metrics of each score, the best of each in bold."""
    found = evaluation["kinds"]
    names = [name for name in _METRICS if all(name in found[kind] for kind in kinds)]
    top = HEIGHT - 18 - 24 * len(kinds)
    best = {name: float(np.max([found[kind][name] for kind in kinds])) for name in names}
    columns = {name: WIDTH - EDGE - 58 * (len(names) - 1 - i) for i, name in enumerate(names)}
    parts = [_text(MIDDLE, top - 24, f"on {evaluation['n']:,} test documents, in percent", "q")]
    parts += [_text(x, top, name, "q e") for name, x in columns.items()]
    for i, kind in enumerate(kinds):
        y = top + 24 * (i + 1)
        parts.append(f'<line class="rule" x1="{MIDDLE}" x2="{WIDTH - EDGE}" y1="{y - 17}" y2="{y - 17}"/>')
        parts.append(_text(MIDDLE, y, kind))
        for name, x in columns.items():
            value = found[kind][name]
            parts.append(_text(x, y, f"{value:.1f}", "e b" if value == best[name] else "e"))
    return parts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("text")
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    with replacing(given.out) as temporary:
        temporary.write_text(picture(given.run, given.text), encoding="utf-8")
