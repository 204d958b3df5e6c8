"""The log of a run: what a crash cut off is left out, and what is broken is named."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from longtail.errors import BadInput
from longtail.train.log import Log, read_log


@pytest.mark.parametrize("cut", [b"{", b'{"stage": "encoder", "ep', b"\xff", b'{"stage": "encoder"}'])
def test_a_last_line_that_a_crash_cut_off_is_left_out_and_written_over(tmp_path, cut):
    path = tmp_path / "metrics.jsonl"
    Log(path).write(stage="encoder", step=1)
    with path.open("ab") as file:
        file.write(cut)
    assert read_log(path) == [{"stage": "encoder", "step": 1}]
    log = Log(path)
    log.write(stage="encoder", step=2)
    log.write(stage="encoder", step=3)
    assert [line["step"] for line in read_log(path)] == [1, 2, 3]
    log.passed("encoder", 2)
    assert [line["step"] for line in read_log(path)] == [1, 2]


def test_a_last_line_in_which_a_power_loss_left_zeros_is_left_out_and_written_over(tmp_path):
    path = tmp_path / "metrics.jsonl"
    whole = b'{"stage": "a", "step": 1}\n'
    path.write_bytes(whole + b'{"stage": ' + bytes(512) + b"}\n")
    assert read_log(path) == [{"stage": "a", "step": 1}]
    Log(path).write(stage="a", step=2)
    assert path.read_bytes() == whole + b'{"stage": "a", "step": 2}\n'


def test_there_may_be_no_line_at_all(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_log(path) == []
    path.write_bytes(b'{"cut')
    assert read_log(path) == []
    Log(path).write(plan={})
    assert path.read_bytes() == b'{"plan": {}}\n'


@pytest.mark.parametrize("line", [b"", b'{"stage"', b"[1]", b"\xff", b'{"step": "two"}', b"[" * 100_000])
def test_a_broken_line_in_the_middle_is_refused_by_its_number(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n' + line + b'\n{"step": 3}\n')
    with pytest.raises(BadInput, match=r"metrics\.jsonl, line 2: expected a line of a log, found .*; remove the line"):
        read_log(path)
    with pytest.raises(BadInput, match="line 2"):
        Log(path).passed("encoder", 0)


@pytest.mark.parametrize("epochs", [6, 24, 1000])
def test_what_is_no_terminal_gets_some_lines_a_stage(epochs: int) -> None:
    log = Log(console=Console(file=(told := io.StringIO()), width=200))
    log.start("encoder", steps=epochs, done=0)
    for epoch in range(1, epochs + 1):
        log.step({"loss": 1.0}, rows=1, pool=1, positives=1.0)
        log.epoch(epoch, epochs, epoch)
    lines = told.getvalue().splitlines()
    assert len(lines) == min(epochs, 31)
    assert lines[0].startswith(f"encoder: epoch 1 of {epochs},")
    assert lines[-1].startswith(f"encoder: epoch {epochs} of {epochs},")


def test_what_is_no_terminal_gets_long_lines_whole() -> None:
    log = Log(console=Console(file=(told := io.StringIO()), width=20))
    log.start("encoder", steps=1, done=0)
    log.step({"loss": 1.0}, rows=1, pool=1, positives=1.0)
    log.epoch(1, 1, 1)
    log.say("said in more than twenty characters")
    assert [line.split()[-1] for line in told.getvalue().splitlines()] == ["left", "characters"]
