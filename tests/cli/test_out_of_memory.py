"""Memory that runs out, in the training thread or in the one that makes batches, is one line, and the run goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from longtail.memory import is_out_of_memory

PROGRAM = """
import sys
import torch
from longtail.cli import main
from longtail.{module} import {name} as place

real, calls = place.{function}, []

def failing(*arguments, **named):
    calls.append(1)
    if len(calls) == 12:
        {fault}
    return real(*arguments, **named)

place.{function} = failing
main()
"""
PLACES = {
    "torch's allocator": ("train", "fit", "take_step", "torch.empty(2**60)"),
    "a thread": ("batches.loader", "Loader", "_batch", "raise MemoryError('std::bad_alloc')"),
}


@pytest.mark.parametrize("place", PLACES)
def test_training_says_how_it_goes_on(place, planted_folder, longtail, tmp_path):
    module, name, function, fault = PLACES[place]
    text = PROGRAM.format(module=module, name=name, function=function, fault=fault)
    options = ["--epochs", "3", "--batch", "64", "--width", "16", "--device", "cpu", "--checkpoint-every", "0"]
    command = ["train", "dpr", str(planted_folder), "--out", str(tmp_path / "run"), *options]
    done = subprocess.run([sys.executable, "-c", text, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("longtail: out of memory (")
    assert "a lower --batch" in done.stderr
    assert done.stderr.endswith(f"kept up to the last checkpoint: longtail resume {tmp_path / 'run'}\n")
    assert done.stderr.count("\n") == 1
    assert (tmp_path / "run" / "stages" / "encoder.checkpoint.safetensors").exists()
    status, _, errors = longtail("resume", tmp_path / "run")
    assert (status, errors) == (0, "")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (OSError(12, "Cannot allocate memory"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("can't start new thread"), True),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), True),
        (OSError(28, "No space left on device"), False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_errors_of_memory_are_known_by_what_they_say(error, expected):
    assert is_out_of_memory(error) == expected
