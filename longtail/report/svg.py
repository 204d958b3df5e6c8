"""Plots as SVG: text that a page's style sheet colours, so that one drawing serves light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

WIDTH, HEIGHT = 360.0, 250.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, 14.0, 14.0, 36.0
_LETTER, _LINE = 5.8, 13.0  # a label's size in SVG units: a letter, a line
_CROWDED = 0.05  # share of a label that may lie on others
_FEW = 10  # points, whose labels may lie further away
_SHORT = 24  # letters of a label in a plot; its tooltip has all

Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True, slots=True)
class Point:
    """A method in a scatter plot.

    Attributes:
        label: of the method.
        x: what it costs, above 0.
        y: how good it is, with its interval ``low`` to ``high``.
        colour: of its series, from 0.
    """

    label: str
    x: float
    y: float
    low: float
    high: float
    colour: int


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where values lie in a drawing.

    Attributes:
        xs: least and largest x.
        ys: least and largest y.
        logarithmic: whether x is drawn by its logarithm.
        parts: what was drawn.
    """

    xs: tuple[float, float]
    ys: tuple[float, float]
    logarithmic: bool = False
    parts: list[str] = field(default_factory=list)

    def x(self, value: float) -> float:
        low, high, value = (math.log(v) if self.logarithmic else v for v in (*self.xs, value))
        return _LEFT + (value - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self.ys
        return HEIGHT - _BOTTOM - (value - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM)

    def text(self, x: float, y: float, text: str, kind: str = "tick", anchor: str = "middle") -> None:
        self.parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>')

    def line(self, points: Sequence[tuple[float, float]], kind: str, colour: int | None = None) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline class="{kind}"{_style(colour)} points="{path}"/>')

    def dot(self, x: float, y: float, colour: int, tip: str, radius: float = 5.0) -> None:
        circle = f'<circle class="dot"{_style(colour)} cx="{x:.1f}" cy="{y:.1f}" r="{radius}">'
        self.parts.append(f"{circle}<title>{escape(tip)}</title></circle>")

    def axes(self, xs: Mapping[float, str], ys: Mapping[float, str], title: str) -> None:
        """Grid lines at the ticks, and the title of the x axis."""
        for value, name in ys.items():
            self.line([(_LEFT, self.y(value)), (WIDTH - _RIGHT, self.y(value))], "grid")
            self.text(_LEFT - 6, self.y(value) + 4, name, anchor="end")
        for value, name in xs.items():
            self.line([(self.x(value), _TOP), (self.x(value), HEIGHT - _BOTTOM)], "grid")
            self.text(self.x(value), HEIGHT - _BOTTOM + 14, name)
        self.text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 4, title, "title")

    def drawn(self, what: str) -> str:
        inside = "".join(self.parts)
        return f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(what)}">{inside}</svg>'


