"""The documents that a recipe holds out, and the fusion that it learns on them."""

from __future__ import annotations

from longtail.data.dataset import Dataset
from longtail.data.holdout import rows_at_random
from longtail.data.sparse import CSR
from longtail.data.split import Split
from longtail.evaluate.propensity import label_frequency
from longtail.search.fusion import Candidates, learn_fusion
from longtail.stages.text import AnyModel
from longtail.topk import IntArray


def hold_out(dataset: Dataset, share: float, seed: int) -> tuple[Dataset, Split]:
    """Hold a share of the training documents out, drawn at random, 5,000 at most: what is left, and those rows."""
    return dataset.holdout(rows_held_out(dataset, share, seed))


def rows_held_out(dataset: Dataset, share: float, seed: int) -> IntArray:
    """The rows that `hold_out` takes."""
    return rows_at_random(len(dataset.train), min(5000, round(share * len(dataset.train))), seed)


def fuse(bundle: AnyModel, validation: Split, targets: CSR) -> AnyModel:
    """The same model with the kind ``fused``, learned on held-out training documents.

    It is learned on the labels that its scorers find, and then searches all labels, where it may prefer some that none
    of them finds: nothing was learned about those. So they become candidates too, and it learns again, until at least
    99 % of the five labels that it ranks first were candidates. Every round before that adds candidates, so it ends.

    Args:
        bundle: has at least two scorers.
        validation: documents that no stage was trained on; where there are none, the model stays as it is.
        targets: (N, L) of the documents that the stages were trained on, for the frequency of labels.
    """
    if not len(validation):
        return bundle
    vectors, frequency = bundle.encode(validation.documents), label_frequency(targets)
    queries = [bundle.queries(vectors, kind) for kind in bundle.scorers]
    tables = [bundle.table(kind) for kind in bundle.scorers]
    tops = [bundle.search(vectors, 100, kind=kind, exclude=validation.filtered) for kind in bundle.scorers]
    while True:
        candidates = Candidates.of(tops, queries, tables, validation.targets)
        fused = bundle.fused_by(learn_fusion(candidates, frequency))
        tops.append(fused.search(vectors, 100, kind="fused", exclude=validation.filtered))
        if candidates.cover(tops[-1].ids[:, :5]) >= 0.99:
            return fused
