"""A disk that fills at any byte of a verb, or fails at any file: the new folder is whole, or nothing of it stays."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from longtail.cli.data import data_app
from longtail.data.dataset import Dataset
from longtail.errors import NotWritten

EVERY = int(os.environ.get("LONGTAIL_FAULT_BYTES", "101"))  # bytes between two tries
ROWS = [{"uid": f"d{i}", "title": f"fruit {i}", "labels": ["apple", f"kind {i % 7}"]} for i in range(40)]


class Disk:
    """What may still be written: bytes, and files that reach the disk."""

    def __init__(self, room: int, syncs: int) -> None:
        self.room, self.syncs, self.written, self.synced = room, syncs, 0, 0

    def write(self, count: int) -> None:
        self.written += count
        if self.written > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self, _: int) -> None:
        self.synced += 1
        if self.synced > self.syncs:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture
def verb(request: pytest.FixtureRequest, tmp_path: Path) -> list[object]:
    """A verb that writes a folder, without the folder."""
    if request.param == "import":
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
        return ["import", tmp_path / "rows.jsonl", "--test", tmp_path / "rows.jsonl", "--out"]
    return ["split", request.getfixturevalue("fruit"), "--rows", 1, "--out"]


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a verb on a disk; what it raised, and the disk."""
    opened = Path.open

    def run(arguments: list[object], room: int = 2**40, syncs: int = 2**40) -> tuple[BaseException | None, Disk]:
        disk = Disk(room, syncs)

        class File(io.FileIO):
            def write(self, content: Any) -> int:
                disk.write(memoryview(content).nbytes)
                return super().write(content)

        def open_on_it(path: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if "w" not in mode:
                return opened(path, mode, *rest, **options)
            stream = io.BufferedWriter(File(path, "w"), 64)
            return stream if "b" in mode else io.TextIOWrapper(stream, encoding="utf-8")

        with monkeypatch.context() as patched:
            patched.setattr(Path, "open", open_on_it)
            patched.setattr(os, "fsync", disk.sync)
            found = CliRunner().invoke(data_app, [str(argument) for argument in arguments])
        return None if found.exit_code == 0 else found.exception, disk

    return run


@pytest.mark.parametrize("verb", ["import", "split"], indirect=True)
@pytest.mark.parametrize("there", [False, True], ids=["new", "empty"])
def test_a_folder_is_whole_or_absent_wherever_the_disk_fails(
    tmp_path: Path, verb: list[object], on: Callable[..., Any], there: bool
) -> None:
    error, disk = on([*verb, tmp_path / "whole"])
    assert error is None
    names = sorted(path.name for path in tmp_path.iterdir())
    tries = [{"room": room} for room in range(0, disk.written, EVERY)] + [{"syncs": n} for n in range(disk.synced)]
    lasting = 0
    for limit in tries:
        out = tmp_path / "out"
        if there:
            out.mkdir(exist_ok=True)
        error, _ = on([*verb, out], **limit)
        if error is None or limit.get("syncs") == disk.synced - 1:  # the name of the folder is the last to reach it
            lasting += 1
            assert {file.name for file in out.iterdir()} == {file.name for file in (tmp_path / "whole").iterdir()}
            Dataset.read(out)
            for file in sorted(out.rglob("*"), reverse=True):
                file.rmdir() if file.is_dir() else file.unlink()
            out.rmdir()
        else:
            assert isinstance(error, NotWritten), limit
            assert "\n" not in str(error)
            assert out.is_dir() == there
            assert not (there and any(out.iterdir()))
        assert sorted(path.name for path in tmp_path.iterdir() if path.name != "out") == names
    assert len(tries) > 20
    assert lasting == 1
