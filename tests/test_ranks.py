"""Processes that train together: what one alone does, and what is refused."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from longtail.errors import BadInput
from longtail.memory import peak_bytes
from longtail.ranks import RankLost, Ranks, fresh_part
from longtail.recipes import RECIPES
from longtail.stages.recipe import cut
from longtail.testing.planted import planted
from longtail.train.log import Log, read_log
from longtail.train.run import Run
from longtail.train.spread import note_ranks


def test_one_process_sends_nothing() -> None:
    alone = Ranks()
    part = torch.arange(3)
    assert alone.exchange([part])[0] is part
    assert alone.told({"a": 1}) == {"a": 1}
    assert alone.every([2]) == [[2]]
    assert alone.in_turn(lambda: 3) == 3
    assert alone.sent == 0


def test_a_process_that_is_gone_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise RuntimeError("Connection closed by peer")

    monkeypatch.setattr(torch.distributed, "all_to_all_single", gone)
    monkeypatch.setattr(torch.distributed, "isend", lambda *_: None)
    with pytest.raises(RankLost, match=r"^rank 1 of 2: another rank has ended.*longtail resume.*last checkpoint$"):
        Ranks(1, 2).wait()


def test_who_is_told_to_end_names_who_was_gone_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nobody, where all are told to end: by then, who is told first has found that all are there."""
    closed: set[int] = set()

    def send(_: object, rank: int) -> None:
        if rank in closed:
            raise RuntimeError("Connection closed by peer")

    monkeypatch.setattr(torch.distributed, "isend", send)
    stopped = [Ranks(rank, 3, store) for store in [torch.distributed.HashStore()] for rank in range(3)]
    assert stopped[0].lost() is None
    closed = {0}
    assert [stopped[1].lost(), stopped[2].lost()] == [None, None]
    left = [Ranks(rank, 3, store) for store in [torch.distributed.HashStore()] for rank in range(3)]
    assert left[1].lost() == "rank 0 ended"
    closed = {0, 1}
    assert left[2].lost() == "rank 0 ended"


MEMBERS = """
import os, signal, sys, time
from longtail.memory import peak_bytes
from longtail.ranks import RankLost, ranks

def member(rank, dying, pause):
    os.environ["RANK"] = str(rank)
    these = ranks()
    these.wait()
    if rank == dying:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(rank * pause)
    try:
        these.wait()
    except RankLost as lost:
        print(lost, flush=True)
    os._exit(0)

for dying, pause, port, kept in ((1, 0.5, sys.argv[1], "True"), (0, 0, sys.argv[2], "False")):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "3"}
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = kept
    for rank in range(3):
        if os.fork() == 0:
            member(rank, dying, pause)
    for rank in range(3):
        os.wait()
"""


def test_the_others_name_the_process_that_was_killed() -> None:
    """Also one that comes when the others have ended for it; and where the store has ended with it."""
    kept = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-c", MEMBERS, str(kept.port), str(port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    said = [line.partition(" ended,")[0] for line in done.stdout.splitlines()]
    assert said[:2] == ["rank 0 of 3: rank 1", "rank 2 of 3: rank 1"]
    assert len(said) == 4
    assert {"rank 1 of 3: rank 0", "rank 2 of 3: rank 0"} & {*said[2:]}, "the first of them"


def test_processes_that_start_anew_do_not_meet_those_before_them() -> None:
    """Whoever comes first, and whatever others have left in the store."""
    store, found = torch.distributed.HashStore(), []
    with ThreadPoolExecutor(3) as threads:
        for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
            starting = [threads.submit(fresh_part, store, rank, 3) for rank in order]
            parts = [one.result(timeout=30) for one in starting]
            assert all(not part.check(["address"]) for part in parts)
            parts[0].set("address", str(order))
            assert [part.get("address").decode() for part in parts] == [str(order)] * 3
            found += parts
    assert found[0].get("address").decode() == "(0, 1, 2)"


def test_the_log_has_what_each_process_has_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = {"processor_seconds": 2.5, "peak_memory": 10**9, "sent": 7}
    monkeypatch.setattr(Ranks, "every", lambda _, own: [own, other])
    before = time.process_time()
    note_ranks(Log(tmp_path / "log"), Ranks())
    note_ranks(Log(tmp_path / "log"), Ranks(0, 2))
    (line,) = read_log(tmp_path / "log")
    own, theirs = line["ranks"]
    assert theirs == other
    assert before <= own["processor_seconds"] + 0.001 <= time.process_time() + 0.002
    assert own["peak_memory"] == pytest.approx(peak_bytes(), rel=0.1)
    assert own["sent"] == 0


@pytest.mark.parametrize(("shards", "chosen"), [(3, {}), (0, {"shards": 3})])
def test_processes_that_do_not_divide_the_shards_are_refused(shards: int, chosen: dict[str, int]) -> None:
    run = Run(None)
    run.ranks, run.progress.chosen = Ranks(0, 2), chosen
    with pytest.raises(BadInput, match=r"divides the 3 shards of the run, found 2; start 3 processes, or a divisor"):
        cut(run, types.SimpleNamespace(shards=shards))  # type: ignore[arg-type]


def test_a_run_keeps_its_shards() -> None:
    dataset, options = planted(0, documents=200, labels=40).dataset, {"epochs": 0, "width": 8, "device": "cpu"}
    run = Run(None)
    RECIPES["dpr"](dataset, out=run, shards=2, **options)
    assert run.shards is not None
    assert run.shards.count == run.within("inner").shards.count == 2
    assert run.progress.chosen == {}, "what was asked for is among the arguments"
    alone = Run(None)
    RECIPES["dpr"](dataset, out=alone, **options)
    assert alone.shards is None
