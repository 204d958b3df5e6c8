"""Two trained models of the same labels, as one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.files import hashes, map_arrays, new_folder, write_json
from longtail.model.base import Model
from longtail.model.bundle import CARD, FORMAT, Bundle, read_card
from longtail.modules.encoders.base import Encoder
from longtail.search.exact import Exact
from longtail.search.fusion import Fusion
from longtail.search.product import Product
from longtail.topk import AnyArray, FloatArray, IntArray

_FUSION = "pair.safetensors"


class Pair(Model):
    """Two models of the same L labels, and one score out of all of theirs.

    A text's vector is that of the first model and that of the second, side by side. The best score kind of each is a
    kind of the pair, ``first`` and ``second``; the fusion mixes all their scorers, as ``first-encoder``.

    Args:
        first: a model.
        second: another.
        fusion: mixes the `scorers` of both; the kind ``fused`` exists where it is given.
    """

    __slots__ = ("_indexes", "device", "fields", "first", "fusion", "labels", "recipe", "second")

    def __init__(self, first: Model, second: Model, fusion: Fusion | None = None) -> None:
        self.first, self.second, self.fusion = first, second, fusion
        self.recipe = f"{first.recipe} and {second.recipe}"
        self.labels, self.device = first.labels, first.device
        self.fields = tuple(dict.fromkeys((*first.fields, *second.fields)))
        self._indexes: dict[str, Exact] = {}

    @property
    def encoders(self) -> tuple[Encoder, ...]:
        """Those of both."""
        return (*self.first.encoders, *self.second.encoders)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The score kinds, the best one last."""
        return (*self._sides, *(() if self.fusion is None else ("fused",)))

    @property
    def scorers(self) -> tuple[str, ...]:
        """The score kinds that the fusion mixes."""
        return tuple(f"{side}-{kind}" for side, model in self._sides.items() for kind in model.scorers)

    @property
    def width(self) -> int:
        """The width of a text's vector, before the 1 that `encode` puts at its end."""
        return self.first.width + self.second.width

    @property
    def _sides(self) -> dict[str, Model]:
        return {"first": self.first, "second": self.second}

    def _of_side(self, kind: str) -> tuple[str, str]:
        """Whose score kind it is, and what it is called there."""
        if kind not in (*self.kinds, *self.scorers):
            known = ", ".join(self.kinds)
            raise BadInput("kind", f"expected one of {known}, found {kind}", remedy="choose one of those")
        side, _, name = kind.partition("-")
        return side, name or self._sides[side].kinds[-1]

    def encode(self, texts: Texts, links: IntArray | None = None) -> FloatArray:
        """The float32 vectors of n texts, (n, width + 1): those of the first model, those of the second, and a 1.

        Args:
            texts: n texts.
            links: (n, K) nodes of each, padded with -1, for models with a linker; those that each finds if left out.
        """
        return np.concatenate([self.first.encode(texts, links)[:, :-1], self.second.encode(texts, links)], axis=1)

    def columns(self, kind: str) -> slice | IntArray:
        """The columns of a text's vector that a score kind reads."""
        if kind == "fused":
            return slice(0, self.width + 1)
        side, name = self._of_side(kind)
        start = 0 if side == "first" else self.first.width
        own = np.append(np.arange(start, start + self._sides[side].width), self.width)  # the 1 is behind both
        return own[self._sides[side].columns(name)]

    def table(self, kind: str, ids: IntArray | slice = slice(None)) -> FloatArray:
        """The label vectors of a score kind, (L, W) float32, which an index stores, or some rows of them.

        Raises:
            BadInput: the pair has no such score kind.
        """
        if kind == "fused" and self.fusion is not None:
            parts = [(self.table(scorer, ids), self.columns(scorer)) for scorer in self.scorers]
            return Fusion(self.fusion.weights, self.fusion.frequency[ids]).table(parts, self.width)
        side, name = self._of_side(kind)
        return self._sides[side].table(name, ids)

    def index(self, kind: str) -> Exact | Product:
        """The index of a score kind, built at its first use."""
        if kind != "fused":
            side, name = self._of_side(kind)
            return self._sides[side].index(name)
        if kind not in self._indexes:
            self._indexes[kind] = Exact(self.table(kind), device=self.device)
        return self._indexes[kind]

    def new_labels(self, labels: Texts, examples: Texts, owners: IntArray) -> Pair:
        """Both models over m labels that they were not trained with.

        Args:
            labels: m texts with uids.
            examples: e texts, as the models read them, each with one of these labels.
            owners: (e,) int64, which label of the m each example has.
        """
        first, second = (model.new_labels(labels, examples, owners) for model in (self.first, self.second))
        fusion = self.fusion and Fusion(self.fusion.weights, np.bincount(owners, minlength=len(labels)))
        return Pair(first, second, fusion)

    def per_label(self) -> dict[str, AnyArray]:
        """What the pair knows of its labels, by name, one row a label."""
        own: dict[str, AnyArray] = {} if self.fusion is None else {"frequency": self.fusion.frequency}
        sides = self._sides.items()
        return {f"{side}-{name}": rows for side, model in sides for name, rows in model.per_label().items()} | own

    def over(self, labels: Texts, rows: Mapping[str, AnyArray]) -> Pair:
        """Both models and their fusion over other labels.

        Args:
            labels: m texts with uids.
            rows: the arrays of `per_label`, m rows each.
        """
        first, second = (
            model.over(labels, {name: rows[f"{side}-{name}"] for name in model.per_label()})
            for side, model in self._sides.items()
        )
        fusion = self.fusion and Fusion(self.fusion.weights, rows["frequency"])
        return Pair(first, second, fusion)

    def fused_by(self, fusion: Fusion) -> Pair:
        """The same pair with the kind ``fused``."""
        return Pair(self.first, self.second, fusion)

    def save(self, folder: Path) -> None:
        """Write the pair into a new folder, which appears whole or not at all."""
        with new_folder(folder) as path:
            for side, model in self._sides.items():
                model.save(path / side)
            arrays = {} if self.fusion is None else {"fusion": self.fusion.weights, "frequency": self.fusion.frequency}
            save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path / _FUSION)
            write_json(path / CARD, {"format": FORMAT, "sha256": hashes(path, card=CARD)})

    @classmethod
    def load(cls, folder: Path, *, device: torch.device) -> Pair:
        """Open a saved pair.

        Args:
            folder: what `save` wrote.
            device: where it is to run.

        Raises:
            BadInput: the folder is no model, or its parts are not those that were saved.
        """
        read_card(folder)
        arrays = map_arrays(folder / _FUSION)
        fusion = Fusion(arrays["fusion"], arrays["frequency"]) if arrays else None
        first, second = (open_model(folder / side, device=device) for side in ("first", "second"))
        return cls(first, second, fusion)


def open_model(folder: Path, *, device: torch.device) -> Model:
    """Open a saved model of whatever kind.

    Args:
        folder: what its ``save`` wrote.
        device: where it is to run.

    Raises:
        BadInput: the folder is no model, or its parts are not those that were saved.
    """
    return (Pair if (folder / _FUSION).is_file() else Bundle).load(folder, device=device)
