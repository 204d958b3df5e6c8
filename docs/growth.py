"""How time and memory grow with the labels, drawn of what `benchmarks/scale.py --keep` has kept; both axes logarithmic.

    python docs/growth.py growing-sets docs/explanation/growth.svg

One drawing serves light and dark.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

from longtail.files import read_json, replacing

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, PANEL, APART = 860, 420, 56, 44, 46, 190, 14
_CLOCK = "PECOS, by the clock"
_SHOWN = 3  # parts of training: those that take most at the largest size
_STYLE = """
text{font:11px system-ui,"Helvetica Neue",sans-serif;fill:#1d1f21}
.b{font-weight:600;font-size:13px}.q{fill:#565b60;font-size:10px}.e{text-anchor:end}.m{text-anchor:middle}
.ground{fill:#fff;stroke:#d9d6cf}.grid{stroke:#e6e3dc}.line{fill:none;stroke:var(--c);stroke-width:2}.dot{fill:var(--c)}
.peer{stroke-dasharray:5 4}
svg{--s0:#2563eb;--s1:#c2570c;--s2:#0b8f63;--s3:#b4245d;--s4:#7c3aed;--s5:#0e7f97;--s6:#5b6472;--s7:#a16207}
@media(prefers-color-scheme:dark){text{fill:#e8e6e1}.q{fill:#b0b5b9}.ground{fill:#1e2123;stroke:#383c40}.grid{stroke:#33373b}
svg{--s0:#7aa5ff;--s1:#f59e5c;--s2:#45c79a;--s3:#f2789f;--s4:#b794f6;--s5:#4cc3dc;--s6:#a3abb8;--s7:#dcb347}}
"""

Series: TypeAlias = Mapping[str, Sequence[tuple[float, float]]]
"""By name: the labels of each size, and a value above 0."""


def picture(kept: Mapping[str, Any]) -> str:
    """The drawing as SVG.

    Args:
        kept: what `benchmarks/scale.py --keep` writes.
    """
    sizes = [size["parts"] | size for size in kept["sizes"]]
    parts = max(kept["sizes"], key=lambda size: size["labels"])["parts"]
    first, *dearest = [*parts][:1] + sorted(parts, key=lambda part: -parts[part]["processor_seconds"])[:_SHOWN]
    seconds = {name: _of(sizes, name, "processor_seconds") for name in ("training", "evaluation", *dearest)}
    memory = {name: _of(sizes, name, "peak_memory", 2**30) for name in ("training", "evaluation", first)}
    seconds[_CLOCK], memory["PECOS"] = _of(sizes, "pecos", "seconds"), _of(sizes, "pecos", "peak_memory", 2**30)
    colours = {name: f"--c:var(--s{i})" for i, name in enumerate(dict.fromkeys(("PECOS", *seconds, *memory)))}
    colours[_CLOCK] = colours["PECOS"]
    about = f"Time and memory of {kept['recipe']} and of PECOS XR-Linear against the number of labels"
    inside = [
        f'<rect class="ground" x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10"/>',
        *_panel(LEFT, "processor seconds", seconds, colours),
        *_panel(WIDTH // 2 + LEFT, "peak memory, GiB", memory, colours),
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    return f"{head}<title>{escape(about)}</title><style>{_STYLE}</style>\n" + "\n".join(inside) + "\n</svg>\n"


def _of(sizes: Sequence[Mapping[str, Any]], name: str, what: str, unit: float = 1.0) -> list[tuple[float, float]]:
    return [(size["labels"], size[name][what] / unit) for size in sizes if size.get(name, {}).get(what)]


def _panel(left: float, title: str, series: Series, colours: Mapping[str, str]) -> list[str]:
    """A plot of some lines, each with its name at its end."""
    drawn = {name: of for name, of in series.items() if of}
    points = [point for of in drawn.values() for point in of]
    (low, high), (least, most) = ((min(of) / 1.15, max(of) * 1.15) for of in zip(*points, strict=True))

    def x(value: float) -> float:
        return left + PANEL * math.log(value / low) / math.log(high / low)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log(value / least) / math.log(most / least)

    parts = [_text(left, TOP - 18, title, "b"), _text(left + PANEL / 2, HEIGHT - 12, "labels", "q m")]
    for value in _ticks(least, most):
        parts.append(f'<line class="grid" x1="{left}" x2="{left + PANEL}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        parts.append(_text(left - 7, y(value) + 4, f"{value:,g}", "q e"))
    for value in sorted({at for at, _ in points}):
        parts.append(f'<line class="grid" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        said = f"{value / 1e6:.2g}M" if value >= 1e6 else f"{round(value, -3) / 1e3:g}k"
        parts.append(_text(x(value), HEIGHT - BOTTOM + 16, said, "q m"))
    ends = {name: y(of[-1][1]) + 4 for name, of in drawn.items()}
    for (name, of), end in zip(drawn.items(), _spread([*ends.values()]), strict=True):
        path, style = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in of), f'style="{colours[name]}"'
        parts.append(f'<polyline class="line{" peer" * name.startswith("PECOS")}" {style} points="{path}"/>')
        parts += [f'<circle class="dot" {style} cx="{x(at):.1f}" cy="{y(value):.1f}" r="3"/>' for at, value in of]
        parts.append(
            f'<text x="{left + PANEL + 8:g}" y="{end:.1f}" style="{colours[name]};fill:var(--c)">{escape(name)}</text>'
        )
    return parts


def _ticks(low: float, high: float) -> list[float]:
    """1, 3, 10 and so on between two values."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [factor * 10.0**power for power in powers for factor in (1, 3) if low <= factor * 10.0**power <= high]


def _spread(heights: Sequence[float]) -> list[float]:
    """Heights of lines of text that are apart, lowest text first, in the order that was given."""
    found, below = [0.0] * len(heights), math.inf
    for i in sorted(range(len(heights)), key=lambda i: -heights[i]):
        found[i] = below = min(heights[i], below - APART)
    return found


def _text(x: float, y: float, content: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(content)}</text>'


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    with replacing(given.out) as temporary:
        temporary.write_text(picture(read_json(RESULTS / f"{given.name}.json", remedy="keep one")), encoding="utf-8")
