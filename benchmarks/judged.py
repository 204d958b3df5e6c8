"""What scripts that judge a finished run by a test split share: ``python SCRIPT RUN DATA``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from longtail.data.dataset import Dataset, Propensity
from longtail.data.split import Split
from longtail.metrics.summary import Ranked, measure
from longtail.model import Model, load
from longtail.model.evaluation import must_have_test
from longtail.topk import FloatArray, TopK

SHOWN = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5", "R@5", "C@5")


@dataclass(frozen=True)
class Judged:
    """A run, and the test documents that it is judged by.

    Attributes:
        model: of the run, as it was trained.
        dataset: has a test split.
        test: that split.
        vectors: of its documents, as the model encodes them.
    """

    model: Model
    dataset: Dataset
    test: Split
    vectors: FloatArray

    @classmethod
    def asked(cls, about: str | None) -> Judged:
        """The run and the data of the command line."""
        parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("run")
        parser.add_argument("data")
        given = parser.parse_args()
        model = load(given.run, changes=False)
        dataset = Dataset.read(given.data, fields=model.fields)
        test = must_have_test(dataset)
        return cls(model, dataset, test, model.encode(test.documents))

    def metrics(self, model: Model, kind: str | None = None, test: Split | None = None) -> Mapping[str, float]:
        """What a score of a model is worth, the best one if left out; by another truth or filter, if they are given."""
        test = test or self.test
        return self.worth(model.search(self.vectors, 10, kind=kind, exclude=test.filtered), test)

    def worth(self, top: TopK, test: Split | None = None) -> Mapping[str, float]:
        """What a ranking of ten labels or more is worth; by another truth, if that is given."""
        test = test or self.test
        constants = [self.dataset.propensity or Propensity(0.55, 1.5)]
        ranked = Ranked(self.vectors, {"one": top}, {"one": 0.0})
        return measure(ranked, test.targets, self.dataset.train.targets, constants, headline="one").kinds["one"]


def row(*cells: str, values: Iterable[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join([*cells, *values])} |"
