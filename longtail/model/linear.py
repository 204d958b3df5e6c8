"""A trained model without an encoder: separators of labels over the words of a text, in trees or by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from scipy import sparse

from longtail.arrays import map_arrays, save_model_arrays
from longtail.cards import write_card
from longtail.data.io.writing import read_labels, write_labels
from longtail.data.sparse import CSR, csr
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.files import new_folder
from longtail.model.base import Model
from longtail.model.calibration import Calibration
from longtail.model.per_label import PerLabel
from longtail.model.saved import CARD, LINEAR, load_calibrations, read_card, save_calibrations
from longtail.model.scorers import Scorer
from longtail.model.uids import with_uids
from longtail.modules.encoders.base import Encoder
from longtail.search.fusion import Fusion
from longtail.search.label_trees import LabelTree, LabelTrees
from longtail.search.memory import Memory
from longtail.text.bag import BagTokenizer
from longtail.text.ragged import Ragged
from longtail.text.tokens import token_table
from longtail.topk import AnyArray, IntArray

TREES = "trees.safetensors"  # of the folder of such a model
_PARTS = ("data", "indices", "indptr")
_SOME = 1000  # separators, whose length and bias are those of a label that was not trained


class Linear(Model):
    """The words of a text, and separators of L labels over them, by which alone it ranks: the kind ``classifier``.

    A text is encoded as the tf-idf weights of its V features and a 1 for the bias: (n, V + 1), sparse.

    Args:
        recipe: the name of the recipe that trained it.
        tokenizer: knows the features.
        fields: the fields of a text that it reads.
        labels: L texts; one without a uid is known by its id (`longtail.model.uids`).
        trees: the separators.
        counts: (L,) int64, training documents of each label.
        ids: (L,) int64 stable ids of the labels; the numbers of their rows if left out.
        calibrations: by score kind, how probable a score is.
    """

    fusion: Fusion | None = None
    memory: Memory | None = None
    linked: None = None
    encoders: tuple[Encoder, ...] = ()
    mixed: tuple[Scorer, ...] = ()
    device = torch.device("cpu")

    def __init__(
        self,
        recipe: str,
        tokenizer: BagTokenizer,
        fields: tuple[str, ...],
        labels: Texts,
        trees: LabelTrees,
        counts: IntArray,
        ids: IntArray | None = None,
        calibrations: Mapping[str, Calibration] | None = None,
    ) -> None:
        self.recipe, self.tokenizer, self.fields, self.trees, self.counts = recipe, tokenizer, fields, trees, counts
        self.ids = np.arange(len(labels)) if ids is None else ids
        self.labels, self.calibrations = with_uids(labels, self.ids), calibrations or {}
        self.scorers = (Scorer("classifier", slice(None), trees),)

    @property
    def key_columns(self) -> slice:
        """All columns but the 1; there is no memory that would read them."""
        return slice(0, self.width)

    @property
    def width(self) -> int:
        """V, the width of a text's vector before the 1 that `encode` puts at its end."""
        return len(self.tokenizer)

    def encode(self, texts: Texts, links: IntArray | None = None) -> CSR:  # noqa: ARG002
        """The features of n texts and a 1, (n, V + 1) CSR."""
        return features(token_table(texts, self.fields, self.tokenizer), self.width)

    def frequency(self, rows: IntArray) -> IntArray:
        """The training documents of the labels in some rows."""
        return self.counts[rows]

    def new_labels(self, labels: Texts, examples: Texts, owners: IntArray) -> Linear:
        """The same model over m labels that it was not trained with.

        The separator of a label has the direction of the features of its text and its examples together, and the length
        and bias that separators of this model have on average; in a tree, the label is under the best leaf for these
        features. A label of which no word is known is never ranked.

        Args:
            labels: m texts with uids.
            examples: e texts, as the model reads them, each with one of these labels.
            owners: (e,) int64, which label of the m each example has.
        """
        m = len(labels)
        one_hot = csr(np.arange(len(owners)), owners, (len(owners), m))
        x = CSR(self.encode(labels) + one_hot.T @ self.encode(examples))[:, :-1]
        known = np.diff(x.indptr) > 0
        lengths = np.maximum(np.sqrt(x.power(2).sum(1)), 1e-12)
        unit = CSR(sparse.diags_array((1 / lengths).astype(np.float32)) @ x)
        ones = CSR(known.astype(np.float32)[:, None])
        leaves = np.where(known[:, None], self.trees.leaves(_beside(unit, ones)), -1)
        rows: dict[str, PerLabel] = {"leaves": leaves, "frequency": np.bincount(owners, minlength=m)}
        for t, tree in enumerate(self.trees.trees):
            some = np.flatnonzero(np.diff(tree.labels.indptr))
            sample = tree.labels[some[:: len(some) // _SOME + 1]]
            length, bias = np.sqrt(sample[:, :-1].power(2).sum(1)).mean(), sample[:, [-1]].mean()
            rows[f"labels-{t}"] = _beside(np.float32(length) * unit, np.float32(bias) * ones)
        return self.over(labels, rows, self.next_id + np.arange(m))

    def per_label(self) -> dict[str, PerLabel]:
        """What the model knows of its labels, one row a label: leaf and separator in each tree, and the frequency."""
        trees = self.trees.trees
        separators = {f"labels-{t}": tree.labels for t, tree in enumerate(trees)}
        return {"leaves": np.stack([tree.leaves for tree in trees], 1), **separators, "frequency": self.counts}

    def over(self, labels: Texts, rows: Mapping[str, PerLabel], ids: IntArray) -> Linear:
        """The same words and nodes over other labels.

        Args:
            labels: m texts with uids.
            rows: what `per_label` has, of m labels.
            ids: (m,) int64 stable ids.
        """
        trees = [
            LabelTree(tree.parents, tree.nodes, rows["leaves"][:, t], rows[f"labels-{t}"])
            for t, tree in enumerate(self.trees.trees)
        ]
        return self._with(labels, LabelTrees(trees, self.trees.beam), rows["frequency"], ids, self.calibrations)

    def fused_by(self, fusion: Fusion, memory: Memory | None = None) -> Linear:  # noqa: ARG002
        """Nothing: there is one score.

        Raises:
            BadInput: always.
        """
        problem = f"expected a model with several scores to mix, found one of {self.recipe}"
        raise BadInput("kind", problem, remedy="choose a run of another recipe")

    def calibrated_by(self, calibrations: Mapping[str, Calibration]) -> Linear:
        """The same model with probabilities."""
        return self._with(self.labels, self.trees, self.counts, self.ids, calibrations)

    def _with(
        self,
        labels: Texts,
        trees: LabelTrees,
        counts: IntArray,
        ids: IntArray,
        calibrations: Mapping[str, Calibration],
    ) -> Linear:
        return Linear(self.recipe, self.tokenizer, self.fields, labels, trees, counts, ids, calibrations)

    def save(self, folder: Path) -> None:
        """Write the model into a new folder, which appears whole or not at all."""
        arrays: dict[str, AnyArray] = {"frequency": self.counts, "ids": self.ids}
        for t, tree in enumerate(self.trees.trees):
            arrays |= {f"{t}-parents": tree.parents, f"{t}-leaves": tree.leaves}
            for name, matrix in (("nodes", tree.nodes), ("labels", tree.labels)):
                arrays |= {f"{t}-{name}-{part}": _small(getattr(matrix, part)) for part in _PARTS}
        with new_folder(folder) as path:
            (path / "words").mkdir()
            self.tokenizer.save(path / "words")
            save_model_arrays(path / TREES, arrays)
            save_calibrations(path, self.calibrations)
            write_labels(path / "labels.jsonl", self.labels)
            card = {"recipe": self.recipe, "fields": list(self.fields), "labels": len(self.labels)}
            trees = {"trees": len(self.trees.trees), "beam": self.trees.beam}
            write_card(path / CARD, {"format": LINEAR, "kinds": list(self.kinds), **card, **trees})

    @classmethod
    def load(cls, folder: Path) -> Linear:
        """Open a saved model. Its separators are memory-mapped.

        Args:
            folder: what `save` wrote.

        Raises:
            BadInput: the folder is no model, or its parts are not those that were saved.
        """
        card, arrays = read_card(folder), map_arrays(folder / TREES)
        tokenizer = BagTokenizer.load(folder / "words")

        def separators(name: str) -> CSR:
            data, indices, indptr = (arrays[f"{name}-{part}"] for part in _PARTS)
            return CSR((data, indices, indptr), shape=(len(indptr) - 1, len(tokenizer) + 1))

        trees = [
            LabelTree(
                np.array(arrays[f"{t}-parents"]),
                separators(f"{t}-nodes"),
                np.array(arrays[f"{t}-leaves"]),
                separators(f"{t}-labels"),
            )
            for t in range(card["trees"])
        ]
        kept = read_labels(folder / "labels.jsonl"), LabelTrees(trees, card["beam"]), np.array(arrays["frequency"])
        more = np.array(arrays["ids"]), load_calibrations(folder)
        return cls(card["recipe"], tokenizer, tuple(card["fields"]), *kept, *more)


def features(table: Ragged, width: int) -> CSR:
    """The rows of a token table of bags, and a 1 at the end of each, (n, width + 1)."""
    words = CSR((table.weights, table.ids, table.offsets), shape=(len(table), width))
    return _beside(words, CSR(np.ones((len(table), 1), np.float32)))


def _beside(left: CSR, right: CSR) -> CSR:
    return CSR(sparse.hstack([left, right], format="csr", dtype=np.float32))


def _small(array: AnyArray) -> AnyArray:
    """Indices in 32 bits, where they fit."""
    fits = array.dtype == np.int64 and array.max(initial=0) < np.iinfo(np.int32).max
    return array.astype(np.int32) if fits else array
