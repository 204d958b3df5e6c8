"""A small model in a run folder, and servers over it."""

from __future__ import annotations

import shutil

import pytest
import torch
from starlette.testclient import TestClient

from longtail import recipes
from longtail.data.synthetic import planted
from longtail.serve.app import TOKEN, application
from longtail.serve.live import Live
from longtail.serve.service import Settings

SECRET = "let me"


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The run folder of a model with 120 labels and every score kind of ngame."""
    folder = tmp_path_factory.mktemp("served") / "run"
    dataset = planted(0, documents=400, test_documents=50, labels=120).dataset
    recipes.ngame(dataset, out=folder, epochs=2, classifier_epochs=2, batch=64, width=32, validation=0.2, device="cpu")
    return folder


@pytest.fixture
def run(trained, tmp_path):
    """A run folder of the test's own."""
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture
def live(run):
    """The labels of a run."""
    opened = Live(run, device="cpu")
    yield opened
    opened.close()


@pytest.fixture
def bearer():
    """The header that allows changes."""
    return {"Authorization": f"Bearer {SECRET}"}


@pytest.fixture
def client(run, monkeypatch):
    """A client of a server whose labels can be changed with `bearer`."""
    monkeypatch.setenv(TOKEN, SECRET)
    threads = torch.get_num_threads()
    with TestClient(application(Settings(run, device="cpu", watch=0.05)), raise_server_exceptions=False) as made:
        yield made
    torch.set_num_threads(threads)
