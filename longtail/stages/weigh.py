"""A finished run whose scores are weighed anew: by what its user prefers now, without training."""

from __future__ import annotations

from pathlib import Path

from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.locks import alone
from longtail.model import Bundle, Ensemble
from longtail.model.ensemble import AnyModel
from longtail.options import parsed
from longtail.stages.finished import Finished, finish
from longtail.stages.held_out import FusionOptions, fuse, hold_out
from longtail.stages.inputs import inputs_of
from longtail.stages.refit import Learned, keep_before_refit
from longtail.train.run import Run


def weigh(
    trained: str | Path,
    dataset: Dataset,
    *,
    prefer: str | None = None,
    tail_price: float | None = None,
    memory: bool | None = None,
    out: str | Path | Run | None = None,
    device: str = "auto",
) -> Bundle | Ensemble:
    """Learn the fusion, the memory and the probabilities of a trained run anew, and train nothing.

    They are what the run would have learned with these arguments, on the same documents, which it held out; its
    encoder and its label vectors stay as they are. What is left out is as the run has it.

    Args:
        trained: a run folder, of any recipe that learns a fusion, or of an ensemble.
        dataset: that the run was trained on; the test split is not read.
        prefer: what the fusion is chosen by: ``precision``, ``tail`` or ``coverage``.
        tail_price: points of the expected mean of P@1, P@3 and P@5, at most, for rare labels.
        memory: whether to ask the training documents, too, if those held out gain by it.
        out: the folder of the new run; nothing is written if left out.
        device: cpu, cuda, or auto for a GPU where there is one.

    Raises:
        BadInput: the run is of other data, has learned no fusion, or has a cross-encoder, which was weighed beside the
            old one; or it was trained on all documents by an earlier version.
    """
    folder = Path(trained).resolve()
    now, before, weighed = Finished.of(folder, dataset, device)
    given = {"prefer": prefer, "tail_price": tail_price, "memory": memory}
    o = parsed(FusionOptions, "weigh", {**weighed, **{name: one for name, one in given.items() if one is not None}})
    known = {name: getattr(o, name) for name in (*given, "validation", "seed")}
    asked = {"trained": str(folder), **known, "refit": now is not before}  # which has seen all documents
    run = Run.of(out)
    with alone(run.progress.folder):
        run.begin("weigh", dataset, asked, seed=o.seed, device=device, inputs=inputs_of(asked))
        if isinstance(before, Bundle) and isinstance(now, Bundle):
            return finish(run, _weighed(run, before, now, dataset, o))
        if isinstance(before, Ensemble) and isinstance(now, Ensemble):
            return finish(run, _weighed(run, before, now, dataset, o))
        problem = "expected a run without a cross-encoder, found one that has one"
        raise BadInput(folder, problem, remedy="give the run that it was made of, and rerank what comes out")


def _weighed(run: Run, before: AnyModel, now: AnyModel, dataset: Dataset, o: FusionOptions) -> AnyModel:
    """A model that ranks by what it has learned anew before it saw the documents that were held out."""
    rest, held_out = hold_out(dataset, o.validation, o.seed)
    run.progress.claim()
    run.log.say(f"weighing {len(before.mixed)} scores on {len(held_out):,} documents that the run held out")
    model = fuse(run, before, held_out, rest.train, o, propensity=dataset.propensity)
    if now is before:
        return model
    keep_before_refit(run, model)
    return Learned.by(model).given_to(now, dataset.train)
