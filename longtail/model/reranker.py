"""A trained model, and a cross-encoder that ranks anew what it ranks first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy import sparse

from longtail.arrays import map_arrays, save_model_arrays
from longtail.cards import write_card
from longtail.data.sparse import CSR
from longtail.data.texts import Texts
from longtail.files import new_folder
from longtail.model.base import Model
from longtail.model.calibration import Calibration
from longtail.model.per_label import PerLabel
from longtail.model.reranking import Reranking, columns_of
from longtail.model.saved import CARD, FORMAT, load_calibrations, read_card, save_calibrations
from longtail.model.scorers import Columns, Encoded, Scorer
from longtail.modules.cross_encoder import CrossEncoder
from longtail.modules.encoders.base import Encoder
from longtail.modules.linker import Linked
from longtail.search.fusion import Fusion
from longtail.search.memory import Memory
from longtail.text.tokens import token_table
from longtail.topk import Float64Array, IntArray

WEIGHTS = "reranking.safetensors"  # of the folder of such a model
KIND = "reranked"


class Reranker(Model):
    """A model of L labels, with one score kind more: ``reranked``, what its best one finds, ranked anew.

    A text's vector is that of the model, then the tokens that the cross-encoder reads of it, and a 1. So a text is
    encoded once, and everything else of the library ranks by the vector, as it does by others.

    Args:
        first_stage: finds labels.
        encoder: the cross-encoder, on the device of the first stage.
        weights: (3, F) float64, as those of `longtail.model.reranking.Reranking`.
        depth: labels that are ranked anew.
        calibrations: by score kind, how probable a score is.
    """

    __slots__ = (
        "calibrations",
        "depth",
        "device",
        "encoder",
        "fields",
        "first_stage",
        "ids",
        "labels",
        "mixed",
        "recipe",
        "scorers",
        "weights",
    )

    def __init__(
        self,
        first_stage: Model,
        encoder: CrossEncoder,
        weights: Float64Array,
        depth: int,
        calibrations: Mapping[str, Calibration],
    ) -> None:
        self.first_stage, self.encoder, self.weights, self.depth = first_stage, encoder, weights, depth
        self.calibrations, self.recipe = calibrations, f"{first_stage.recipe}, reranked"
        self.labels, self.ids, self.device = first_stage.labels, first_stage.ids, first_stage.device
        self.fields = first_stage.fields
        self.mixed, own = (tuple(map(self._of, scorers)) for scorers in (first_stage.mixed, first_stage.scorers))
        tokens = slice(first_stage.width + 1, self.width)
        reranking = Reranking(encoder, weights, depth, tokens, self.described, self.device)
        self.scorers = (*own, replace(own[-1], name=KIND, reranking=reranking))

    def _of(self, scorer: Scorer) -> Scorer:
        """A scorer of the first stage, whose vector is the first part of a text's vector here."""
        memory = scorer.memory and replace(scorer.memory, columns=self._first(scorer.memory.columns))
        return replace(scorer, columns=self._first(scorer.columns), memory=memory)

    def _first(self, columns: Columns) -> Columns:
        """Columns of the first stage's vector, counted from its beginning."""
        return slice(*columns.indices(self.first_stage.width + 1)) if isinstance(columns, slice) else columns

    @property
    def fusion(self) -> Fusion | None:  # type: ignore[override]
        """That of the first stage."""
        return self.first_stage.fusion

    @property
    def memory(self) -> Memory | None:  # type: ignore[override]
        """That of the first stage."""
        return self.first_stage.memory

    @property
    def key_columns(self) -> slice | IntArray:
        """Those of the first stage."""
        return self._first(self.first_stage.key_columns)

    @property
    def encoders(self) -> tuple[Encoder, ...]:
        """Those of the first stage."""
        return self.first_stage.encoders

    @property
    def width(self) -> int:
        """The width of a text's vector, before the 1 that `encode` puts at its end."""
        return self.first_stage.width + 1 + self.encoder.tokenizer.room

    @property
    def linked(self) -> Linked | None:
        """What links a text to nodes that enrich it, if there is something."""
        return self.first_stage.linked

    def encode(self, texts: Texts, links: IntArray | None = None) -> Encoded:
        """The vectors of n texts, (n, width + 1): those of the first stage, their tokens, and a 1.

        Args:
            texts: n texts.
            links: (n, K) nodes of each, for a first stage with a linker; those that it finds if left out.
        """
        found, tokenizer = self.first_stage.encode(texts, links), self.encoder.tokenizer
        tokens = columns_of(token_table(texts, self.fields, tokenizer), tokenizer.room)
        parts = [found, tokens, np.ones((len(texts), 1), np.float32)]
        if sparse.issparse(found):
            return CSR(sparse.hstack([found, *map(CSR, parts[1:])], format="csr", dtype=np.float32))
        return np.concatenate(parts, axis=1)

    def frequency(self, rows: IntArray) -> IntArray:
        """The training points of the labels in some rows."""
        return self.first_stage.frequency(rows)

    def new_labels(self, labels: Texts, examples: Texts, owners: IntArray) -> Reranker:
        """The same model over m labels that it was not trained with; the cross-encoder reads their texts.

        Args:
            labels: m texts with uids.
            examples: e texts, as the model reads them, each with one of these labels.
            owners: (e,) int64, which label of the m each example has.
        """
        return self.on(self.first_stage.new_labels(labels, examples, owners))

    def per_label(self) -> dict[str, PerLabel]:
        """What the first stage knows of its labels, by name, one row a label."""
        return self.first_stage.per_label()

    def over(self, labels: Texts, rows: Mapping[str, PerLabel], ids: IntArray) -> Reranker:
        """The same model over other labels.

        Args:
            labels: m texts with uids.
            rows: what `per_label` has, of m labels.
            ids: (m,) int64 stable ids.
        """
        return self.on(self.first_stage.over(labels, rows, ids))

    def on(self, first_stage: Model) -> Reranker:
        """The same cross-encoder and weights on top of another first stage."""
        return Reranker(first_stage, self.encoder, self.weights, self.depth, self.calibrations)

    def fused_by(self, fusion: Fusion, memory: Memory | None = None) -> Model:
        """The first stage with another fusion, and without the cross-encoder, which was weighed beside its score."""
        return self.first_stage.fused_by(fusion, memory)

    def calibrated_by(self, calibrations: Mapping[str, Calibration]) -> Reranker:
        """The same model with probabilities."""
        return Reranker(self.first_stage, self.encoder, self.weights, self.depth, calibrations)

    def save(self, folder: Path) -> None:
        """Write the model into a new folder, which appears whole or not at all."""
        with new_folder(folder) as path:
            self.first_stage.save(path / "first_stage")
            self.encoder.save(path / "cross_encoder")
            save_model_arrays(path / WEIGHTS, {"weights": self.weights})
            save_calibrations(path, self.calibrations)
            said = {"recipe": self.recipe, "labels": len(self.labels), "kinds": list(self.kinds)}
            read = {"depth": self.depth, "length": self.encoder.tokenizer.max_length}
            write_card(path / CARD, {"format": FORMAT, **said, **read})

    @classmethod
    def load(cls, folder: Path, *, device: torch.device, first_stage: Callable[[Path], Model]) -> Reranker:
        """Open a saved model.

        Args:
            folder: what `save` wrote.
            device: where it is to run.
            first_stage: opens that.

        Raises:
            BadInput: the folder is no model, or its parts are not those that were saved.
        """
        card = read_card(folder)
        weights = np.array(map_arrays(folder / WEIGHTS)["weights"])
        encoder = CrossEncoder.load(folder / "cross_encoder", max_length=card["length"]).to(device)
        known = load_calibrations(folder)
        return cls(first_stage(folder / "first_stage"), encoder, weights, card["depth"], known)
