"""A trained model: it ranks labels for texts, and is saved to and opened from a folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from safetensors.numpy import save_file

from longtail.data.sparse import CSR
from longtail.data.texts import Strings, Texts
from longtail.data.tokens import token_table
from longtail.errors import BadInput
from longtail.files import check_hashes, hashes, map_arrays, new_folder, write_json
from longtail.models.bag import BagEncoder
from longtail.models.convolution import ConvolutionEncoder
from longtail.models.encoder import Encoder, embed
from longtail.models.heads import TwoHeads
from longtail.models.labels import taught
from longtail.models.transformer import TransformerEncoder
from longtail.search.exact import Exact
from longtail.search.fuse import Fusion
from longtail.topk import AnyArray, FloatArray, IntArray, TopK

_FORMAT = 3
_BLOCK = 8_192  # texts predicted at a time
_Encoders: TypeAlias = Mapping[str, type[BagEncoder | ConvolutionEncoder | TransformerEncoder]]
_ENCODERS: _Encoders = {"bag": BagEncoder, "convolution": ConvolutionEncoder, "transformer": TransformerEncoder}


class Prediction(NamedTuple):
    """One ranked label of a text.

    Attributes:
        id: of the label, in [0, L).
        uid: its identifier in the data set, or an empty string.
        text: its title.
        score: higher is better; comparable within one text and one score kind.
    """

    id: int
    uid: str
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Bundle:
    """An encoder, the vectors of L labels, and how to rank with them.

    Attributes:
        recipe: the name of the recipe that trained it.
        encoder: text to unit rows.
        fields: the fields of a text that the encoder reads.
        labels: L texts.
        vectors: float32 label vectors by score kind: ``encoder`` (L, D), the embeddings of the labels' texts, and
            ``classifier``, (L, D), or (L, D + 1) with a bias, where the recipe trains one.
        fusion: mixes the two; the kind ``fused`` exists where it is given.
        device: where the encoder is and searches run.
        heads: on the encoder, where classifiers see another view of a document than the texts of labels do; the kind
            ``combined``, the sum of the cosines of both, exists where it is given.
    """

    recipe: str
    encoder: Encoder
    fields: tuple[str, ...]
    labels: Texts
    vectors: Mapping[str, FloatArray]
    fusion: Fusion | None
    device: torch.device
    heads: TwoHeads | None = None
    _indexes: dict[str, Exact] = field(default_factory=dict, repr=False)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The score kinds, the best one last: encoder, classifier, combined, fused."""
        derived = {"combined": self.heads is not None, "fused": self.fusion is not None}
        return (*self.vectors, *(kind for kind, there in derived.items() if there))

    @property
    def width(self) -> int:
        """The width of a document's vector, before the 1 that `encode` puts at its end."""
        return (self.heads or self.encoder).width

    def index(self, kind: str) -> Exact:
        """The index of a score kind, built at its first use."""
        if kind not in self._indexes:
            self._indexes[kind] = Exact(self.table(kind), device=self.device)
        return self._indexes[kind]

    def table(self, kind: str, ids: IntArray | slice = slice(None)) -> FloatArray:
        """The label vectors of a score kind, (L, W) float32, which an index stores, or some rows of them.

        Raises:
            BadInput: the model has no such score kind.
        """
        if kind not in self.kinds:
            raise BadInput(
                "kind", f"expected one of {', '.join(self.kinds)}, found {kind}", remedy="choose one of those"
            )
        vectors = {name: table[ids] for name, table in self.vectors.items()}
        if kind == "combined":
            z = vectors["encoder"]
            w = vectors["classifier"][:, : z.shape[1]]
            return np.concatenate([z, w / np.maximum(np.linalg.norm(w, axis=1, keepdims=True), 1e-12)], axis=1)
        if kind == "fused":
            assert self.fusion is not None
            fusion = Fusion(self.fusion.weights, self.fusion.frequency[ids])
            return fusion.table([(table, self._columns(name)) for name, table in vectors.items()], self.width)
        return vectors[kind]

    def _columns(self, kind: str) -> slice:
        """The columns of a document's vector that a score kind reads."""
        if kind in self.vectors:
            start = self.vectors["encoder"].shape[1] if kind == "classifier" and self.heads is not None else 0
            return slice(start, start + self.vectors[kind].shape[1])
        return slice(0, self.width + (kind == "fused"))

    def queries(self, vectors: FloatArray, kind: str) -> FloatArray:
        """The (n, W) float32 queries of an index of ``table(kind)``, for vectors from `encode`."""
        return vectors[:, self._columns(kind)]

    def encode(self, texts: Texts) -> FloatArray:
        """The float32 vectors of n texts, (n, width + 1): the view of each head, one after the other, and a 1."""
        encoder = self.heads or self.encoder
        table = token_table(texts, self.fields, encoder.tokenizer)
        return np.pad(embed(encoder, table, device=self.device), ((0, 0), (0, 1)), constant_values=1)

    def new_labels(self, labels: Texts, examples: Texts, owners: IntArray) -> Bundle:
        """The same model over m labels that it was not trained with.

        The encoder knows a label by its text. Its classifier starts there too, at the embedding of the text, and moves
        to its examples: in the direction of z + the sum of their vectors, as long as classifiers of this model are, and
        with their bias. For the fusion, the frequency of the label is the number of its examples.

        Args:
            labels: m texts with uids.
            examples: e documents, as the model reads them, each with one of these labels.
            owners: (e,) int64, which label of the m each example has.
        """
        encoder = self.encoder if self.heads is None else self.heads.text
        z = embed(encoder, token_table(labels, self.fields, encoder.tokenizer), device=self.device)  # (m, D)
        rows: dict[str, AnyArray] = {"encoder": z, "frequency": np.bincount(owners, minlength=len(labels))}
        if "classifier" in self.vectors:
            seen = self.queries(self.encode(examples), "classifier")  # (e, D), or (e, D + 1) with a bias
            rows["classifier"] = taught(z, seen, owners, self.vectors["classifier"][:: len(self.labels) // 1000 + 1])
        return self.over(labels, rows)

    def per_label(self) -> dict[str, AnyArray]:
        """What the model knows of its labels, by name, one row a label: the vectors, and the frequency if it fuses."""
        return dict(self.vectors) | ({} if self.fusion is None else {"frequency": self.fusion.frequency})

    def over(self, labels: Texts, rows: Mapping[str, AnyArray]) -> Bundle:
        """The same encoder and fusion over other labels.

        Args:
            labels: m texts with uids.
            rows: the arrays of `per_label`, m rows each.
        """
        vectors = {kind: rows[kind] for kind in self.vectors}
        fusion = self.fusion and Fusion(self.fusion.weights, rows["frequency"])
        return replace(self, labels=labels, vectors=vectors, fusion=fusion, _indexes={})

    def take(self, ids: IntArray) -> Bundle:
        """The same model over some of its labels, in the order of ``ids``."""
        return self.over(self.labels.take(ids), {name: rows[ids] for name, rows in self.per_label().items()})

    def followed_by(self, other: Bundle) -> Bundle:
        """The same model over its own labels and then those of another, which `over` or `new_labels` made of it."""
        others = other.per_label()
        both = {name: np.concatenate([rows, others[name]]) for name, rows in self.per_label().items()}
        return self.over(self.labels.followed_by(other.labels), both)

    def search(self, vectors: FloatArray, k: int, *, kind: str | None = None, exclude: CSR | None = None) -> TopK:
        """Rank labels for encoded texts.

        Args:
            vectors: of n texts, from `encode`.
            k: labels a text.
            kind: the score kind; the best one if left out.
            exclude: (n, L) pairs that must not be ranked.
        """
        kind = kind or self.kinds[-1]
        return self.index(kind).search(self.queries(vectors, kind), k, exclude=exclude)

    def rank(self, texts: Texts, k: int, *, kind: str | None = None, exclude: CSR | None = None) -> TopK:
        """Rank labels for n texts: `encode`, then `search`."""
        return self.search(self.encode(texts), k, kind=kind, exclude=exclude)

    def stream(self, texts: Iterable[Mapping[str, str]], k: int, *, kind: str | None = None) -> Iterator[TopK]:
        """Rank labels for any number of texts, some thousand at a time.

        Args:
            texts: each with a ``title``, and a ``content`` if the model reads one.
            k: labels a text.
            kind: the score kind; the best one if left out.
        """
        iterator = iter(texts)
        while block := list(islice(iterator, _BLOCK)):
            columns = {name: Strings.of(text.get(name, "") for text in block) for name in self.fields}
            yield self.rank(Texts(Strings.of([""] * len(block)), columns), k, kind=kind)

    def predict(self, texts: Sequence[str], k: int = 5, *, kind: str | None = None) -> list[list[Prediction]]:
        """The k best labels of each text, best first.

        Args:
            texts: plain texts, read as titles.
            k: labels a text.
            kind: the score kind; the best one if left out.
        """
        tops = self.stream(({"title": text} for text in texts), k, kind=kind)
        return [row for top in tops for row in self.named(top)]

    def named(self, top: TopK) -> list[list[Prediction]]:
        """Ranked label ids with their uids, texts and scores; empty places are left out."""
        title, uid = self.labels.fields["title"], self.labels.uids
        names = {i: (i, uid[i], title[i]) for i in np.unique(top.ids).tolist() if i >= 0}
        return [
            [Prediction(*names[i], score) for i, score in zip(ids, scores, strict=True) if i >= 0]
            for ids, scores in zip(top.ids.tolist(), top.scores.tolist(), strict=True)
        ]

    def save(self, folder: Path) -> None:
        """Write the model into a new folder, which appears whole or not at all."""
        arrays = self.per_label() | ({} if self.fusion is None else {"fusion": self.fusion.weights})
        with new_folder(folder) as path:
            (path / "encoder").mkdir()
            self.encoder.save(path / "encoder")
            if self.heads is not None:
                self.heads.save(path)
            save_file(
                {name: np.ascontiguousarray(array) for name, array in arrays.items()}, path / "labels.safetensors"
            )
            with (path / "labels.jsonl").open("w", encoding="utf-8") as file:
                for uid, title in zip(self.labels.uids, self.labels.fields["title"], strict=True):
                    file.write(json.dumps({"uid": uid, "text": title}, ensure_ascii=False) + "\n")
            write_json(path / "bundle.json", self._card() | {"sha256": hashes(path)})

    def _card(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "recipe": self.recipe,
            "encoder": next(name for name, kind in _ENCODERS.items() if isinstance(self.encoder, kind)),
            "fields": list(self.fields),
            "labels": len(self.labels),
            "width": self.encoder.width,
            "kinds": list(self.kinds),
            "projection": None if self.heads is None else self.heads.projection,
        }

    @classmethod
    def load(cls, folder: Path, *, device: torch.device) -> Bundle:
        """Open a saved model.

        Args:
            folder: what `save` wrote.
            device: where it is to run.

        Label vectors are memory-mapped: processes that serve one model share them.

        Raises:
            BadInput: the folder is no model, or its parts are not those that were saved.
        """
        path = folder / "bundle.json"
        if not path.is_file():
            raise BadInput(path, "expected the card of a trained model, found no such file", remedy="train it first")
        card = json.loads(path.read_text(encoding="utf-8"))
        if card["format"] != _FORMAT:
            raise BadInput(
                path, f"expected format {_FORMAT}, found {card['format']}", remedy="use the longtail that wrote it"
            )
        check_hashes(folder, card["sha256"])
        arrays = map_arrays(folder / "labels.safetensors")
        labels = _read_labels(folder / "labels.jsonl")
        vectors = {name: arrays[name] for name in card["kinds"] if name in arrays}
        encoder = _ENCODERS[card["encoder"]].load(folder / "encoder")
        heads = None if card["projection"] is None else TwoHeads.load(folder, encoder, card["projection"]).to(device)
        width = encoder.width if heads is None else heads.text.width
        for name, array in vectors.items():
            if len(array) != len(labels) or array.shape[1] - width not in (0, 1):
                problem = f"expected {name} vectors ({len(labels)}, {width}), found {array.shape}"
                raise BadInput(folder / "labels.safetensors", problem, remedy="copy the model folder again, whole")
        fusion = Fusion(arrays["fusion"], arrays["frequency"]) if "fusion" in arrays else None
        return cls(
            card["recipe"], encoder.to(device).eval(), tuple(card["fields"]), labels, vectors, fusion, device, heads
        )


def _read_labels(path: Path) -> Texts:
    with path.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return Texts.of([row["text"] for row in rows], uids=[row["uid"] for row in rows])


def load(run: str | Path, *, device: str = "auto") -> Bundle:
    """Open the model of a run folder.

    Args:
        run: the folder that `train` was given as ``--out``.
        device: a torch device, or ``auto`` for a GPU where there is one.
    """
    return Bundle.load(Path(run) / "model", device=choose_device(device))


def choose_device(name: str) -> torch.device:
    """The torch device of a name; ``auto`` is a GPU where there is one, else the CPU."""
    try:
        device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
    except RuntimeError:
        raise BadInput("--device", f"expected cpu, cuda or auto, found {name}", remedy="give one of those") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BadInput("--device", f"expected a GPU for {name}, found none", remedy="give --device cpu")
    return device
