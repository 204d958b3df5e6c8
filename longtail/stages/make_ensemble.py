"""Two trained runs as one model: what each is worth is learned on the documents that both held out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longtail.data.dataset import Dataset
from longtail.devices import choose_device
from longtail.errors import BadInput
from longtail.locks import alone
from longtail.model import Ensemble, Model, open_model
from longtail.stages.held_out import FusionOptions, fuse, hold_out
from longtail.stages.recipe import finish
from longtail.stages.refit import Learned, before_refit, keep_before_refit
from longtail.train.progress import settings_of
from longtail.train.run import Run


def ensemble(
    dataset: Dataset,
    first: str | Path,
    second: str | Path,
    *,
    out: str | Path | Run | None = None,
    device: str = "auto",
) -> Ensemble:
    """Rank by two trained runs at once.

    Both models stay as they are. A fusion of all their scores is learned as that of one run is
    (`longtail.search.weighing.learn_fusion`), on the training documents that both held out, and so is a memory, where
    one of them was trained with it; an ensemble may be a member of another. Of a run with ``refit`` it is learned with
    the model before that, which has not seen these documents.

    Args:
        dataset: that both were trained on; the test split is not read.
        first: a run folder.
        second: another, of the same ``validation`` and ``seed``, so that it held out the same documents.
        out: the run folder of the ensemble; nothing is written if left out.
        device: cpu, cuda, or auto for a GPU where there is one.

    Raises:
        BadInput: a run is of other data, or has not held out the same documents for its fusion; or it was trained on
            these, too, by an earlier version, and what it was before is not there.
    """
    asked = {"first": str(Path(first).resolve()), "second": str(Path(second).resolve())}
    arguments = [_arguments(Path(folder), dataset) for folder in asked.values()]
    held = [(of_run.get("validation", 0.0), of_run["seed"]) for of_run in arguments]
    if held[0] != held[1]:
        expected, found = (f"validation {share:g} and seed {seed}" for share, seed in held)
        problem = f"expected {expected}, those of {first}, found {found}"
        remedy = "train one of them again, with those of the other, by a recipe that has the option validation"
        raise BadInput(Path(second) / "run.json", problem, remedy=remedy)
    share, seed = held[0]
    run = out if isinstance(out, Run) else Run(None if out is None else Path(out))
    with alone(run.progress.folder):
        run.begin("ensemble", dataset, asked | {"validation": share, "seed": seed}, seed=seed, device=device)
        (first_before, first_now), (second_before, second_now) = members = [
            _member(Path(folder), of_run, device) for folder, of_run in zip(asked.values(), arguments, strict=True)
        ]
        rest, held_out = hold_out(dataset, share, seed)
        run.progress.claim()
        both = Ensemble(first_before, second_before)
        run.log.say(f"weighing {len(both.mixed)} scores on {len(held_out):,} documents that both runs held out")
        memory = any(of_run.get("memory", True) for of_run in arguments)
        model = fuse(run, both, held_out, rest.train, FusionOptions(memory=memory))
        if any(now is not before for before, now in members):
            keep_before_refit(run, model)
            model = Learned.by(model).given_to(Ensemble(first_now, second_now), dataset.train)
        return finish(run, model)


def _member(folder: Path, arguments: Mapping[str, Any], device: str) -> tuple[Model, Model]:
    """The model of a run that has not seen the documents held out, and the one that it ranks by.

    Both are without their memory: that of the ensemble has the same.
    """
    now = open_model(folder / "model", device=choose_device(device))
    if now.fusion is None:
        found = f"one that ranks by {' or '.join(now.kinds)}"
        problem = f"expected a model that has learned a fusion on documents that it held out, found {found}"
        raise BadInput(folder, problem, remedy="train it with a recipe that does, and validation above 0")
    now = now.fused_by(now.fusion)
    before = before_refit(folder, now.device)
    if before is None and arguments.get("refit"):
        problem = "expected the model that has not seen the documents held out, found a run of an earlier version"
        raise BadInput(folder, problem, remedy="train it again, or with refit off")
    return (now if before is None or before.fusion is None else before.fused_by(before.fusion)), now


def _arguments(folder: Path, dataset: Dataset) -> Mapping[str, Any]:
    """What a run of this data set was given, among it which documents it held out."""
    settings = settings_of(folder)
    if settings["hashes"] != dataset.fingerprint():
        problem = f"expected a run of {dataset.name}, found one of other data ({settings['data']})"
        raise BadInput(folder / "run.json", problem, remedy="give two runs of the same data, and no changes since")
    arguments: Mapping[str, Any] = settings["arguments"]
    return arguments