def scatter(
    points: Sequence[Point], *, ticks: Mapping[float, str], write: Callable[[float], str], cost: str, metric: str
) -> str:
    """Quality against cost, with intervals and the Pareto front: nothing on it is both worse and dearer than another.

    Where points are crowded, those on the front and the best of the others have their labels written beside them; each
    has it in its tooltip.

    Args:
        points: at least one.
        ticks: candidates for the marks of the x axis, with their names.
        write: writes a cost for people.
        cost: the title of the x axis.
        metric: what y is, for the tooltips.
    """
    costs = [point.x for point in points]
    xs = min(costs) / 1.6, max(costs) * 1.6
    ys = _padded(min(point.low for point in points), max(point.high for point in points))
    frame = _Frame(xs, ys, logarithmic=True)
    inside = [value for value in ticks if xs[0] <= value <= xs[1]]
    step = -(-len(inside) // 5) or 1
    frame.axes({value: ticks[value] for value in inside[::step]}, _linear_ticks(*ys), cost)
    front = pareto([(point.x, point.y) for point in points])
    corners = [corner for i, at in enumerate(front) for corner in _step(frame, front[i - 1] if i else None, at)]
    frame.line(corners, "front")
    boxes = [_around(frame.x(point.x), frame.y(point.y)) for point in points]
    for point in points:
        x, y = frame.x(point.x), frame.y(point.y)
        frame.line([(x, frame.y(point.low)), (x, frame.y(point.high))], "whisker", point.colour)
        frame.dot(x, y, point.colour, f"{point.label}: {metric} {point.y:.2f}, {cost} {write(point.x)}")
    for point in sorted(points, key=lambda point: ((point.x, point.y) not in front, -point.y)):
        _label(frame, point, boxes, lines=3 if len(points) <= _FEW else 1)
    return frame.drawn(f"{metric} against {cost}")


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The (cost, quality) pairs that are better than all that cost no more, cheapest first."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or y > front[-1][1]:
            front.append((x, y))
    return front


def curves(series: Mapping[str, Sequence[tuple[float, float]]], *, title: str) -> str:
    """Lines over epochs, with a legend below: names and last values.

    Args:
        series: (epoch, value) pairs by name, at least one pair each.
        title: of the x axis.
    """
    points = [point for of in series.values() for point in of]
    last = max(x for x, _ in points)
    xs = (0.0, max(last, 1.0) * 1.02)
    frame = _Frame(xs, _padded(min(0.0, *(y for _, y in points)), max(y for _, y in points)))
    frame.axes(_linear_ticks(*xs, whole=True), _linear_ticks(*frame.ys), title)
    legend = ""
    for i, (name, of) in enumerate(series.items()):
        at = [(frame.x(x), frame.y(y)) for x, y in of]
        frame.line(at, "curve", i)
        for (x, y), (epoch, value) in zip(at, of, strict=True):
            frame.dot(x, y, i, f"{name}, epoch {epoch:g}: {value:.4g}", radius=2.5)
        key = f'<span class="key"{_style(i)}></span>'
        legend += f'<span class="entry">{key}{escape(name)} <b>{of[-1][1]:.3g}</b></span>'
    return f'{frame.drawn(title)}<div class="legend">{legend}</div>'


def reliability(series: Sequence[tuple[str, int, Mapping[str, Any]]]) -> str:
    """Shares that are right against probabilities, in percent, a line each, with a legend of calibration errors.

    Args:
        series: name, colour, and what `longtail.metrics.reliability.Reliability.as_dict` gives.
    """
    frame, ticks = _Frame((0.0, 100.0), (0.0, 100.0)), {20.0 * i: f"{20 * i}" for i in range(6)}
    frame.axes(ticks, ticks, "said to be right, in percent")
    frame.line([(frame.x(0), frame.y(0)), (frame.x(100), frame.y(100))], "front")
    legend = ""
    for name, colour, of in series:
        bins = [bin_ for bin_ in zip(of["said"], of["right"], of["labels"], strict=True) if bin_[2]]
        frame.line([(frame.x(100 * said), frame.y(100 * right)) for said, right, _ in bins], "curve", colour)
        for said, right, labels in bins:
            tip = f"{name}: {100 * right:.1f} % of {labels:,} labels are right, {100 * said:.1f} % were said to be"
            frame.dot(frame.x(100 * said), frame.y(100 * right), colour, tip, radius=2.5)
        key = f'<span class="key"{_style(colour)}></span>'
        legend += f'<span class="entry">{key}{escape(name)} <b>ECE@5 {of["error"]:.2f}</b></span>'
    return f'{frame.drawn("shares that are right against probabilities")}<div class="legend">{legend}</div>'


def _label(frame: _Frame, point: Point, boxes: list[Box], *, lines: int) -> None:
    """Write a label some lines from its point at most, where it meets the least; if that is much, none."""
    text = point.label if len(point.label) <= _SHORT else point.label[: _SHORT - 1] + "…"
    x, y, width = frame.x(point.x), frame.y(point.y), _LETTER * len(text)
    lefts = {"start": x + 9, "end": x - 9 - width, "middle": x - width / 2}
    best: tuple[float, float, str, Box] | None = None
    for down in (_LINE * line for line in sorted(range(-lines, lines + 1), key=abs)):
        for anchor, left in lefts.items():
            if anchor == "middle" and not down:
                continue
            box = (left, y + down - _LINE / 2, left + width, y + down + _LINE / 2)
            hidden = sum(map(_overlap, boxes, [box] * len(boxes))) + 4 * _outside(box)
            if best is None or hidden + abs(down) < best[0]:
                best = hidden + abs(down), hidden, anchor, box
    assert best is not None
    _, hidden, anchor, box = best
    if hidden > _CROWDED * width * _LINE:
        return
    boxes.append(box)
    at = {"start": box[0], "end": box[2], "middle": (box[0] + box[2]) / 2}[anchor]
    frame.text(at, box[1] + _LINE - 3, text, "label", anchor)


def _around(x: float, y: float) -> Box:
    return x - 6, y - 6, x + 6, y + 6


def _overlap(one: Box, other: Box) -> float:
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    return across * down if across > 0 and down > 0 else 0.0


def _outside(box: Box) -> float:
    inside = _overlap(box, (_LEFT, _TOP - 6, WIDTH - 2, HEIGHT - _BOTTOM))
    return (box[2] - box[0]) * (box[3] - box[1]) - inside


def _step(frame: _Frame, before: tuple[float, float] | None, at: tuple[float, float]) -> list[tuple[float, float]]:
    """A front keeps its quality until the cost of the next point."""
    corner = (frame.x(at[0]), frame.y(at[1]))
    return [corner] if before is None else [(corner[0], frame.y(before[1])), corner]


def _padded(low: float, high: float) -> tuple[float, float]:
    room = 0.06 * (high - low) or 1.0
    return (low - room if low else 0.0), high + room


def _linear_ticks(low: float, high: float, *, whole: bool = False) -> dict[float, str]:
    """Some four or five round values between two."""
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    step = max(1.0, round(step)) if whole else step
    values = [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return {value: f"{value:g}" if abs(value) >= 1 or not value else f"{value:.3g}" for value in values}


def _style(colour: int | None) -> str:
    return "" if colour is None else f' style="--c:var(--s{colour % 10})"'
