"""A process that is told to end does so at once: one line, the exit status of a shell, nothing half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from waiting import until

TOLD = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
WRITING = """
import os, pathlib, sys
from longtail.ending import listen
from longtail.files import new_folder, replacing
listen()
with new_folder(pathlib.Path(sys.argv[1]) / "folder") as folder, replacing(folder / "file") as file:
    file.write_text("half")
    os.kill(os.getpid(), int(sys.argv[2]))
"""


def ended(process, number):
    """Its errors, once it is known that it ended as a signal asked it to."""
    _, errors = process.communicate(timeout=120)
    assert process.returncode == TOLD[number], errors
    assert errors.startswith("longtail: stopped")
    assert errors.count("\n") == 1
    return errors


def program(text, *arguments):
    command = [sys.executable, "-W", "error", "-c", text, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("module", ["typer", "torch"])
def test_while_it_imports(module):
    text = f"""
import os, sys
import longtail.cli

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {int(signal.SIGINT)})

sys.meta_path.insert(0, Finder())
sys.argv = ["longtail", "predict", "nothing"]
longtail.cli.main()
"""
    assert ended(program(text), signal.SIGINT) == "longtail: stopped\n"


@pytest.mark.parametrize("number", TOLD)
def test_while_it_writes(number, tmp_path):
    ended(program(WRITING, tmp_path, int(number)), number)
    assert not [*tmp_path.iterdir()]


def test_a_signal_that_is_to_be_ignored_stays_so(tmp_path):
    text = f"import signal\nsignal.signal({int(signal.SIGHUP)}, signal.SIG_IGN)\n{WRITING}"
    process = program(text, tmp_path, int(signal.SIGHUP))
    assert process.communicate()[1] == ""
    assert process.returncode == 0
    assert (tmp_path / "folder" / "file").read_text() == "half"


def test_while_it_trains(planted_folder, start_longtail, longtail, tmp_path):
    run, number = tmp_path / "run", signal.SIGINT
    options = ("--epochs", 3, "--batch", 64, "--width", 32, "--device", "cpu", "--checkpoint-every", 0)
    process = start_longtail("train", "dpr", planted_folder, "--out", run, *options)
    until(lambda: (run / "stages" / "encoder.checkpoint.safetensors").exists() or process.poll() is not None)
    process.send_signal(number)
    said = "what was trained is kept up to the last checkpoint: longtail resume"
    assert ended(process, number) == f"longtail: stopped; {said} {run}\n"
    assert not [*tmp_path.rglob("*.partial")]
    status, _, errors = longtail("resume", run)
    assert (status, errors) == (0, "")


def is_alive(process):
    with suppress(FileNotFoundError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="a parent's end is told on Linux")
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_what_a_comparison_trains_ends_with_it(planted_folder, start_longtail, tmp_path, number):
    method = "endless=dpr:epochs=100000,batch=64,width=16,device=cpu"
    process = start_longtail("compare", planted_folder, method, "--seeds", 1, "--out", tmp_path / "out")
    begun = tmp_path / "out" / "runs" / "endless" / "seed-0" / "run.json"
    until(lambda: begun.exists() or process.poll() is not None)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    (child,) = map(int, children.read_text().split())
    try:
        process.send_signal(number)
        if number != signal.SIGKILL:
            assert ended(process, number) == "longtail: stopped; the same command goes on with what is left\n"
        process.wait()
        until(lambda: not is_alive(child))
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("verb", ["predict", pytest.param("evaluate", marks=pytest.mark.slow)])
def test_a_reader_that_has_seen_enough_is_told_nothing(run, planted_folder, verb, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("red apple\n" * 5000)
    given = {"predict": ("--input", lines), "evaluate": ("--data", planted_folder)}[verb]
    process = program("from longtail.cli import main; main()", verb, run, *given)
    process.stdout.close()
    process.stdout = None
    errors = process.communicate(timeout=120)[1]
    assert (errors, process.returncode) == ("", 1)  # as of a command that writes into a closed pipe


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full device is one of Linux")
def test_an_output_that_is_full_is_one_line():
    text = "import os\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)\nfrom longtail.cli import main; main()"
    errors = program(text, "--version").communicate()[1]
    assert errors.startswith("longtail: ")
    assert errors.count("\n") == 1


def test_an_output_that_is_closed_is_none():
    process = program("import os, sys\nsys.stdout = None\nfrom longtail.cli import main; main()", "--version")
    assert (process.communicate()[1], process.returncode) == ("", 0)


def test_an_input_that_is_closed_is_empty(run):
    process = program("import sys\nsys.stdin = None\nfrom longtail.cli import main; main()", "predict", run)
    assert (*process.communicate(), process.returncode) == ("", "", 0)
