"""A recipe's parts put together: the time of its steps and of its run, and the memory of a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from longtail.model.scorers import MANY, ROWS
from longtail.on_paper import between, parts
from longtail.on_paper.rows import Between, Epoch, Row, Stage
from longtail.on_paper.scale import NUMBER, Scale
from longtail.on_paper.work import Bytes, Work, together


class Timed(NamedTuple):
    """A part of a run: how often it is done, its seconds each time, and the bytes that a process sends then."""

    times: float
    seconds: float
    sent: float


def steps_of(row: Row, s: Scale) -> dict[str, dict[str, Timed]]:
    """The parts of a step of each stage, in its last epoch."""
    return {stage.name: _step(stage, s) for stage in row.stages}


def run_of(row: Row, s: Scale) -> dict[str, Timed]:
    """The parts of a run, its evaluation last."""
    run = {"reading": _timed(1, Work(texts=2 * (s.documents + s.held_out + s.labels)), s)}
    for stage in row.stages:
        run |= _of_stage(stage, s, run)
    if s.held_out:
        run["fusion"] = _timed(1, between.fused(_widths(row, s), s), s)
    runs = 1 + len(s.o.for_refit())
    run = {name: part._replace(times=runs * part.times) for name, part in run.items()}
    return run | {"evaluation": _timed(1, between.evaluated(_ranked(row, s), s, memory=_remembers(s)), s)}


def _timed(times: float, work: Work, s: Scale) -> Timed:
    return Timed(times, s.machine.seconds(work), work.sent)


def _at(stage: Stage, s: Scale, *, renewed: bool) -> parts.Step:
    return parts.Step(s, float(min(s.o.batch, s.documents)), stage.pool(Epoch(s, renewed)))


def _renewed_from(stage: Stage, s: Scale) -> int:
    """The first epoch after something was renewed; the number of epochs where nothing ever is."""
    epochs = int(getattr(s.o, stage.epochs))
    return min((moment.epoch for one in stage.between for moment in one.moments(s, epochs)), default=epochs)


def _step(stage: Stage, s: Scale) -> dict[str, Timed]:
    """The parts of a step of the last epoch."""
    renewed = _renewed_from(stage, s) < int(getattr(s.o, stage.epochs))
    t = _at(stage, s, renewed=renewed)
    return {part.name: _timed(1, part.work(t), s) for part in stage.parts}


def _of_stage(stage: Stage, s: Scale, before: Mapping[str, Timed]) -> dict[str, Timed]:
    """What a stage adds to a run."""
    epochs, first = int(getattr(s.o, stage.epochs)), _renewed_from(stage, s)
    both = [(first, _at(stage, s, renewed=False)), (epochs - first, _at(stage, s, renewed=True))]
    epoch = together(*(part.work(t).times(s.steps * count) for count, t in both for part in stage.parts))
    found = {stage.name: _timed(1, epoch, s)}
    encoded = s.labels  # once after the stage
    for one in stage.between:
        times = len(one.moments(s, epochs))
        if times:
            found[one.name] = _timed(times, one.work(s), s)
            encoded += times * sum(getattr(s, name) for name in one.vectors if name not in _shared(stage, one))
    if s.world > 1 and _tables(stage, s):
        within = {moment for one in stage.between for moment in one.moments(s, epochs) if moment.step}
        times = epochs * (2 if stage.between else 1) + len(within) + 1  # before, after and in an epoch, and at the end
        found[f"joining tables of {stage.name}"] = _timed(times, between.joined(_tables(stage, s), s), s)
    texts = before.get("encoding texts", Timed(1, 0, 0))
    more = _timed(1, between.encoded(encoded, s), s)
    return found | {"encoding texts": Timed(1, texts.seconds + more.seconds, texts.sent + more.sent)}


def _shared(stage: Stage, one: Between) -> set[str]:
    """Vectors that what is renewed before it has already."""
    return {name for other in stage.between[: stage.between.index(one)] for name in other.vectors}


def _widths(row: Row, s: Scale) -> float:
    return float(sum(s.width + more for more in row.scores))


def _ranked(row: Row, s: Scale) -> float:
    """The width of all score kinds: of two their sum, too; with held-out documents their fusion, and a memory."""
    return _widths(row, s) * (1 + (len(row.scores) > 1) + (s.held_out > 0) + _remembers(s))


def _remembers(s: Scale) -> bool:
    """Whether documents are remembered, which only a fusion does."""
    return s.held_out > 0 and s.o.memory


def _trained(stage: Stage, s: Scale) -> list[parts.Trained]:
    return [one for part in stage.parts for one in part.trained(s)]


def _tables(stage: Stage, s: Scale) -> float:
    """The bytes of all tables of a stage."""
    return sum(one.numbers * one.size for one in _trained(stage, s) if one.cut)


def memory_of(row: Row, s: Scale) -> dict[str, dict[str, Bytes]]:
    """What a process holds in the steps of each stage, between its epochs, and when it ranks."""
    process, data = Bytes(host=s.machine.process), between.data_of(s)
    found: dict[str, dict[str, Bytes]] = {}
    for stage in row.stages:
        trained = _trained(stage, s)
        tables, dense = [one for one in trained if one.cut], [one for one in trained if not one.cut]
        whole = _tables(stage, s)
        moments = sum(one.numbers * one.size * one.moments for one in tables) / s.world
        always = {
            "process": process,
            "texts and pairs": data,
            "moments": Bytes(moments),
            "dense parameters": Bytes(sum(one.numbers * one.size * (2 + one.moments) for one in dense)),
        }
        t = max((_at(stage, s, renewed=renewed) for renewed in (False, True)), key=lambda at: at.pool)
        held = sum(part.held(t) for part in stage.parts)
        found[f"a step of {stage.name}"] = always | {
            "tables": Bytes(whole / s.world),
            "activations and scores": Bytes(held),
            "vectors": Bytes(host=NUMBER * s.numbers_of(*stage.vectors)),
        }
        needed = {*stage.vectors, *(name for one in stage.between for name in one.vectors)}
        searched = 0 if s.machine.on_host or "labels" not in needed else NUMBER * s.numbers_of("labels")
        own = whole / s.world * (s.world > 1)  # while all rows are joined
        found[f"between epochs of {stage.name}"] = always | {
            "tables, whole": Bytes(whole + own),
            "vectors": Bytes(host=NUMBER * s.numbers_of(*needed)),
            "labels to search": Bytes(searched),
        }
    width = _widths(row, s)
    in_parts = s.machine.on_host and min(s.held_out, s.tests) > MANY  # tables of sums and fusions are let go
    ranked = s.labels * NUMBER * width * (2 if s.held_out and not in_parts else 1)
    at_once = min(s.labels, ROWS) if in_parts else s.labels
    in_place = s.machine.on_host and not s.held_out and len(row.scores) == 1  # one score is searched where it lies
    copied = 1 / 4 if in_place else 5 / 4
    encoder = sum(one.numbers * one.size for one in _trained(row.stages[0], s) if one.name != "classifiers")
    found["fusion and evaluation"] = {
        "process": process,
        "texts and pairs": data,
        "encoder": Bytes(2 * encoder),
        "of labels": Bytes(host=ranked),
        "a table to search": Bytes(at_once * NUMBER * width * copied),
    }
    if s.machine.on_host:
        return {at: {name: Bytes(sum(part)) for name, part in held.items()} for at, held in found.items()}
    return found
