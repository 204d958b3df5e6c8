"""What tests of several rooms share.

Fixtures import what they need: the process that deals out the tests needs none of it, and all others wait for that one.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

for name, action in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
    if getattr(signal, name, None) and signal.getsignal(getattr(signal, name)) == signal.SIG_IGN:
        signal.signal(getattr(signal, name), action)  # what nohup and "&" have us ignore, our processes would, too


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect tests, but no garbage: there is none, and to look for it takes a third of the time."""
    gc.disable()
    collected = yield
    gc.freeze()
    gc.enable()
    return collected


@pytest.fixture(scope="session", autouse=True)
def no_wait_for_the_disk() -> Iterator[None]:
    """Nobody cuts the power here; `tests/faults` sees that what is to reach the disk is asked to, and when."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", os.fstat)  # which refuses the same descriptors
        yield


@pytest.fixture
def set_threads() -> Iterator[Callable[[int], None]]:
    """Sets the number of torch's threads, which is the old one again when the test ends."""
    import torch

    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def longtail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Run ``longtail`` to its end, in a process that has imported it: (exit status, output, errors)."""
    from warm import Warm

    warm = Warm(tmp_path_factory.mktemp("warm"))
    yield warm.run
    warm.close()


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a BERT of 2 layers, 32 wide, with random weights, 13 words and texts of at most 16 tokens."""
    from tiny_bert import write_tiny_bert

    folder = tmp_path_factory.mktemp("tiny-bert")
    write_tiny_bert(folder)
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The run folder of a model with 120 labels and every score kind of ngame."""
    from longtail import recipes
    from longtail.testing.planted import planted

    folder = tmp_path_factory.mktemp("served") / "run"
    dataset = planted(0, documents=400, test_documents=50, labels=120).dataset
    options = {"epochs": 2, "classifier_epochs": 2, "batch": 64, "width": 32, "validation": 0.2, "tail_price": 0}
    recipes.ngame(dataset, out=folder, device="cpu", **options)
    return folder


@pytest.fixture(scope="session")
def trained_with_memory(trained, tmp_path_factory):
    """The same, with a memory of its 400 training documents, whose weight was not learned."""
    import numpy as np

    from longtail import load
    from longtail.files import remove_folder
    from longtail.model.remembering import keep_titles, remember
    from longtail.testing.planted import planted

    run = tmp_path_factory.mktemp("remembering") / "run"
    dataset = planted(0, documents=400, test_documents=50, labels=120).dataset
    shutil.copytree(trained, run)
    model = load(run, changes=False)
    weights = np.insert(model.fusion.weights, -1, [8, 0, 0, 0, 0], axis=0)
    model = model.fused_by(model.fusion, remember(model, dataset.train.documents, dataset.train.targets, weights))
    remove_folder(run / "model")
    keep_titles(run, model.memory)
    model.save(run / "model")
    return run


@pytest.fixture
def run(trained, tmp_path):
    """A run folder of the test's own."""
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture
def run_with_memory(trained_with_memory, tmp_path):
    """A run folder of the test's own, whose model remembers its training documents."""
    return shutil.copytree(trained_with_memory, tmp_path / "remembering")


@pytest.fixture
def label_set(run):
    """The labels of a run."""
    from longtail.model.label_set import LabelSet

    opened = LabelSet(run, device="cpu")
    yield opened
    opened.close()
