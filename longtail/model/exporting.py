"""``longtail export``: the transformers of a run as ONNX, checked against what they were."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from longtail.data.dataset import Dataset
from longtail.data.holdout import rows_at_random
from longtail.data.sparse import csr
from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.files import new_folder, remove_partial
from longtail.locks import alone
from longtail.metrics.ranking import metrics_of
from longtail.model.base import Model
from longtail.model.catalogue import state_of
from longtail.model.exports import transformers_of
from longtail.model.opening import open_model
from longtail.model.same_labels import has_labels
from longtail.modules.exported import FOLDER, encode_by, write_export
from longtail.train.progress import DATA, settings_of

K = 5  # labels of a text that recall is measured at
_OR_FLOAT32 = ", or leave int8 out"
_ASKED, _TURNS = 1_000, 10  # texts that are ranked at most, and in how many turns they are encoded by either


class Side(NamedTuple):
    """The encoders of a model as PyTorch runs them, or as onnxruntime does.

    Attributes:
        recall: at 5, in [0, 1].
        megabytes: of the files of their weights.
        rate: texts encoded a second.
    """

    recall: float
    megabytes: float
    rate: float


class Export(NamedTuple):
    """What an export has come to.

    Attributes:
        before: the encoders by PyTorch.
        after: by onnxruntime.
        asked: texts that both have ranked labels for.
        same: share of the first five labels of the one that are among those of the other, in [0, 1].
        difference: the largest between two numbers of a text's vector.
        of_labels: whether the texts are those of labels, each of which has itself as its one true label, and not
            documents of the test split.
        numbers: ``float32`` or ``int8``.
        folders: with the exports, one for each transformer.
    """

    before: Side
    after: Side
    asked: int
    same: float
    difference: float
    of_labels: bool = False
    numbers: str = ""
    folders: tuple[Path, ...] = ()


def export(run: str | Path, *, int8: bool = False, tolerance: float = 0.001, data: str | Path | None = None) -> Export:
    """Write the transformers of a run as ONNX, by which `longtail.load` then encodes on a CPU; ``longtail export``.

    Each is written into the folder ``onnx`` of its encoder's, in the place of an earlier export, once up to 1,000 test
    documents, or texts of labels where there are none, are ranked about as well as before. To take it back, remove that
    folder. Pooling, windows and projections stay with PyTorch.

    Args:
        run: the run folder.
        int8: round weights and activations to 8 bits.
        tolerance: how much lower recall@5 may be, in [0, 1].
        data: a data set folder, whose test documents are ranked; the run's own if left out.

    Raises:
        BadInput: the model has no transformer, or one that cannot be exported; or it would rank less well.
        MissingExtra: a package is not installed.
    """
    run, numbers = Path(run), "int8" if int8 else "float32"
    if not 0 <= tolerance <= 1:
        raise BadInput("tolerance", f"expected a share in 0 to 1, found {tolerance:g}", remedy="change it")
    with alone(run), ExitStack() as stack:
        folder, device = run / state_of(run).folder, torch.device("cpu")
        before, after = open_model(folder, device=device), open_model(folder, device=device)
        if not (encoders := transformers_of(after)):
            problem = f"expected a model with a transformer, found one of {before.recipe} without"
            raise BadInput(folder, problem, remedy="there is nothing to export: it is made for a CPU as it is")
        remove_partial(run)
        own = [Path(encoder.name) for encoder in encoders]
        new = [stack.enter_context(new_folder(place / FOLDER, instead=True)) for place in own]
        for encoder, place in zip(encoders, new, strict=True):
            write_export(encoder, place, numbers)
            encode_by(encoder, place)
        asked, of_labels = _asked(run, before, data)
        found = _compared((before, after), (_megabytes(own), _megabytes(new)), asked)
        if (recall := found.after.recall) < (least := found.before.recall - tolerance):
            problem = f"expected a recall@{K} of {least:.4f} or more on {len(asked):,} texts, found {recall:.4f}"
            raise BadInput("tolerance", f"{problem}: nothing was kept", remedy=f"give more{_OR_FLOAT32 * int8}")
    return found._replace(numbers=numbers, folders=tuple(place / FOLDER for place in own), of_labels=of_labels)


def _asked(run: Path, model: Model, data: str | Path | None) -> tuple[Split, bool]:
    """Texts with their true labels, and whether they are those of labels."""
    place = data or (run / DATA if (run / DATA).is_dir() else settings_of(run)["data"])
    if data is not None or (place is not None and Path(place).is_dir()):
        dataset = Dataset.read(place, fields=model.fields, graphs=())
        if dataset.test is not None and has_labels(model, dataset.labels):
            rows = np.arange(len(dataset.test))
            if len(rows) > _ASKED:
                rows = rows_at_random(len(rows), _ASKED, 0)
            return dataset.test.take(rows), False
    rows = rows_at_random(len(model.labels), min(_ASKED, len(model.labels)), 0)
    return Split(model.labels.take(rows), csr(np.arange(len(rows)), rows, (len(rows), len(model.labels)))), True


def _compared(models: tuple[Model, Model], megabytes: tuple[float, float], asked: Split) -> Export:
    """Rank labels by both, and take the time that either encodes in, in turns."""
    seconds = np.zeros(2)
    vectors: tuple[list[Any], list[Any]] = ([], [])
    for model in models:
        model.encode(asked.documents.take(np.arange(1)))  # what is done once is not in the time
    for rows in np.array_split(np.arange(len(asked)), _TURNS):
        for i, model in enumerate(models):
            texts, start = asked.documents.take(rows), time.perf_counter()
            vectors[i].append(model.encode(texts))
            seconds[i] += time.perf_counter() - start
    one, other = map(np.concatenate, vectors)
    tops = [model.search(x, K, exclude=asked.filtered) for model, x in zip(models, (one, other), strict=True)]
    recalls = [metrics_of(top, asked.targets, ks=[K])[f"R@{K}"] / 100 for top in tops]
    before, after = map(Side, recalls, megabytes, (len(asked) / seconds).tolist())
    found = (tops[0].ids[:, :, None] == tops[1].ids[:, None]).any(2)
    same = float(found[tops[0].ids >= 0].mean())
    return Export(before, after, len(asked), same, float(np.abs(one - other).max()))


def _megabytes(folders: list[Path]) -> float:
    """Of the files of weights in some folders."""
    return sum(path.stat().st_size for folder in folders for path in folder.glob("model*")) / 1e6
