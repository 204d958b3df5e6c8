"""``torchrun -m longtail``: several processes train one run, say it once, and survive one another."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from longtail.train.log import LOG, read_log

OPTIONS = ("--epochs", 4, "--batch", 64, "--width", 32, "--warmup", 10, "--no-refit", "--device", "cpu")


def start_ranks(count, *arguments, restarts=0):
    """Start ``torchrun -m longtail``, in a process group of its own."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", count]
    command += ["--max-restarts", restarts]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100", "LONGTAIL_CACHE": ""}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = map(str, (*command, "-m", "longtail", *arguments))
    return subprocess.Popen([*command], **pipes, env=environment, start_new_session=True)


def ranks(count, *arguments):
    """The exit status of such a run, and what it prints."""
    process = start_ranks(count, *arguments)
    out, errors = process.communicate(timeout=300)
    return process.returncode, out, errors


def arrays(run):
    return {
        f"{path.relative_to(run / 'model')} {name}": array.tobytes()
        for path in sorted((run / "model").rglob("*.safetensors"))
        for name, array in load_file(path).items()
    }


def test_two_processes_say_once_what_one_says_and_one_goes_on_with_it(planted_folder, longtail, tmp_path):
    run = tmp_path / "run"
    status, out, errors = ranks(2, "train", "unidec", planted_folder, "--out", run, *OPTIONS)
    assert status == 0, errors
    for said in ("joint: epoch 4 of 4", "Next: longtail evaluate", " training documents: "):
        assert out.count(said) == 1, said
    notes = [line["ranks"] for line in read_log(run / LOG) if "ranks" in line]
    assert [len(note) for note in notes] == [2]
    assert all(one["processor_seconds"] > 0 and one["peak_memory"] > 0 and one["sent"] > 0 for one in notes[0])
    status, out, _ = longtail("resume", run)
    assert status == 0
    assert "it ranks by its" in out
    status, _, errors = longtail(
        "train", "unidec", planted_folder, "--out", tmp_path / "alone", *OPTIONS, "--shards", 2
    )
    assert status == 0, errors
    assert arrays(run) == arrays(tmp_path / "alone")


def test_what_torchrun_begins_again_goes_on_with_its_run(planted_folder, longtail, tmp_path):
    """The same command, which refuses a folder that holds a run where torchrun has not restarted it."""
    run, again = tmp_path / "run", {"environment": {"TORCHELASTIC_RESTART_COUNT": "1"}}
    command = ("train", "dpr", planted_folder, "--out", run, *OPTIONS[:6], "--device", "cpu")
    status, _, errors = longtail(*command, **again)
    assert status == 0, errors
    trained, log = arrays(run), read_log(run / LOG)
    shutil.rmtree(run / "model")
    status, _, errors = longtail(*command)
    assert (status, "expected a new folder, found a run; longtail resume" in errors) == (1, True)
    status, _, errors = longtail(*command, "--seed", 1, **again)
    assert (status, "asked for now is {'seed': 1}" in errors) == (1, True)
    status, _, errors = longtail(*command, **again)
    assert status == 0, errors
    assert arrays(run) == trained
    assert [line for line in read_log(run / LOG) if "terms" in line] == [line for line in log if "terms" in line]


def children(process):
    """The processes of a torchrun."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


@pytest.mark.slow
def test_torchrun_restarts_the_processes_and_they_go_on(planted_folder, longtail, tmp_path):
    options, run = ("--epochs", 60, *OPTIONS[2:]), tmp_path / "run"
    command = ("train", "unidec", planted_folder, "--out", run, "--checkpoint-every", 0.05)
    process = start_ranks(2, *command, *options, restarts=1)
    lost = kill_one(process, run, random.Random(0))
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors[-6000:]
    assert errors.count("exitcode: -9") == 1
    assert re.search(f"longtail: .*rank {lost} ended", errors), errors[-6000:]
    assert sum("plan" in line for line in read_log(run / LOG)) == 1, "it was not begun anew"
    status, _, errors = longtail(*command[:3], "--out", tmp_path / "whole", *options, "--shards", 2)
    assert status == 0, errors
    assert arrays(run) == arrays(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_run_is_killed_fifty_times_and_always_goes_on_with_another_number(planted_folder, longtail, tmp_path):
    """Kill one of its processes again and again, go on with 1, 2 or 4 of them, and end as an unbroken run."""
    options, deaths = ("--epochs", 150, *OPTIONS[2:]), 50
    whole = ("--out", tmp_path / "whole", "--shards", 4)
    status, _, errors = longtail("train", "unidec", planted_folder, *whole, *options)
    assert status == 0, errors
    run, moments, count, said = tmp_path / "run", random.Random(0), 0, []
    begin = ("train", "unidec", planted_folder, "--out", run, "--shards", 4, *options)
    for _ in range(2 * deaths):
        count = moments.choice([number for number in (1, 2, 4) if number != count])
        command = ("resume", run) if (run / "run.json").exists() else begin
        process = start_ranks(count, *command, "--checkpoint-every", 0.05)
        lost = kill_one(process, run, moments)
        said += [(count, lost, errors) for errors in [what_is_said(process)] if errors]
        if len(said) == deaths:
            break
    assert len(said) == deaths
    named = [f"rank {lost} ended" in errors for count, lost, errors in said if count > 1]
    print(f"{sum(named)} of {len(named)} killed processes were named by those that were left")
    assert sum(named) >= 0.9 * len(named)
    status, _, errors = longtail("resume", run)
    assert status == 0, errors
    assert arrays(run) == arrays(tmp_path / "whole")


def kill_one(process, run, moments):
    """Kill a process in the middle of its work: its rank, or None where there is none any more."""
    checkpoint = run / "stages" / "joint.checkpoint.safetensors"
    before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if checkpoint.exists() and checkpoint.stat().st_mtime_ns > before:
            break
        time.sleep(0.01)
    time.sleep(moments.uniform(0, 0.1))
    some = children(process)
    if not some:
        return None
    lost = moments.randrange(len(some))
    with suppress(ProcessLookupError):
        os.kill(some[lost], signal.SIGKILL)
    return lost


def what_is_said(process):
    """The errors of processes that end, and soon, because one was killed; nothing where they had done their work."""
    since = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - since < 30, "the others end soon"
    if process.returncode == 0:
        return ""
    assert "SIGKILL" in errors or "-9" in errors, errors[-6000:]
    return errors
