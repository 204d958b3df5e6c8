"""Linear separators of labels over the words of documents, one versus all or in trees: what these recipes share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longtail.batches.label_tree import label_tree, unit_rows
from longtail.data.dataset import Dataset
from longtail.data.filters import apart, by_label
from longtail.data.holdout import without_orphaned_labels
from longtail.data.sparse import CSR, csr, stacked
from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.metrics.propensity import label_frequency
from longtail.model.calibration import learn_calibration
from longtail.model.linear import Linear, features
from longtail.model.thresholds import DEPTH
from longtail.options import BELOW_ONE, COUNT, NATURAL, POSITIVE, option
from longtail.search.label_trees import ROOT, LabelTree, LabelTrees
from longtail.stages.fields import ReadingOptions
from longtail.stages.held_out import hold_out
from longtail.text.bag import BagTokenizer
from longtail.text.ragged import Ragged
from longtail.text.tokens import token_table
from longtail.topk import IntArray
from longtail.train.pieces import piecewise
from longtail.train.run import Run
from longtail.train.squared_hinge import Separators


@dataclass(frozen=True, kw_only=True)
class SeparatorOptions(ReadingOptions):
    """Separators."""

    cost: float = option(1.0, "C, what an error costs beside the length of a separator", within=POSITIVE)
    least_weight: float = option(0.01, "weights that are smaller are left out", within=NATURAL)
    validation: float = option(
        0.0, "share of the training documents, 5,000 at most, held out to learn probabilities", within=BELOW_ONE
    )


@dataclass(frozen=True, kw_only=True)
class TreeOptions(SeparatorOptions):
    """Label trees."""

    trees: int = option(3, "trees, whose scores are averaged", within=COUNT)
    branching: int = option(2, "nodes below a node, at most", within=COUNT)
    balanced: bool = option(True, "whether two nodes below a node have the same number of labels")
    leaf: int = option(100, "labels of a node that is not cut any more", within=COUNT)
    beam: int = option(10, "nodes that a search keeps at each depth; at most 4,096 labels are all scored", within=COUNT)
    least_weight: float = 0.1

    def check(self, dataset: Dataset) -> None:
        """Refuse halves that are more than two."""
        super().check(dataset)
        if self.branching < 2 or (self.balanced and self.branching != 2):
            expected = "2 with balanced" if self.balanced else "at least 2"
            problem = f"expected {expected}, found {self.branching}"
            raise BadInput("branching", problem, remedy="give another number, or balanced false")


@dataclass(frozen=True)
class Words:
    """What these recipes learn from.

    Attributes:
        tokenizer: knows the V features.
        x: (N, V + 1) the features of the training documents, and a 1.
        train: N documents, without those held out.
        held_out: these.
        targets: (L, N) of ones: the documents of each label, but for filtered pairs.
        filtered: (L, N) of ones: documents that are neither right nor wrong for a label.
    """

    tokenizer: BagTokenizer
    x: CSR
    train: Split
    held_out: Split
    targets: CSR
    filtered: CSR

    @classmethod
    def of(cls, tokenizer: BagTokenizer, table: Ragged, train: Split, held_out: Split) -> Words:
        """Those of N documents by their (N,) token table."""
        return cls(tokenizer, features(table, len(tokenizer)), train, held_out, *by_label(train))


def read_words(run: Run, dataset: Dataset, o: SeparatorOptions) -> Words:
    """Hold documents out, and find the words of the others.

    Raises:
        BadInput: the run is one of several processes, or of several shards.
    """
    if run.shards is not None:
        problem = f"expected 1 for {run.recipe}, which solves its separators in one process, found {run.shards.count}"
        raise BadInput("shards", problem, remedy="leave it out, and start one process")

    def make() -> Words:
        rest, held_out = hold_out(dataset, o.validation, o.seed)
        documents = rest.train.documents
        tokenizer = BagTokenizer.fit(documents.joined(o.fields))
        return Words.of(tokenizer, token_table(documents, o.fields, tokenizer, run.cache), rest.train, held_out)

    return run.once("words", make)


def solved_trees(run: Run, words: Words, o: TreeOptions) -> list[LabelTree]:
    """Trees over labels, each of which is the mean of its documents: they differ in the centres that they begin from.

    Args:
        run: keeps a stage for each.
        words: of the documents.
        o: how many, and how they are cut.
    """

    def cut() -> list[tuple[IntArray, IntArray]]:
        z = CSR(unit_rows(words.targets @ words.x[:, :-1]))
        there = np.flatnonzero(np.diff(z.indptr))
        found = []
        for t in range(o.trees):
            generator, leaves = np.random.default_rng([o.seed, t, 0, 0, 10]), np.full(z.shape[0], -1)
            parents, leaves[there] = label_tree(
                CSR(z[there]), o.branching, o.leaf, balanced=o.balanced, generator=generator
            )
            found.append((parents, leaves))
        return found

    trees = run.once("trees", cut)
    return [solved_tree(run, f"tree {t + 1}", words, *tree, o) for t, tree in enumerate(trees)]


def solved_tree(
    run: Run, stage: str, words: Words, parents: IntArray, leaves: IntArray, o: SeparatorOptions
) -> LabelTree:
    """A tree with the separators of its nodes and labels, each told from what else is below the same node.

    A node's documents are those of its labels, and the others play no part below it.

    Args:
        run: keeps the stage.
        stage: its name.
        words: of the documents.
        parents: (M,) the node above each node; -1 for the root.
        leaves: (L,) the node above each label; -1 for one without documents.
        o: cost and least weight.
    """
    M, N = len(parents), words.x.shape[0]
    above = np.concatenate([parents, leaves])
    documents, neither = _below(words.targets, parents, leaves), _below(words.filtered, parents, leaves)
    neither = apart(neither, documents)
    order = np.argsort(above, kind="stable")
    order = order[np.searchsorted(above[order], ROOT) :]

    def make(places: IntArray) -> CSR:
        things, made = order[places], []
        for node in np.unique(above[things]).tolist():
            here = np.arange(N) if node == ROOT else documents[[node]].indices
            some = things[above[things] == node]
            separators = Separators(words.x[here], o.cost, o.least_weight)
            made.append(separators.of(*(CSR(CSR(pairs[some])[:, here]) for pairs in (documents, neither))))
        return stacked(made)

    sizes = np.diff(documents.indptr)
    sizes[ROOT] = N
    solved = piecewise(run, stage, make, sizes[above[order]], words.x.shape[1])
    places = np.full(len(above), len(order))
    places[order] = np.arange(len(order))
    every = CSR(stacked([solved, CSR((1, solved.shape[1]), dtype=np.float32)])[places])
    return LabelTree(parents, every[:M], leaves, every[M:])


def _below(pairs: CSR, parents: IntArray, leaves: IntArray) -> CSR:
    """(M + L, N) of ones: the documents of the labels that are below each node, and those of each label."""
    L, M = len(leaves), len(parents)
    rows, nodes = np.flatnonzero(leaves >= 0), leaves[leaves >= 0]
    found = []
    while len(rows):
        found.append(csr(nodes, rows, (M, L)))
        nodes = parents[nodes]
        rows, nodes = rows[nodes >= 0], nodes[nodes >= 0]
    above = CSR(sum(found, start=CSR((M, L), dtype=np.float32)))
    return stacked([CSR((above @ pairs).sign()), pairs])


def linear_model(
    run: Run, dataset: Dataset, words: Words, trees: Sequence[LabelTree], o: SeparatorOptions, beam: int = 1
) -> Linear:
    """The trained model; with probabilities, where documents were held out."""
    frequency = label_frequency(words.train.targets)
    kept = LabelTrees(trees, beam), frequency
    model = Linear(run.recipe, words.tokenizer, tuple(o.fields), dataset.labels, *kept)
    if run.plan is not None or not len(words.held_out):
        return model
    held_out, _ = without_orphaned_labels(words.held_out, frequency)
    top = model.rank(held_out.documents, DEPTH, exclude=held_out.filtered)
    found = learn_calibration(top, held_out.targets, frequency)
    return model if found is None else model.calibrated_by({model.kinds[-1]: found})
