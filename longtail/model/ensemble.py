"""Two trained models of the same labels, as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from longtail.arrays import map_arrays, save_model_arrays
from longtail.cards import write_card
from longtail.data.texts import Texts
from longtail.files import new_folder
from longtail.model.base import Model
from longtail.model.bundle import Bundle
from longtail.model.calibration import Calibration
from longtail.model.per_label import PerLabel
from longtail.model.remembering import fused_scorers, memory_of
from longtail.model.saved import CARD, FORMAT, load_calibrations, read_card, save_calibrations
from longtail.model.scorers import Scorer
from longtail.modules.encoders.base import Encoder
from longtail.search.fusion import Fusion
from longtail.search.memory import Memory
from longtail.topk import FloatArray, IntArray

AnyModel = TypeVar("AnyModel", Bundle, "Ensemble")
_FUSION, _EARLIER = "ensemble.safetensors", "pair.safetensors"  # what it is called now, and what it was called


class Ensemble(Model):
    """Two models of the same L labels, and one score out of all of theirs.

    A text's vector is that of the first model and that of the second, side by side. The best score kind of each is a
    kind of the ensemble, ``first`` and ``second``; the fusion mixes what the fusions of both mix, as ``first-encoder``.

    Args:
        first: a model.
        second: another; an ensemble may be a member of another.
        fusion: mixes the scorers of both; the kind ``fused`` exists where it is given.
        memory: documents with their labels, beside a fusion; the kind ``memory`` exists where it is given.
        calibrations: by score kind, how probable a score is; those of the two are not used.
    """

    __slots__ = (
        "calibrations",
        "device",
        "fields",
        "first",
        "fusion",
        "ids",
        "labels",
        "memory",
        "mixed",
        "recipe",
        "scorers",
        "second",
    )

    def __init__(
        self,
        first: Model,
        second: Model,
        fusion: Fusion | None = None,
        memory: Memory | None = None,
        calibrations: Mapping[str, Calibration] | None = None,
    ) -> None:
        self.first, self.second, self.fusion = first, second, fusion
        self.memory, self.calibrations = memory, calibrations or {}
        self.recipe = f"{first.recipe} and {second.recipe}"
        self.labels, self.ids, self.device = first.labels, first.ids, first.device
        self.fields = tuple(dict.fromkeys((*first.fields, *second.fields)))
        members = self._members
        self.mixed = tuple(self._of(name, one, f"{name}-{one.name}") for name in members for one in members[name].mixed)
        best = tuple(self._of(name, member.scorer(), name) for name, member in members.items())
        self.scorers = (*best, *fused_scorers(self, self.mixed))

    def _of(self, member: str, scorer: Scorer, name: str) -> Scorer:
        """A scorer of a member, as it reads a text's vector here."""
        own = self._own[member]
        memory = scorer.memory and replace(scorer.memory, columns=own[scorer.memory.columns])
        reranking = scorer.reranking and replace(scorer.reranking, columns=own[scorer.reranking.columns])
        return replace(scorer, name=name, columns=own[scorer.columns], memory=memory, reranking=reranking)

    @property
    def _own(self) -> dict[str, IntArray]:
        """The columns of each member: its vector's, and the 1, which is behind both."""
        first, second = np.arange(self.first.width), self.first.width + np.arange(self.second.width)
        return {"first": np.append(first, self.width), "second": np.append(second, self.width)}

    @property
    def key_columns(self) -> IntArray:
        """The columns of a text's vector by which documents are near: those of both members."""
        return np.concatenate([self._own[name][member.key_columns] for name, member in self._members.items()])

    @property
    def _members(self) -> dict[str, Model]:
        return {"first": self.first, "second": self.second}

    @property
    def encoders(self) -> tuple[Encoder, ...]:
        """Those of both."""
        return (*self.first.encoders, *self.second.encoders)

    @property
    def width(self) -> int:
        """The width of a text's vector, before the 1 that `encode` puts at its end."""
        return self.first.width + self.second.width

    @property
    def linked(self) -> None:
        """Nothing: what each of the two links, it keeps for itself."""

    def encode(self, texts: Texts, links: IntArray | None = None) -> FloatArray:
        """The float32 vectors of n texts, (n, width + 1): those of the first model, those of the second, and a 1.

        Args:
            texts: n texts.
            links: (n, K) nodes of each, padded with -1, for models with a linker; those that each finds if left out.
        """
        return np.concatenate([self.first.encode(texts, links)[:, :-1], self.second.encode(texts, links)], axis=1)

    def new_labels(self, labels: Texts, examples: Texts, owners: IntArray) -> Ensemble:
        """Both models over m labels that they were not trained with.

        Args:
            labels: m texts with uids.
            examples: e texts, as the models read them, each with one of these labels.
            owners: (e,) int64, which label of the m each example has.
        """
        first, second = (model.new_labels(labels, examples, owners) for model in (self.first, self.second))
        fusion = self.fusion and Fusion(self.fusion.weights, np.bincount(owners, minlength=len(labels)))
        memory = None if self.memory is None else memory_of(self, self.encode(examples), owners, len(labels))
        return Ensemble(first, second, fusion, memory, self.calibrations)

    def per_label(self) -> dict[str, PerLabel]:
        """What the ensemble knows of its labels, by name, one row a label."""
        members = self._members.items()
        of_members = {f"{name}-{key}": rows for name, model in members for key, rows in model.per_label().items()}
        return of_members | self._known_to_fusion()

    def over(self, labels: Texts, rows: Mapping[str, PerLabel], ids: IntArray) -> Ensemble:
        """Both models and their fusion over other labels.

        Args:
            labels: m texts with uids.
            rows: what `per_label` has, of m labels.
            ids: (m,) int64 stable ids.
        """
        first, second = (
            model.over(labels, {key: rows[f"{name}-{key}"] for key in model.per_label()}, ids)
            for name, model in self._members.items()
        )
        fusion = self.fusion and Fusion(self.fusion.weights, rows["frequency"])
        return Ensemble(first, second, fusion, rows.get("memory"), self.calibrations)

    def fused_by(self, fusion: Fusion, memory: Memory | None = None) -> Ensemble:
        """The same ensemble with the kind ``fused``, and ``memory`` where one is given, without probabilities."""
        return Ensemble(self.first, self.second, fusion, memory)

    def calibrated_by(self, calibrations: Mapping[str, Calibration]) -> Ensemble:
        """The same ensemble with probabilities."""
        return Ensemble(self.first, self.second, self.fusion, self.memory, calibrations)

    def save(self, folder: Path) -> None:
        """Write the ensemble into a new folder, which appears whole or not at all."""
        with new_folder(folder) as path:
            for name, model in self._members.items():
                model.save(path / name)
            arrays = {} if self.fusion is None else {"fusion": self.fusion.weights, "frequency": self.fusion.frequency}
            save_model_arrays(path / _FUSION, arrays)
            if self.memory is not None:
                self.memory.save(path)
            save_calibrations(path, self.calibrations)
            write_card(path / CARD, {"format": FORMAT})

    @classmethod
    def load(cls, folder: Path, *, device: torch.device, member: Callable[[Path], Model]) -> Ensemble:
        """Open a saved ensemble.

        Args:
            folder: what `save` wrote.
            device: where it is to run.
            member: opens one of the two.

        Raises:
            BadInput: the folder is no model, or its parts are not those that were saved.
        """
        read_card(folder)
        arrays = map_arrays(fusion_of(folder))
        fusion = Fusion(arrays["fusion"], arrays["frequency"]) if arrays else None
        first, second = (member(folder / name) for name in ("first", "second"))
        memory = Memory.in_folder(folder, len(first.labels), device)
        return cls(first, second, fusion, memory, load_calibrations(folder))


def fusion_of(folder: Path) -> Path:
    """The file that a folder of an ensemble has, and that of another model has not."""
    earlier = folder / _EARLIER
    return earlier if earlier.is_file() else folder / _FUSION
