"""What is written is there whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.numpy import save_file

from longtail import files
from longtail.arrays import map_arrays
from longtail.errors import BadInput, NotWritten
from longtail.files import new_folder, read_json, remove_partial, replacing, write_json
from longtail.hashes import hashes, sha256


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def write_half():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        write_half()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_windows_is_asked_for_no_more_than_it_gives(tmp_path, monkeypatch):
    """There a folder cannot be opened, and a file that is synced must be open for writing."""
    opened, real = [], os.open

    def of_windows(path, flags, *rest):
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied")
        opened.append(flags)
        return real(path, flags, *rest)

    monkeypatch.setattr(files, "_WINDOWS", True)
    monkeypatch.setattr(os, "open", of_windows)
    monkeypatch.setattr(shutil, "_use_fd_functions", False)  # there it removes a folder without opening it
    with new_folder(tmp_path / "new") as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "file").touch()
    with replacing(tmp_path / "single") as temporary:
        temporary.touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "single"]
    assert opened.count(os.O_RDWR) == 2


def test_a_failed_folder_leaves_nothing(tmp_path):
    def write_half():
        with new_folder(tmp_path / "new") as temporary:
            (temporary / "file").write_text("half")
            raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        write_half()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("I/O error: no space left")])
@pytest.mark.parametrize("writing", [replacing, new_folder])
def test_what_was_not_written_is_named_and_nothing_of_it_stays(tmp_path, writing, error):
    def write_half():
        with writing(tmp_path / "new") as temporary:
            (temporary / "half" if temporary.is_dir() else temporary).write_text("half")
            raise error

    with pytest.raises(NotWritten, match=r"/new: not written \(.*[Nn]o space left.*\); make room"):
        write_half()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("writing", [replacing, new_folder])
def test_a_file_where_a_folder_is_to_be_is_named_too(tmp_path, writing):
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(NotWritten, match=r"/file/below/new: not written \("),
        writing(tmp_path / "file" / "below" / "new"),
    ):
        pass
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_has_hashes_of_its_own_is_hashed_by_its_card(tmp_path):
    for name in ("a.txt", "plain/b.txt", "inner/card.json", "inner/deep/c.txt", "inner/deep/more/card.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    found = hashes(tmp_path, card="card.json")
    assert found.keys() == {"a.txt", "plain/b.txt", "inner/card.json"}
    assert found["plain/b.txt"] == hashlib.sha256(b"plain/b.txt").hexdigest()


def test_a_new_folder_appears_with_its_content(tmp_path):
    with new_folder(tmp_path / "a" / "b") as temporary:
        (temporary / "c").mkdir()
        write_json(temporary / "c" / "file.json", {"ü": 1})
        assert not (tmp_path / "a" / "b").exists()
    assert (tmp_path / "a" / "b" / "c" / "file.json").read_text(encoding="utf-8") == '{\n "ü": 1\n}\n'
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def number_of_a_dead_process():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_what_killed_processes_left_goes_and_what_living_ones_write_stays(tmp_path):
    dead, living, host = number_of_a_dead_process(), os.getppid(), files._HOST
    for owner in (dead, f"{dead}@{host}", os.getpid(), f"{os.getpid()}@{host}"):
        (tmp_path / "stages" / f".one.safetensors.{owner}.partial").mkdir(parents=True)
        (tmp_path / "stages" / f".one.safetensors.{owner}.partial" / ".tmpAbCdEf").write_text("half")
        (tmp_path / f".two.{owner}.partial").write_text("half")
    stay = {f".three.{living}.partial", f".three.{living}@{host}.partial", f".three.{dead}@another.partial"}
    for name in stay:
        (tmp_path / name).write_text("half")
    with replacing(tmp_path / "four") as temporary:
        temporary.write_text("whole")
        remove_partial(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == stay | {"stages", temporary.parent.name}
    assert (tmp_path / "four").read_text() == "whole"
    assert not [*(tmp_path / "stages").iterdir()]


def test_what_goes_while_it_is_looked_for_is_no_error(tmp_path, monkeypatch):
    """As the temporary folder of another process does."""
    gone, left, scandir = tmp_path / ".a.1@elsewhere.partial", tmp_path / ".b.999999999.partial", os.scandir
    for folder in (gone, left):
        folder.mkdir()

    def scanned(path):
        if str(path) == str(gone):
            raise FileNotFoundError(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scanned)
    remove_partial(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [gone.name]


def test_a_write_removes_what_killed_ones_of_the_same_file_left(tmp_path):
    left = [tmp_path / f".{name}.999999999@{files._HOST}.partial" for name in ("found.json", "other.json")]
    for folder in left:
        folder.mkdir()
    write_json(tmp_path / "found.json", {})
    assert sorted(path.name for path in tmp_path.iterdir()) == [left[1].name, "found.json"]


def test_the_names_of_new_folders_are_synced_and_folders_leave_by_name_first(tmp_path, monkeypatch):
    synced, sync = [], files._sync
    monkeypatch.setattr(files, "_sync", lambda path: (synced.append(path), sync(path)))
    write_json(tmp_path / "a" / "b" / "found.json", {})
    assert synced[:2] == [tmp_path, tmp_path / "a"]  # which hold the names of a and of b
    assert synced[-1] == tmp_path / "a" / "b"

    synced.clear()
    there = []
    monkeypatch.setattr(files, "_sync", lambda path: there.extend(child.name for child in path.iterdir()))
    files.remove_folder(tmp_path / "a" / "b")
    assert len(there) == 1
    assert there[0].startswith(".b.")
    assert not [*(tmp_path / "a").iterdir()]


def test_what_another_machine_left_goes_after_a_day(tmp_path):
    """A container that is gone cannot be asked; one that still writes changes what it writes."""
    day, now = 24 * 3600, time.time()
    ages = {"old": (day + 60, day + 60), "new": (60, 60), "written": (2 * day, 60)}
    for name, (of_folder, of_file) in ages.items():
        folder = tmp_path / f".{name}.7@gone.partial"
        folder.mkdir()
        (folder / "half").write_text("half")
        os.utime(folder / "half", (now - of_file,) * 2)
        os.utime(folder, (now - of_folder,) * 2)
    remove_partial(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".new.7@gone.partial", ".written.7@gone.partial"]


def test_a_process_killed_while_it_writes_leaves_nothing_that_stays(tmp_path):
    """Neither do the libraries that it writes with: safetensors has a temporary name of its own."""
    script = """if True:
        import os, sys
        from pathlib import Path
        from safetensors.numpy import save_file
        import numpy as np
        from longtail.files import new_folder, remove_folder, replacing
        run = Path(sys.argv[1])
        with new_folder(run / "going"):
            pass
        with replacing(run / "stages" / "a.safetensors") as temporary, new_folder(run / "model-2") as folder:
            save_file({"a": np.zeros(9)}, temporary)
            (temporary.parent / ".tmpAbCdEf").write_text("half")
            (folder / "labels").write_text("half")
            os.kill(os.getpid(), 9)
    """
    subprocess.run([sys.executable, "-c", script, tmp_path], check=False)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.suffix != ".partial" and path.is_dir()) == [
        "going",
        "stages",
    ]
    assert [*tmp_path.rglob(".tmpAbCdEf")]
    remove_partial(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["going", "stages"]


def test_a_folder_with_content_is_refused_and_what_a_crash_left_is_no_content(tmp_path):
    dead = number_of_a_dead_process()
    (tmp_path / f".file.{dead}.partial").write_text("half")
    (tmp_path / f".folder.{dead}.partial").mkdir()
    with new_folder(tmp_path / "new"):
        pass
    remove_partial(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    (tmp_path / "new" / f".file.{dead}.partial").write_text("half")
    with new_folder(tmp_path / "new") as temporary:
        (temporary / "whole").touch()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["whole"]
    (tmp_path / "new" / "precious").write_text("mine")
    with pytest.raises(BadInput, match="not empty"), new_folder(tmp_path / "new"):
        pass


def test_arrays_are_mapped_as_they_were_saved(tmp_path):
    arrays = {
        "one": np.arange(6, dtype=np.float32).reshape(2, 3),
        "none": np.zeros((0, 4), np.float32),
        "two": np.array([0.5], np.float64),
        "three": np.array([[1], [2]], np.int64),
    }
    save_file(arrays, tmp_path / "a.safetensors")
    mapped = map_arrays(tmp_path / "a.safetensors")
    assert mapped.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(mapped[name], array, strict=True)
        assert not mapped[name].flags.writeable


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"\x04\0\0\0\0\0\0\0[{}]more"], ids=len)
def test_what_is_no_file_of_arrays_is_refused(tmp_path, content):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"a\.safetensors: expected arrays"):
        map_arrays(path)


def test_sha256_reads_a_file_of_several_blocks(tmp_path):
    content = bytes(range(256)) * 10_000
    (tmp_path / "file").write_bytes(content)
    assert sha256(tmp_path / "file") == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "expected JSON, found Expecting value"),
        (b'{"a": 1', "expected JSON, found Expecting"),
        (b'"\xff"', "expected JSON, found 'utf-8' codec"),
        (b'{"\xed\xa0\x80": 1}', "expected JSON, found 'utf-8' codec"),
        (b"[1]", "expected a JSON object, found list"),
        (b"{}", "expected a, found no a"),
        (b"[" * 100_000, "expected JSON, found "),
    ],
    ids=["empty", "cut", "no UTF-8", "a surrogate", "a list", "a key is missing", "too deep"],
)
def test_json_that_is_not_as_it_must_be_is_one_line(tmp_path, content, problem):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=problem) as refused:
        read_json(path, remedy="write it again", keys=["a"])
    assert "\n" not in str(refused.value)
    with pytest.raises(BadInput, match="expected a JSON file, found none; write it again"):
        read_json(tmp_path / "none.json", remedy="write it again")


def test_values_of_another_type_are_refused(tmp_path):
    path, kinds = tmp_path / "file.json", {"count": int, "names": list, "said": bool, "any": object}
    whole = {"count": 1, "names": [], "said": True, "any": True}
    write_json(path, whole)
    assert read_json(path, remedy="write it again", keys=kinds) == whole
    for key, value in [("count", "1"), ("count", True), ("count", 1.0), ("names", {}), ("names", None), ("said", 1)]:
        write_json(path, whole | {key: value})
        with pytest.raises(BadInput, match=rf"file\.json: expected another {key}, found '.*'; write it again"):
            read_json(path, remedy="write it again", keys=kinds)


def test_threads_that_write_one_file_at_once_do_not_meet(tmp_path):
    both = threading.Barrier(2)

    def write(content):
        with replacing(tmp_path / "file") as temporary:
            both.wait(10)
            temporary.write_text(content)
            both.wait(10)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, ["one", "two"]))
    assert (tmp_path / "file").read_text() in ("one", "two")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
