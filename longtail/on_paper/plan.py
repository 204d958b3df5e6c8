"""A run on paper: its parts put together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from longtail.data.shape import Shape
from longtail.errors import BadInput
from longtail.on_paper.reckoning import Timed, memory_of, run_of, steps_of
from longtail.on_paper.rows import ROWS, read_by
from longtail.on_paper.scale import ENCODERS, Scale
from longtail.on_paper.work import Bytes, machines
from longtail.options import parsed
from longtail.recipes import RECIPES
from longtail.stages.recipe import options_class
from longtail.units import size

_CLAIMED = 0.9  # of a memory that a plan takes to be there

Planned = TypeVar("Planned")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnPaper:
    """What a run would take.

    Attributes:
        recipe: its name.
        machine: of each process.
        world: processes.
        epochs: of all stages.
        memory: of one process, by moment and part.
        steps: of each stage, the parts of a step.
        run: the parts of the run.
        price: of an hour of one machine; None where it is not known.
        limits: of the device and of main memory.
    """

    recipe: str
    machine: str
    world: int
    epochs: int
    memory: Mapping[str, Mapping[str, Bytes]]
    steps: Mapping[str, Mapping[str, Timed]]
    run: Mapping[str, Timed]
    price: float | None
    limits: Bytes

    @property
    def seconds(self) -> float:
        """Of the run, without its evaluation."""
        return sum(part.times * part.seconds for name, part in self.run.items() if name != "evaluation")

    @property
    def seconds_an_epoch(self) -> float:
        """Of the run, shared out over its epochs."""
        return self.seconds / max(1, self.epochs)

    def peak(self, moment: str) -> Bytes:
        """The memory of one process at a moment."""
        found = self.memory[moment].values()
        return Bytes(sum(part.device for part in found), sum(part.host for part in found))

    def too_much(self, moment: str) -> list[tuple[str, float, float]]:
        """What of the device and of main memory would not be enough at a moment, with its peak and its limit."""
        every = zip(Bytes._fields, self.peak(moment), self.limits, strict=True)
        return [(where, needed, limit) for where, needed, limit in every if needed > _CLAIMED * limit]

    @property
    def hours(self) -> float:
        """Of machines, evaluation and all."""
        return self.world * sum(part.times * part.seconds for part in self.run.values()) / 3600

    def refusals(self) -> Iterator[str]:
        """A line for each moment whose memory would not fit, with what would help."""
        for moment, held in self.memory.items():
            for where, needed, limit in self.too_much(moment):
                largest = max(held, key=lambda name: getattr(held[name], where))
                share = f"{largest} alone {size(getattr(held[largest], where))}"
                memory = "the device" if where == "device" else "main memory"
                found = f"{moment} takes {size(needed)} of {memory}, which has {size(limit)}; {share}"
                yield f"does not fit: {found}: {_HELP.get(largest, _WIDTH)}"

    def as_json(self) -> dict[str, Any]:
        """The plan for a program: bytes and seconds."""
        memory = {moment: {name: part._asdict() for name, part in held.items()} for moment, held in self.memory.items()}
        return {
            "recipe": self.recipe,
            "device": self.machine,
            "world": self.world,
            "memory": {moment: held | {"in all": self.peak(moment)._asdict()} for moment, held in memory.items()},
            "steps": {
                stage: {name: part._asdict() for name, part in step.items()} for stage, step in self.steps.items()
            },
            "run": {name: part._asdict() for name, part in self.run.items()},
            "seconds": self.seconds,
            "seconds_an_epoch": self.seconds_an_epoch,
            "machine_hours": self.hours,
            "price": None if self.price is None else self.price * self.hours,
            "fits": not [*self.refusals()],
            "refusals": [*self.refusals()],
        }


_WIDTH = "lower the width"
_HOST = "lower the width, or have more main memory for each process"
_HELP = {
    "texts and pairs": "have more main memory for each process",
    "of labels": _HOST,
    "vectors": _HOST,
    "moments": "more processes, or a lower width",
    "tables": "more processes, or a lower width",
    "tables, whole": "lower the width, or take devices with more memory; more processes do not help",
    "activations and scores": "more processes, or a smaller batch",
}


def on_paper(
    recipe: str,
    given: Mapping[str, Any],
    *,
    documents: float,
    labels: float,
    words: float,
    labels_of: float,
    tests: float | None = None,
    world: int = 1,
    device: str = "cpu",
    constants: Path | None = None,
    device_memory: float | None = None,
    price: float | None = None,
) -> OnPaper:
    """Reckon a run from its shapes.

    Args:
        recipe: a row of `longtail.on_paper.rows.ROWS`.
        given: its options, as for training, that a plan depends on; others have the defaults of so many documents.
        documents: in training.
        labels: L.
        words: of a text.
        labels_of: true labels of a document.
        tests: documents of the evaluation; a tenth as many as in training, 100,000 at most, if left out.
        world: processes, of one device each.
        device: a machine of `longtail.on_paper.work.machines`.
        constants: a JSON file of others.
        device_memory: bytes of each device, if others than the machine's.
        price: of an hour of a device, if another than the machine's.

    Raises:
        BadInput: there is no plan on paper for the recipe, the encoder or the device, or an option is not one of its.
    """
    row, known = named("recipe", ROWS, recipe), machines(constants)
    machine = named("device", known, device)
    kind: Any = options_class(RECIPES[recipe])
    if others := [name for name in given if name not in read_by(recipe)]:
        remedy = f"leave it out; it depends on {', '.join(sorted(read_by(recipe)))}"
        raise BadInput(others[0], f"a plan of {recipe} on paper does not depend on it", remedy=remedy)
    o = parsed(kind, recipe, {**kind.for_shape(Shape(int(documents)), given), **given})
    row = row.with_epochs(o)
    held_out = min(5000.0, getattr(o, "validation", 0.0) * documents)
    s = Scale(
        documents=documents - held_out,
        held_out=held_out,
        labels=labels,
        words=words,
        labels_of=labels_of,
        tests=min(100_000.0, documents / 10) if tests is None else tests,
        world=world,
        machine=machine,
        encoder=named("encoder", ENCODERS, o.encoder),
        o=o,
    )
    return OnPaper(
        recipe=recipe,
        machine=device,
        world=world,
        epochs=sum(int(getattr(o, stage.epochs)) for stage in row.stages),
        memory=memory_of(row, s),
        steps=steps_of(row, s),
        run=run_of(row, s),
        price=machine.price if price is None else price,
        limits=Bytes(device_memory or machine.memory, machine.host),
    )


def largest_batch(recipe: str, given: Mapping[str, Any], **sizes: Any) -> int:
    """The largest batch whose steps fit the devices; 0 where none does, and 2^20 where more would.

    Args:
        recipe: as of `on_paper`.
        given: the same, but for the batch.
        **sizes: what else it takes.
    """

    def refused(batch: int) -> bool:
        plan = on_paper(recipe, {**given, "batch": batch}, **sizes)
        return any(plan.too_much(moment) for moment in plan.memory if moment.startswith("a step of"))

    return bisect_left(range(1, 2**20 + 1), 1, key=refused)


def named(what: str, table: Mapping[str, Planned], name: str) -> Planned:
    """A row of a table of what there are plans for."""
    if name not in table:
        raise BadInput(what, f"there is no plan on paper for {name}", remedy=f"there is for {', '.join(table)}")
    return table[name]
