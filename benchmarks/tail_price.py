"""What the tail gains where the scores of frequent labels are lowered, and what that costs, on a trained run.

    longtail data split SET --rows 2000 --seed 1 --at-random --out CUT
    longtail train unidec CUT --no-refit --tail-price 0 --out RUN
    python benchmarks/tail_price.py RUN CUT

The score that the run ranks by, of a fusion or a memory, is lowered by t ln(1 + f) for a label with f training
documents. For each t a line of a table: what the metrics of the test split change by, in points, which are given in the
first line. `--tail-price` of `longtail train` has each run choose its t.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from longtail.data.dataset import Dataset, Propensity
from longtail.metrics.summary import Ranked, measure
from longtail.model import Model, load
from longtail.model.evaluation import must_have_test
from longtail.search.fusion import Fusion
from longtail.topk import Float64Array

STEPS = (0.03, 0.06, 0.09, 0.12, 0.15, 0.2, 0.3, 0.4)
SHOWN = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5", "R@5", "C@5")


def lowered(model: Model, t: float) -> Model:
    """The model with c(f) lowered by t ln(1 + f)."""
    assert model.fusion is not None, "expected a run with a fusion"
    step = np.zeros(3)
    step[1] = t

    def less(weights: Float64Array) -> Float64Array:
        return np.concatenate([weights[:-1], weights[-1:] - step])

    memory = None if model.memory is None else replace(model.memory, weights=less(model.memory.weights))
    return model.fused_by(Fusion(less(model.fusion.weights), model.fusion.frequency), memory)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("data")
    given = parser.parse_args()
    model = load(given.run, changes=False)
    dataset = Dataset.read(given.data, fields=model.fields)
    test = must_have_test(dataset)
    vectors, constants = model.encode(test.documents), dataset.propensity or Propensity(0.55, 1.5)

    def metrics(model: Model) -> Float64Array:
        top = model.search(vectors, 10, exclude=test.filtered)
        ranked = Ranked(vectors, {"one": top}, {"one": 0.0}, {})
        found = measure(ranked, test.targets, dataset.train.targets, [constants], headline="one")
        return np.array([found.kinds["one"][name] for name in SHOWN])

    first = metrics(model)
    print("| t |", *(f" {name} |" for name in SHOWN), sep="")
    print("|", "---|" * (1 + len(SHOWN)), sep="")
    print("| 0 |", *(f" {value:.1f} |" for value in first), sep="")
    for t in STEPS:
        print(f"| {t} |", *(f" {value:+.1f} |" for value in metrics(lowered(model, t)) - first), sep="", flush=True)


if __name__ == "__main__":
    main()
