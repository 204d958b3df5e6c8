"""A trained model: an encoder, and the vectors of labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from longtail import cards
from longtail.arrays import map_arrays, save_model_arrays
from longtail.data.io.writing import read_labels, write_labels
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.files import COPY_AGAIN, new_folder
from longtail.model.base import Model
from longtail.model.calibration import Calibration
from longtail.model.per_label import PerLabel
from longtail.model.remembering import fused_scorers, memory_of
from longtail.model.saved import CARD, FORMAT, LINEAR, OF_TREES, load_calibrations, read_card, save_calibrations
from longtail.model.scorers import Scorer, below_tree, cosine_sum, inner_product, product
from longtail.model.uids import with_uids
from longtail.modules.attended import Attended
from longtail.modules.classifiers import classifiers_of_new_labels, separators_of_new_labels
from longtail.modules.encoders.base import Encoder, embed
from longtail.modules.heads import TwoHeads
from longtail.modules.linker import Chances, Linked, with_one
from longtail.modules.storage import Modules
from longtail.search.fusion import Fusion
from longtail.search.memory import Memory
from longtail.search.narrow import Narrowing
from longtail.search.tree import Tree, seen_by
from longtail.text.tokens import token_table
from longtail.topk import AnyArray, FloatArray, IntArray

PLAIN, SEPARATOR = "plain-classifier", "separator"
_NARROW = ("narrow-queries", "narrow-labels")  # arrays of a model that has a narrowing


@dataclass(frozen=True, slots=True)
class Bundle(Model):
    """An encoder, the vectors of L labels, and how to rank with them.

    Attributes:
        recipe: the name of the recipe that trained it.
        encoder: text to unit rows.
        fields: the fields of a text that the encoder reads.
        labels: L texts; one without a uid is known by its id (`longtail.model.uids`).
        vectors: float32 label vectors: ``encoder`` (L, D), the embeddings of the labels' texts, and ``classifier``,
            (L, D), or (L, D + 1) with a bias, where the recipe trains one; with a linker, ``plain-classifier``, too, of
            documents as they are without nodes; ``separator``, (L, R + 1), where heads have a view for it, 0 for a
            label without one.
        fusion: mixes the scorers of both; the kind ``fused`` exists where it is given.
        device: where the encoder is and searches run.
        heads: on the encoder, where classifiers see another view of a document than the texts of labels do, or attend
            to its states; the kind ``combined``, the sum of the cosines of both views, exists with classifiers.
        linked: gives a document nodes that enrich it, for all kinds but ``plain``, its text alone with those of labels.
        ids: (L,) int64 stable ids of the labels; the numbers of their rows if left out.
        memory: documents with their labels, which a text asks, too; the kind ``memory`` exists where it is given.
        calibrations: by score kind, how probable a score is.
        tree: of clusters above the labels; the kind ``tree``, the product of the probabilities along a path and that
            of the label at its end, by the vectors ``tree``, (L, W) with a bias, exists where it is given.
        narrow: by which the kinds ``fused`` and ``memory`` look for labels, if there is one.
        scorers: plain, encoder, plain-classifier, classifier, separator, combined, product, tree, fused, memory: those
            that there are.
        mixed: the scorer of a document's own text, and those of the classifiers and separators; where there are none,
            that of the enriched document.
    """

    recipe: str
    encoder: Encoder
    fields: tuple[str, ...]
    labels: Texts
    vectors: Mapping[str, FloatArray]
    fusion: Fusion | None
    device: torch.device
    heads: TwoHeads | Attended | None = None
    linked: Linked | None = None
    ids: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    memory: Memory | None = None
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    tree: Tree | None = None
    narrow: Narrowing | None = None
    scorers: tuple[Scorer, ...] = field(init=False, repr=False)
    mixed: tuple[Scorer, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        ids = self.ids if len(self.ids) else np.arange(len(self.labels))
        if len(ids) != len(self.labels):
            raise ValueError(f"{len(ids)} ids for {len(self.labels)} labels")
        mixed, scorers = self._scorers()
        made = {"ids": ids, "labels": with_uids(self.labels, ids), "mixed": mixed, "scorers": scorers}
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def _scorers(self) -> tuple[tuple[Scorer, ...], tuple[Scorer, ...]]:
        """Those that a fusion mixes, and all of them."""
        z, w, device = self.vectors["encoder"], self.vectors.get("classifier"), self.device
        first, enriched, seen = self._starts()

        def of(name: str, vectors: FloatArray, start: int) -> Scorer:
            return inner_product(name, slice(start, start + vectors.shape[1]), lambda ids: vectors[ids], device)

        text = of("encoder" if self.linked is None else "plain", z, first)
        scorers = [text]
        if self.linked is not None:
            scorers.append(replace(text, name="encoder", columns=slice(enriched, enriched + z.shape[1])))
        mixed = [*scorers] if w is None else [text]
        if w is not None:
            starts = {PLAIN: seen, "classifier": enriched + seen, SEPARATOR: 0}
            own = {name: of(name, self.vectors[name], at) for name, at in starts.items() if name in self.vectors}
            mixed += own.values()
            scorers += own.values()
            if self.heads is not None:
                scorers.append(cosine_sum("combined", slice(enriched, self.width), z, w, device))
            elif self.linked is not None and self.linked.width_of(z.shape[1]) == z.shape[1]:
                scorers.append(product("product", own["classifier"], z))
        if self.tree is not None:
            scorers.append(below_tree("tree", self.tree, self.vectors["tree"], self.width + 1))
        return tuple(mixed), (*scorers, *fused_scorers(self, mixed, self.narrow))

    @property
    def key_columns(self) -> slice:
        """The columns of a text's vector by which documents are near: the view that the classifiers have of it."""
        start = sum(self._starts()[1:])
        return slice(start, start + self.vectors["encoder"].shape[1])

    def _starts(self) -> tuple[int, int, int]:
        """Where the views of a text begin, behind that of separators; the enriched ones; from there, classifiers'."""
        first, own = self.vectors[SEPARATOR].shape[1] if SEPARATOR in self.vectors else 0, self.heads or self.encoder
        seen = 0 if self.heads is None else self.vectors["encoder"].shape[1]
        return first, first if self.linked is None else own.width, seen

    @property
    def encoders(self) -> tuple[Encoder, ...]:
        """The one that there is."""
        return (self.encoder,)

    @property
    def width(self) -> int:
        """The width of a document's vector, before the 1 that `encode` puts at its end."""
        own = (self.heads or self.encoder).width
        return own if self.linked is None else own + self.linked.width_of(own)

    def encode(self, texts: Texts, links: IntArray | None = None) -> FloatArray:
        """The float32 vectors of n texts, (n, width + 1): what scorers read, one after the other, and a 1.

        Args:
            texts: n texts.
            links: (n, K) nodes of each, padded with -1, for a model with a linker; those that it finds if left out.
        """
        x = self._embed(texts)
        if self.linked is not None:
            found = self.linked.find(texts, x, self.encoder) if links is None else links
            enriched = self.linked.enrich(texts, x, found, self._embed)
            x = np.concatenate([self.linked.alone(x), enriched], axis=1)
        return with_one(x)

    def _embed(self, texts: Texts) -> FloatArray:
        encoder = self.heads or self.encoder
        return embed(encoder, token_table(texts, self.fields, encoder.tokenizer), device=self.device)

    def of_labels(self, texts: Texts) -> FloatArray:
        """The vectors of m texts as those of labels, (m, D) float32 of unit length."""
        encoder = self.encoder if self.heads is None else self.heads.text
        z = embed(encoder, token_table(texts, self.fields, encoder.label_tokenizer), device=self.device)
        return z if self.linked is None else self.linked.alone(z)

    def new_labels(self, labels: Texts, examples: Texts, owners: IntArray) -> Bundle:
        """The same model over m labels that it was not trained with.

        The encoder knows a label by its text. Its classifier starts there too, at the embedding of the text, and moves
        to its examples: in the direction of z + the sum of their vectors, as long as classifiers of this model are, and
        with their bias. For the fusion, the frequency of the label is the number of its examples. In a tree, it stands
        below the cluster that is best for its text and its examples, and its text is an example of its classifier. A
        separator is made of its examples alone, if they are not too few.

        Args:
            labels: m texts with uids.
            examples: e documents, as the model reads them, each with one of these labels.
            owners: (e,) int64, which label of the m each example has.
        """
        z = self.of_labels(labels)  # (m, D)
        rows: dict[str, PerLabel] = {"encoder": z, "frequency": np.bincount(owners, minlength=len(labels))}
        if len(self.vectors) > 1 or self.memory is not None:
            seen = self.encode(examples)
            rows["memory"] = memory_of(self, seen, owners, len(labels))
            for kind in self.vectors.keys() - {"encoder"}:
                some = self.vectors[kind][:: len(self.labels) // 1000 + 1]
                if kind == "tree":
                    rows |= self._new_in_tree(labels, seen, owners, some)
                elif kind == SEPARATOR:
                    rows[kind] = separators_of_new_labels(len(labels), self.queries(seen, kind), owners, some)
                else:
                    start = np.tile(z, some.shape[1] // z.shape[1])  # of each hop, where there are some
                    rows[kind] = classifiers_of_new_labels(start, self.queries(seen, kind), owners, some)
        return self.over(labels, rows, self.next_id + np.arange(len(labels)))

    def _new_in_tree(self, labels: Texts, seen: FloatArray, owners: IntArray, some: FloatArray) -> dict[str, PerLabel]:
        """What a tree knows of m new labels: their links, and vectors like some of the model's."""
        assert self.tree is not None
        seen, owners = np.concatenate([self.encode(labels), seen]), np.append(np.arange(len(labels)), owners)
        texts = seen_by(seen, self.tree.start, some.shape[1])
        w = classifiers_of_new_labels(texts[: len(labels), :-1], texts, owners, some)
        return {"links": self.tree.with_new(seen, owners), "tree": w}

    def per_label(self) -> dict[str, PerLabel]:
        """What the model knows of its labels, by name, one row a label: its vectors, what a fusion knows, the tree."""
        links = {} if self.tree is None else {"links": self.tree}
        return dict(self.vectors) | self._known_to_fusion() | links

    def over(self, labels: Texts, rows: Mapping[str, PerLabel], ids: IntArray) -> Bundle:
        """The same encoder and fusion over other labels, which are looked for by all numbers.

        Args:
            labels: m texts with uids.
            rows: the arrays of `per_label`, m rows each.
            ids: (m,) int64 stable ids.
        """
        vectors = {kind: rows[kind] for kind in self.vectors}
        fusion = self.fusion and Fusion(self.fusion.weights, rows["frequency"])
        memory, tree = rows.get("memory"), rows.get("links")
        return replace(
            self, labels=labels, vectors=vectors, fusion=fusion, ids=ids, memory=memory, tree=tree, narrow=None
        )

    def fused_by(self, fusion: Fusion, memory: Memory | None = None) -> Bundle:
        """The same model with the kind ``fused``, and ``memory`` where one is given; no probabilities are known yet."""
        return replace(self, fusion=fusion, memory=memory, calibrations={}, narrow=None)

    def narrowed(self, narrow: Narrowing) -> Bundle:
        """The same model, looking for labels of the kinds ``fused`` and ``memory`` by fewer numbers."""
        return replace(self, narrow=narrow)

    def calibrated_by(self, calibrations: Mapping[str, Calibration]) -> Bundle:
        """The same model with probabilities."""
        return replace(self, calibrations=calibrations)

    def save(self, folder: Path, *, encoder: bool = True) -> None:
        """Write the model into a new folder, which appears whole or not at all.

        Args:
            folder: to make.
            encoder: whether to write the encoder; a linker leaves it to the model around it where they share one.
        """
        arrays: dict[str, AnyArray] = dict(self.vectors)
        if self.fusion is not None:
            arrays |= {"fusion": self.fusion.weights, "frequency": self.fusion.frequency}
        if self.narrow is not None:
            arrays |= dict(zip(_NARROW, self.narrow, strict=True))
        if not np.array_equal(self.ids, np.arange(len(self.ids))):
            arrays["ids"] = self.ids
        with new_folder(folder) as path:
            modules = Modules(self.encoder, self.heads, None if self.linked is None else self.linked.enrichment)
            card = self._card() | modules.save(path, encoder=encoder)
            if self.linked is not None:
                linker = self.linked.linker
                linker.save(path / "linker", encoder=linker.encoder is not self.encoder)
            save_model_arrays(path / "labels.safetensors", arrays)
            for part in (self.memory, self.tree):
                if part is not None:
                    part.save(path)
            save_calibrations(path, self.calibrations)
            write_labels(path / "labels.jsonl", self.labels)
            cards.write_card(path / CARD, card)

    def _card(self) -> dict[str, Any]:
        return {
            "format": FORMAT if self.tree is None else OF_TREES,
            "recipe": self.recipe,
            "fields": list(self.fields),
            "labels": len(self.labels),
            "kinds": list(self.kinds),
            "links": self.linked and self.linked.most,
            "chances": self.linked and self.linked.chances and asdict(self.linked.chances),
        }

    @classmethod
    def load(cls, folder: Path, *, device: torch.device, encoder: Encoder | None = None) -> Bundle:
        """Open a saved model. Its label vectors are memory-mapped: processes that serve one model share them.

        Args:
            folder: what `save` wrote.
            device: where it is to run.
            encoder: of the model, if it was saved without.

        Raises:
            BadInput: the folder is no model, or its parts are not those that were saved.
        """
        card = read_card(folder)
        if card["format"] == LINEAR:
            problem = f"expected a model with an encoder, found one of {card['recipe']}, which has none"
            raise BadInput(folder, problem, remedy="choose a run of another recipe")
        arrays = map_arrays(folder / "labels.safetensors")
        labels = read_labels(folder / "labels.jsonl")
        vectors = {name: arrays[name] for name in card["kinds"] if name in arrays}
        encoder, heads, enrichment = Modules.load(folder, card, encoder, device)
        linked = None
        if card.get("links") is not None:
            linker = cls.load(folder / "linker", device=device, encoder=encoder)
            known = card.get("chances")  # no model had them before
            linked = Linked(linker, card["links"], enrichment, known and Chances(**known))
        width, tree = encoder.width if heads is None else heads.text.width, Tree.in_folder(folder, len(labels))
        for name, array in vectors.items():
            wide = linked.width_of(width) if linked is not None and name == "classifier" else width
            if name == SEPARATOR and isinstance(heads, TwoHeads) and heads.separators is not None:
                wide = heads.separators.width
            least = wide if name != "tree" else 1  # the labels of a tree may read a part of a text's vector
            if len(array) != len(labels) or not least <= array.shape[1] <= wide + 1:
                problem = f"expected {name} vectors ({len(labels)}, {wide}), found {array.shape}"
                raise BadInput(folder / "labels.safetensors", problem, remedy=COPY_AGAIN)
        fusion = Fusion(arrays["fusion"], arrays["frequency"]) if "fusion" in arrays else None
        ids = np.array(arrays["ids"]) if "ids" in arrays else np.arange(len(labels))
        memory, fields = Memory.in_folder(folder, len(labels), device), tuple(card["fields"])
        narrow = Narrowing(*(np.array(arrays[name]) for name in _NARROW)) if _NARROW[0] in arrays else None
        more = linked, ids, memory, load_calibrations(folder), tree, narrow
        return cls(card["recipe"], encoder, fields, labels, vectors, fusion, device, heads, *more)
