"""The layer does to files what it says, and the lab sees carelessness: programs that are planted."""

from __future__ import annotations

import errno
import random
import signal
import sys

import pytest
from faults.lab import Lab, ill
from faults.layer import COMPILER, REASON, Fault, Mode
from faults.nursery import Nursery
from faults.power import POLICIES, Disk

pytestmark = pytest.mark.skipif(not (COMPILER and sys.platform == "linux"), reason=REASON)
WRITE = "open({path!r}, 'wb', buffering=0).write(b'a' * 2000)"
CAREFUL = """
import os
file = open({path!r} + '.new', 'wb')
file.write(b'new' * 1000)
file.flush()
os.fsync(file.fileno())
os.rename({path!r} + '.new', {path!r})
folder = os.open(os.path.dirname({path!r}), os.O_RDONLY)
os.fsync(folder)
"""
CARELESS = {  # lines that are left out
    "the file is not synced": "os.fsync(file.fileno())",
    "the folder is not synced": "os.fsync(folder)",
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("layer")
    (folder / "nursery").mkdir()
    (folder / "work").mkdir()
    opened = Lab(folder, Nursery(folder / "nursery", folder / "work"), {"empty": folder / "empty"})
    (folder / "empty").mkdir()
    yield opened
    opened.close()


@pytest.fixture
def path(lab):
    lab.begin("empty")
    return lab.work / "file"


@pytest.mark.parametrize(
    ("fault", "status", "size"),
    [
        (Fault(Mode.COUNT), 0, 2000),
        (Fault(Mode.SIGNAL, 2, signal.SIGKILL), -signal.SIGKILL, 0),
        (Fault(Mode.SIGNAL, 3, signal.SIGKILL), 0, 2000),  # there are two calls
        (Fault(Mode.TEAR, 2), -signal.SIGKILL, 1000),
        (Fault(Mode.FAIL, 2, errno.ENOSPC), 1, 0),
        (Fault(Mode.FAIL, 1, errno.EIO), 1, None),
        (Fault(Mode.SHORT, 2), 0, 1000),
    ],
)
def test_a_fault_does_what_it_says(lab, path, fault, status, size):
    ended = lab.nursery.run(fault=fault, program=WRITE.format(path=str(path)))
    assert ended.status == status
    assert (path.stat().st_size if path.exists() else None) == size
    assert ended.calls == min(fault.target, 2) if fault.target else 2
    assert ended.fired == (fault.mode != Mode.COUNT and fault.target < 3)


@pytest.mark.parametrize("mode", [Mode.TEAR, Mode.SHORT])
def test_what_only_a_write_can_have_waits_for_one(lab, path, mode):
    ended = lab.nursery.run(fault=Fault(mode, 1), program=WRITE.format(path=str(path)))
    assert ended.fired == 1
    assert ended.calls == 2
    assert path.stat().st_size == 1000
    lab.begin("empty")
    program = f"import os; os.mkdir({str(path)!r}); os.rmdir({str(path)!r})"
    assert not lab.nursery.run(fault=Fault(mode, 1), program=program).fired


def test_a_wrong_bit_is_one(lab, path):
    ended = lab.nursery.run(fault=Fault(Mode.FLIP, 2), program=WRITE.format(path=str(path)))
    assert ended.status == 0
    assert sum(x != ord("a") for x in path.read_bytes()) == 1


def test_a_file_is_denied_and_others_are_not(lab, path):
    for name in ("file", "other"):
        (lab.work / name).write_text(name)
    program = f"print(open({str(lab.work / 'other')!r}).read()); open({str(path)!r})"
    ended = lab.nursery.run(fault=Fault(Mode.DENY, error=errno.EACCES, denied=str(path)), program=program)
    assert ended.output == "other\n"
    assert "PermissionError" in ended.errors
    assert ill(ended).startswith("traceback")


def test_what_hangs_or_says_two_lines_is_ill(lab, path):
    assert ill(lab.nursery.run(program="import time; time.sleep(9)", limit=0.2)) == "hangs"
    two = lab.nursery.run(program="import sys; sys.stderr.write('longtail: one\\ntwo\\n'); sys.exit(1)")
    assert "not one line" in ill(two)
    assert not ill(lab.nursery.run(program="import sys; sys.stderr.write('longtail: one\\n'); sys.exit(1)"))


def left(lab, path, program, policy, seed=0):
    """What a power loss leaves of a file after a program that replaces it."""
    lab.begin("empty")
    path.write_bytes(b"old")
    start, journal = lab.folder / "start", lab.folder / "journal"
    for folder in (start, journal):
        folder.mkdir(exist_ok=True)
    (start / "file").write_bytes(b"old")
    (journal / "journal").unlink(missing_ok=True)
    ended = lab.nursery.run(fault=Fault(Mode.COUNT, journal=str(journal)), program=program.format(path=str(path)))
    assert ended.status == 0, ended
    disk = Disk(start)
    disk.replay(journal, lab.work)
    disk.lose_power(lab.work, random.Random(seed), policy)
    return path.read_bytes() if path.exists() else None


@pytest.mark.parametrize("policy", POLICIES)
def test_what_a_careful_program_has_written_outlasts_a_power_loss(lab, path, policy):
    assert left(lab, path, CAREFUL, policy) == b"new" * 1000


@pytest.mark.parametrize("careless", CARELESS)
def test_carelessness_is_seen(lab, path, careless):
    program = CAREFUL.replace(CARELESS[careless], "")
    found = {left(lab, path, program, policy, seed) for policy in POLICIES for seed in range(4)}
    assert found - {b"new" * 1000}
    assert (found <= {b"new" * 1000, b"old"}) == (careless == "the folder is not synced")
