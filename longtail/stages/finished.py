"""A finished run that something is learned of without training: its models, and which documents it held out."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from longtail.data.dataset import Dataset
from longtail.devices import choose_device
from longtail.errors import BadInput
from longtail.model import Model, open_model
from longtail.stages.refit import before_refit
from longtail.train.progress import settings_of


class Finished(NamedTuple):
    """A run whose scores were weighed on documents that it held out.

    Attributes:
        now: the model that the run ranks by.
        before: the model that has not seen these documents; the same where the run never gave them back.
        validation: the share of the training documents that it held out.
        seed: by which they were drawn.
        memory: whether the run asked for a memory.
    """

    now: Model
    before: Model
    validation: float
    seed: int
    memory: bool

    @classmethod
    def of(cls, folder: Path, dataset: Dataset, device: str) -> Finished:
        """That of a run folder.

        Raises:
            BadInput: the run is of other data, or has learned no fusion; or it was trained on the documents held out,
                too, by an earlier version, and what it was before is not there.
        """
        settings = settings_of(folder)
        if settings["hashes"] != dataset.fingerprint():
            problem = f"expected a run of {dataset.name}, found one of other data ({settings['data']})"
            raise BadInput(folder / "run.json", problem, remedy="give a run of the same data, and no changes since")
        now, given = open_model(folder / "model", device=choose_device(device)), settings["arguments"]
        if now.fusion is None:
            found = f"one that ranks by {' or '.join(now.kinds)}"
            problem = f"expected a model that has learned a fusion on documents that it held out, found {found}"
            raise BadInput(folder, problem, remedy="train it with a recipe that does, and validation above 0")
        before = before_refit(folder, now.device)
        if before is None and given.get("refit"):
            problem = "expected the model that has not seen the documents held out, found a run of an earlier version"
            raise BadInput(folder, problem, remedy="train it again, or with refit off")
        return cls(now, before or now, given.get("validation", 0.0), given["seed"], given.get("memory", True))
