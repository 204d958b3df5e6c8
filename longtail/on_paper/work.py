"""What is done, in operations and bytes, and what one process of a kind of machine does in a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from longtail.errors import BadInput
from longtail.files import read_json

MACHINES = Path(__file__).parent / "machines.json"
_REMEDY = "see longtail/on_paper/machines.json, and give numbers above 0; price may be left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Operations and bytes of one process; `Machine` has a rate for each.

    Attributes:
        products: floating point operations of products in float32, two for a multiply and an add.
        transformer: floating point operations of transformers, which are in bfloat16 on a GPU.
        search: floating point operations of exact searches.
        streamed: bytes read or written one after the other.
        gathered: bytes of table rows read or written here and there.
        sent: bytes to other processes.
        messages: to other processes, however short.
        started: operations that are started, however small.
        texts: texts that are read and tokenised.
    """

    products: float = 0.0
    transformer: float = 0.0
    search: float = 0.0
    streamed: float = 0.0
    gathered: float = 0.0
    sent: float = 0.0
    messages: float = 0.0
    started: float = 0.0
    texts: float = 0.0

    def __add__(self, other: Work) -> Work:
        return together(self, other)

    def times(self, count: float) -> Work:
        """The same, so many times."""
        return Work(**{name: count * getattr(self, name) for name in KINDS})


KINDS = tuple(field.name for field in fields(Work))


def together(*parts: Work) -> Work:
    """All of some work."""
    return Work(**{name: sum(getattr(part, name) for part in parts) for name in KINDS})


class Bytes(NamedTuple):
    """Memory of one process: of its device, and of the computer that this is in; a CPU's are one and the same."""

    device: float = 0.0
    host: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What one process has, and does in a second.

    Attributes:
        name: that it is asked for by.
        rates: of each kind of `Work`, a second.
        memory: bytes of the device.
        host: bytes of main memory for each device; infinite where the device is the computer itself.
        process: bytes of a process that has done nothing yet, on a CPU; 0 on a GPU.
        price: of an hour; None where it is not known.
        sources: of the numbers above, by name.
    """

    name: str
    rates: Mapping[str, float]
    memory: float
    host: float
    process: float
    price: float | None
    sources: Mapping[str, str]

    @property
    def on_host(self) -> bool:
        """Whether the device is a CPU."""
        return self.host == inf

    def seconds(self, work: Work) -> float:
        """The time of some work, of which nothing is done at the same time as anything else."""
        return float(sum(getattr(work, name) / rate for name, rate in self.rates.items()))


@cache
def machines(path: Path | None = None) -> Mapping[str, Machine]:
    """The machines that are known, by name.

    Args:
        path: of a JSON file with others, or with other numbers for some of these.

    Raises:
        BadInput: the file holds no such machines.
    """
    found = read_json(MACHINES, remedy=_REMEDY)
    for name, said in ({} if path is None else read_json(path, remedy=_REMEDY)).items():
        if not isinstance(said, dict):
            raise BadInput(path or MACHINES, f"expected an object for {name}, found {said!r}", remedy=_REMEDY)
        found[name] = found.get(name, {}) | said
    return {name: _machine(path or MACHINES, name, said) for name, said in found.items()}


def _machine(path: Path, name: str, said: Mapping[str, Any]) -> Machine:
    needed, optional = (*KINDS, "memory"), ("host", "process", "price")
    if unknown := sorted({*said} - {*needed, *optional, "sources"}):
        raise BadInput(path, f"{name} has no number called {unknown[0]}", remedy=_REMEDY)
    for key in (*needed, *(key for key in optional if key in said)):
        value = said.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < inf:
            raise BadInput(path, f"expected a number above 0 for {key} of {name}, found {value!r}", remedy=_REMEDY)
    return Machine(
        name=name,
        rates={kind: float(said[kind]) for kind in KINDS},
        memory=float(said["memory"]),
        host=float(said.get("host", inf)),
        process=float(said.get("process", 0)),
        price=said.get("price"),
        sources=said.get("sources", {}),
    )
