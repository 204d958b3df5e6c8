"""The command line in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from longtail.testing.planted import planted


@pytest.fixture(scope="session")
def planted_folder(tmp_path_factory):
    """A planted data set as a folder."""
    folder = tmp_path_factory.mktemp("data") / "planted"
    planted(0, documents=600, test_documents=100, labels=120).dataset.write(folder)
    return folder


def start(*arguments):
    """Start ``longtail`` and return its process."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100", "LONGTAIL_CACHE": ""}
    command = [sys.executable, "-W", "error", "-m", "longtail", *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, text=True, env=environment)


@pytest.fixture
def start_longtail():
    """Start ``longtail``; what still runs at the end of the test is killed."""
    processes = []

    def run(*arguments):
        processes.append(start(*arguments))
        return processes[-1]

    yield run
    for process in processes:
        process.kill()
        process.communicate()
