"""What the tail gains where the scores of frequent labels are lowered, and what that costs, on a trained run.

    longtail data split SET --rows 2000 --seed 1 --at-random --out CUT
    longtail train unidec CUT --no-refit --tail-price 0 --out RUN
    python benchmarks/tail_price.py RUN CUT

The score that the run ranks by, of a fusion or a memory, is lowered by t ln(1 + f) for a label with f training
documents. For each t a line of a table: what the metrics of the test split change by, in points, which are given in the
first line. `--tail-price` of `longtail train` has each run choose its t.
"""

from __future__ import annotations

from dataclasses import replace

from judged import SHOWN, Judged, row

from longtail.model import Model
from longtail.search.fusion import Fusion
from longtail.topk import Float64Array

STEPS = (0.03, 0.06, 0.09, 0.12, 0.15, 0.2, 0.3, 0.4)


def lowered(model: Model, t: float) -> Model:
    """The model with c(f) lowered by t ln(1 + f)."""
    assert model.fusion is not None, "expected a run with a fusion"

    def less(weights: Float64Array) -> Float64Array:
        weights = weights.copy()
        weights[-1, 1] -= t
        return weights

    memory = None if model.memory is None else replace(model.memory, weights=less(model.memory.weights))
    return model.fused_by(Fusion(less(model.fusion.weights), model.fusion.frequency), memory)


def main() -> None:
    """Print the table."""
    judged = Judged.asked(__doc__)
    first = judged.metrics(judged.model)
    print(row("t", values=SHOWN))
    print("|", "---|" * (1 + len(SHOWN)), sep="")
    print(row("0", values=[f"{first[name]:.1f}" for name in SHOWN]))
    for t in STEPS:
        found = judged.metrics(lowered(judged.model, t))
        print(row(str(t), values=[f"{found[name] - first[name]:+.1f}" for name in SHOWN]), flush=True)


if __name__ == "__main__":
    main()
