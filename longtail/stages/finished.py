"""The end of a run; and a finished one that something is learned of without training: its models, what it held out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from longtail.data.dataset import Dataset, must_be_dataset
from longtail.devices import choose_device
from longtail.errors import BadInput
from longtail.files import remove_folder
from longtail.model import Model, open_model
from longtail.model.exports import modules_of
from longtail.model.remembering import keep_titles
from longtail.stages.refit import before_refit
from longtail.train.progress import as_trained, settings_of
from longtail.train.run import Run

Made = TypeVar("Made", bound=Model)
_WEIGHED = ("prefer", "tail_price", "memory", "validation", "seed")


class Finished(NamedTuple):
    """A run whose scores were weighed on documents that it held out.

    Attributes:
        now: the model that the run ranks by.
        before: the model that has not seen these documents; the same where the run never gave them back.
        weighed: the options of `longtail.stages.held_out.FusionOptions` that say how, and on which documents; where the
            run has no option to ask for a memory, it is asked for if the run has one.
    """

    now: Model
    before: Model
    weighed: Mapping[str, Any]

    @classmethod
    def of(cls, folder: Path, dataset: Dataset, device: str) -> Finished:
        """That of a run folder.

        Raises:
            BadInput: the run is of other data, or has learned no fusion; or it was trained on the documents held out,
                too, by an earlier version, and what it was before is not there.
        """
        given = arguments_of(folder, dataset)
        now = open_model(folder / "model", device=choose_device(device))
        if now.fusion is None:
            found = f"one that ranks by {' or '.join(now.kinds)}"
            problem = f"expected a model that has learned a fusion on documents that it held out, found {found}"
            raise BadInput(folder, problem, remedy="train it with a recipe that does, and validation above 0")
        before = before_refit(folder, now.device)
        if before is None and given.get("refit"):
            problem = "expected the model that has not seen the documents held out, found a run of an earlier version"
            raise BadInput(folder, problem, remedy="train it again, or with refit off")
        weighed = {name: given[name] for name in _WEIGHED if name in given}
        return cls(now, before or now, {"memory": now.memory is not None, "validation": 0.0, **weighed})


def arguments_of(folder: Path, dataset: Dataset) -> Mapping[str, Any]:
    """What the run of a folder was trained with.

    Raises:
        BadInput: it is of other data.
    """
    must_be_dataset(dataset)
    settings = settings_of(folder)
    if settings["hashes"] != dataset.fingerprint():
        problem = f"expected a run of {dataset.name}, found one of other data ({settings['data']})"
        raise BadInput(folder / "run.json", problem, remedy="give a run of this data, and no changes since")
    return as_trained(settings)


def finish(run: Run, model: Made) -> Made:
    """Put the trained model into eval mode and into the run's folder, and let the run's own token tables go."""
    run.progress.account()
    for module in modules_of(model):
        module.eval()  # or threads that ask the model would change its mode under each other
    if run.folder is not None and run.ranks.first:
        remove_folder(run.folder / "model")
        with run.log.parts("saving"):
            keep_titles(run.folder, model.memory)
            model.save(run.folder / "model")
    run.ranks.wait()
    if run.folder is not None and run.ranks.first:
        remove_folder(run.folder / "tokens")
        run.log.write(parts=run.log.parts.as_json())
    return model
