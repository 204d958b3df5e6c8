"""What a trained model learns without training: documents, with labels that it was trained with and others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.data.sparse import CSR, row_of_entry, stacked, take_entries, widened
from longtail.data.texts import Texts
from longtail.model.bundle import Bundle
from longtail.model.narrowing import narrowing_of, still_narrowed
from longtail.model.per_label import followed
from longtail.search.keys import keys_of
from longtail.search.memory import Memory
from longtail.topk import BoolArray, IntArray


class Lessons(NamedTuple):
    """What a model was taught after its training, of labels that no training document had.

    Attributes:
        trained: (L,) which labels a training document had.
        examples: e documents that have another label.
        targets: (e, L) CSR of ones: the other labels of each.
    """

    trained: BoolArray
    examples: Texts
    targets: CSR

    @classmethod
    def none(cls, targets: CSR) -> Lessons:
        """Nothing yet, of a model that was trained on documents with (N, L) targets."""
        L = targets.shape[1]
        trained = np.bincount(targets.indices, minlength=L) > 0
        return cls(trained, Texts.of([]), CSR((0, L), dtype=np.float32))

    def and_of(self, documents: Texts, targets: CSR) -> Lessons:
        """These, and those of further documents with (n, L') targets, where L' - L labels are new."""
        trained = np.pad(self.trained, (0, targets.shape[1] - len(self.trained)))
        others = take_entries(targets, ~trained[targets.indices])
        kept = np.flatnonzero(np.diff(others.indptr))
        both = stacked([widened(self.targets, targets.shape[1]), CSR(others[kept])])
        return Lessons(trained, self.examples.followed_by(documents.take(kept)), both)

    def of(self, labels: IntArray) -> tuple[Texts, IntArray]:
        """The examples of some labels, e' texts, and which of the labels each one has, (e',)."""
        places = np.full(self.targets.shape[1], -1)
        places[labels] = np.arange(len(labels))
        owners = places[self.targets.indices]
        return self.examples.take(row_of_entry(self.targets)[owners >= 0]), owners[owners >= 0]


def taught(model: Bundle, labels: Texts, documents: Texts, targets: CSR, lessons: Lessons) -> tuple[Bundle, Lessons]:
    """The same model, knowing further documents and labels.

    A label that no training document had is made of its text and all of its examples (`Bundle.new_labels`). One that
    was trained keeps its vectors. A memory remembers the documents with all of their labels.

    Args:
        model: of L labels.
        labels: L' - L new ones, with uids.
        documents: n texts.
        targets: (n, L') CSR of ones.
        lessons: what it was taught before.

    Returns:
        The model, and what it has been taught by now.
    """
    before, after = len(model.labels), targets.shape[1]
    lessons = lessons.and_of(documents, targets)
    touched = np.unique(targets.indices)
    made = np.union1d(touched[~lessons.trained[touched]], np.arange(before, after)).astype(np.int64)
    texts = model.labels.followed_by(labels)
    examples, owners = lessons.of(made)
    found, rows = model.new_labels(texts.take(made), examples, owners).per_label(), model.per_label()
    kept = np.setdiff1d(np.arange(before), made)
    order = np.argsort(np.concatenate([kept, made]))
    for name, known in rows.items():
        if isinstance(known, Memory):
            keys = keys_of(model.encode(documents), model.key_columns)
            rows[name] = known.also(keys, targets, documents.fields["title"])
        else:
            rows[name] = followed(known[kept], found[name])[order]
    ids = np.concatenate([model.ids, model.next_id + np.arange(after - before)])
    changed = still_narrowed(model.over(texts, rows, ids), narrowing_of(model), after - before)
    assert isinstance(changed, Bundle)
    return changed, lessons
