"""Two trained runs as one model: what each is worth is learned on the documents that both held out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.locks import alone
from longtail.model import Ensemble, Model
from longtail.model.exports import transformers_of
from longtail.modules.encoders.given import each_text_once
from longtail.stages.finished import Finished, finish
from longtail.stages.held_out import FusionOptions, fuse, held_out_by, hold_out
from longtail.stages.inputs import inputs_of
from longtail.stages.refit import Learned, keep_before_refit
from longtail.train.run import Run


def ensemble(
    first: str | Path,
    second: str | Path,
    dataset: Dataset,
    *,
    out: str | Path | Run | None = None,
    device: str = "auto",
) -> Ensemble:
    """Rank by two trained runs at once; ``longtail ensemble`` is this.

    Both models stay as they are. A fusion of all their scores is learned as that of one run is
    (`longtail.search.weighing.learn_fusion`), on the training documents that both held out, and so is a memory, where
    one of them was trained with it; an ensemble may be a member of another. Of a run with ``refit`` it is learned with
    the model before that, which has not seen these documents.

    Examples:
        >>> longtail.ensemble("runs/minilm", "runs/bag", dataset, out="runs/both")  # doctest: +SKIP

    Args:
        first: a run folder.
        second: another, that held out the same documents, or more, or some of these: of the same ``validation`` and
            ``seed``, or above 10,000 documents of another ``validation`` above 0.02 (`held_out_by`).
        dataset: that both were trained on; the test split is not read.
        out: the run folder of the ensemble; nothing is written if left out.
        device: cpu, cuda, or auto for a GPU where there is one.

    Raises:
        BadInput: a run is of other data, or has not held out the same documents for its fusion; or it was trained on
            these, too, by an earlier version, and what it was before is not there.
    """
    asked = {"first": str(Path(first).resolve()), "second": str(Path(second).resolve())}
    members = [Finished.of(Path(folder), dataset, device) for folder in asked.values()]
    held = [(member.weighed["validation"], member.weighed["seed"]) for member in members]
    (share, seed), more = sorted(held)
    if not held_out_by(dataset, share, seed, other=more):
        expected, found = (f"validation {share:g} and seed {seed}" for share, seed in held)
        problem = f"expected {expected}, those of {first}, found {found}"
        remedy = "train one of them again, with those of the other, by a recipe that has the option validation"
        raise BadInput(Path(second) / "run.json", problem, remedy=remedy)
    run = Run.of(out)
    with alone(run.progress.folder):
        given = asked | {"validation": share, "seed": seed}
        run.begin("ensemble", dataset, given, seed=seed, device=device, inputs=inputs_of(asked))
        rest, held_out = hold_out(dataset, share, seed)
        run.progress.claim()
        both = _both([member.before for member in members])
        run.log.say(f"weighing {len(both.mixed)} scores on {len(held_out):,} documents that both runs held out")
        memory = any(member.weighed["memory"] for member in members)
        every = [part for member in members for one in (member.before, member.now) for part in transformers_of(one)]
        with each_text_once(every):
            model = fuse(run, both, held_out, rest.train, FusionOptions(memory=memory))
            if any(member.now is not member.before for member in members):
                keep_before_refit(run, model)
                model = Learned.by(model).given_to(_both([member.now for member in members]), dataset.train)
        return finish(run, model)


def _both(models: Sequence[Model]) -> Ensemble:
    """Two models as one, both without their memory: that of the ensemble has the same."""
    first, second = (model if model.fusion is None else model.fused_by(model.fusion) for model in models)
    return Ensemble(first, second)
