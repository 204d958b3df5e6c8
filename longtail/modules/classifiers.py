"""Vectors of labels that are parameters of their own: the classifiers."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from longtail.errors import BadInput
from longtail.modules.table import Table, unit
from longtail.topk import FloatArray, IntArray


class FreeVectors(nn.Module):
    """One trainable unit vector a label, with row gradients: a step touches the labels of its pool only.

    Args:
        start: (L, D) float32, where the vectors start; for NGAME the embeddings of the labels' texts, so that a label
            without examples keeps what its text says.
        normalised: False trains vectors of any length, as the thesis does (section 2.3.4); `vectors` has unit length
            all the same.
        drawn: whether the start was drawn by lot, and says nothing: `vectors` is 0 for a label that no pool has held.
    """

    trained: Tensor | None

    def __init__(self, start: FloatArray, *, normalised: bool = True, drawn: bool = False) -> None:
        super().__init__()
        self.table = Table(torch.from_numpy(start.copy()))
        self.normalised = normalised
        self.register_buffer("trained", torch.zeros(len(start), dtype=torch.bool) if drawn else None)

    def forward(self, ids: Tensor, _text: Tensor | None = None) -> Tensor:
        """The vectors of P labels, (P, D), of unit length if normalised.

        Args:
            ids: (P,) ascending, each once.
            _text: for `ResidualVectors`; free vectors know nothing of it.
        """
        if self.trained is not None and self.training:
            self.trained[ids] = True
        vectors = self.table.rows(ids)
        return unit(vectors) if self.normalised else vectors

    def vectors(self, _text: FloatArray | None = None) -> FloatArray:
        """All label vectors, (L, D) float32 rows of unit length, or 0 where nothing is known of a label."""
        with torch.no_grad():
            vectors: FloatArray = unit(torch.from_numpy(self.table.export())).numpy()
        return vectors if self.trained is None else vectors * self.trained.cpu().numpy()[:, None]


class ResidualVectors(nn.Module):
    """The vector of a label's text plus a free one, and a free bias: (z + free, bias), with row gradients.

    The free part starts at zero, so that a classifier starts as its text and leaves it as far as its examples ask for.
    A label without examples is its text, wherever the encoder takes that while it trains. Classifiers get no gradient
    to the text: ``z`` is taken as it is.

    Source: SiameseXML (Dahiya et al., 2021), section 3, has classifiers that are a text embedding plus a residual;
    there the text embedding is frozen and the sum is normalised.

    Args:
        labels: L.
        width: D.
        bias: (L,) float32, where the biases start; 0 if left out.
    """

    def __init__(self, labels: int, width: int, *, bias: FloatArray | None = None) -> None:
        super().__init__()
        start = torch.zeros(labels, width + 1)
        if bias is not None:
            start[:, -1] = torch.from_numpy(bias)
        self.table = Table(start)

    def forward(self, ids: Tensor, text: Tensor) -> Tensor:
        """The vectors of P labels, (P, D + 1), the last column being the bias.

        Args:
            ids: (P,) ascending, each once.
            text: (P, D) the vectors z of their texts.
        """
        return self.table.rows(ids) + nn.functional.pad(text.detach(), (0, 1))  # (P, D + 1)

    def vectors(self, text: FloatArray) -> FloatArray:
        """All label vectors, (L, D + 1) float32.

        Args:
            text: (L, D) the vectors of the labels' texts.
        """
        vectors: FloatArray = self.table.export().copy()
        vectors[:, :-1] += text
        return vectors


class Classifiers(nn.Module):
    """A free vector of any length and a bias for every label: the table of losses that go over all labels.

    Args:
        labels: L.
        width: D.
        dtype: of the table: float32, or bfloat16 for half the memory (see `longtail.train.in_backward`).
    """

    def __init__(self, labels: int, width: int, *, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.table = Table(torch.zeros(labels, width + 1, dtype=dtype))

    def start_from(self, text: FloatArray, bias: FloatArray) -> None:
        """Start every label at the vector of its text, (L, D), and at its bias, (L,)."""
        for labels, rows in self.table.blocks():
            rows[:, :-1] = torch.from_numpy(text[labels])
            rows[:, -1] = torch.from_numpy(bias[labels])

    def vectors(self, temperature: float = 1.0) -> FloatArray:
        """All label vectors, (L, D + 1) float32, the last column being the bias.

        Args:
            temperature: of the logits (<x, w> / temperature + bias): the bias is multiplied by it, for scores that are
                not divided.
        """
        vectors: FloatArray = self.table.export().copy()
        vectors[:, -1] *= temperature
        return vectors


CLASSIFIERS = ("residual", "free")
SEPARATED = 3  # documents of a label, with fewer of which a separator says no more than its text does


def classifiers_named(
    name: str, labels: int, width: int, *, generator: torch.Generator, bias: FloatArray | None = None
) -> ResidualVectors | FreeVectors:
    """Classifiers that are not normalised while they train.

    Args:
        name: ``residual`` (the label's text plus a free vector, and a bias), or ``free`` (without a bias: the thesis,
            section 2.3.3). Free ones are drawn by lot, and a label that no pool has held ends at 0: a random vector of
            unit length would be as sure of itself as any that was trained.
        generator: draws the start of free ones.
        labels: L.
        width: D.
        bias: (L,) where the biases of residual ones start; 0 if left out.

    Raises:
        BadInput: there is none of that name.
    """
    if name == "residual":
        return ResidualVectors(labels, width, bias=bias)
    if name == "free":
        start = torch.nn.init.xavier_uniform_(torch.empty(labels, width), generator=generator)
        return FreeVectors(start.numpy(), normalised=False, drawn=True)
    raise BadInput("classifiers", f"expected residual or free, found {name}", remedy="choose one of those")


def classifiers_of_new_labels(z: FloatArray, seen: FloatArray, owners: IntArray, others: FloatArray) -> FloatArray:
    """Classifiers of labels that were not trained, of the kind that a model has.

    Each points along z + the sum of its examples, where z is the start of a classifier in training, and is as long as
    the model's classifiers are.

    Args:
        z: (m, D) the embeddings of their texts.
        seen: (e, D) what classifiers see of the examples; (e, D + 1) where they have a bias.
        owners: (e,) which label each example has.
        others: (n, D) or (n, D + 1), n at least 1: some classifiers of the model.

    Returns:
        (m, D) or (m, D + 1); the row of a label without examples is z, with a bias of 0.
    """
    width, has_some = z.shape[1], np.bincount(owners, minlength=len(z)) > 0
    sums = z.copy()
    np.add.at(sums, owners, seen[:, :width])
    sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    bias, length = others[:, width:].mean(0), np.linalg.norm(others[:, :width], axis=1).mean()
    there = np.concatenate([length * sums, np.tile(bias, (len(z), 1))], axis=1)
    return np.where(has_some[:, None], there, np.pad(z, ((0, 0), (0, len(bias))))).astype(np.float32)


def separators_of_new_labels(labels: int, seen: FloatArray, owners: IntArray, others: FloatArray) -> FloatArray:
    """Separators of labels that were not trained: of those with `SEPARATED` examples or more, and 0 of the others.

    Each points along the sum of its examples, and is as long as the model's are, with their mean bias.

    Args:
        labels: m.
        seen: (e, R + 1) what separators see of the examples, and a 1.
        owners: (e,) which label each example has.
        others: (n, R + 1) some separators of the model, 0 where a label has none.

    Returns:
        (m, R + 1).
    """
    others, known = others[others.any(1)], np.bincount(owners, minlength=labels) >= SEPARATED
    if not len(others):
        return np.zeros((labels, others.shape[1]), np.float32)
    made = classifiers_of_new_labels(np.zeros((labels, others.shape[1] - 1), np.float32), seen, owners, others)
    return np.where(known[:, None], made, np.float32(0))
