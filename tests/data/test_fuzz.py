"""Whatever stands in the files of a data folder or of a table: it is read, or refused in one line.

``LONGTAIL_FUZZ`` is how many broken folders and tables are tried in place of some 2,000.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from longtail.data.check import check
from longtail.data.dataset import Dataset
from longtail.data.describe import describe, sections
from longtail.data.io.imports import import_tables
from longtail.errors import LongtailError

CASES = int(os.environ.get("LONGTAIL_FUZZ", "2000"))
SECONDS = 10  # that one case may take
ODD = [
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\xef\xbb\xbf", b"\r", b"\n", b"\x1a", b"\x85", b"\xe2\x80\xa8"),
    *(b"null", b"true", b"NaN", b"-1", b"1e400", b"-0.0", b"9" * 19, b"9" * 30, b"9" * 400, b"9" * 5000, b"1_0"),
    *(b"[", b"]", b"{", b"}", b'"', b"'", b",", b":", b"[" * 50_000, b'{"a":' * 50_000, b"{}", b"[]", b'""', b'"x"'),
    *(b"../../x", b"/", b".", b"utf-7", b"utf-16", b"rot13", b"zip", b"idna", b"unicode_escape", b"uid", b"title"),
]
TABLES = {
    "train.csv": b'uid,title,content,labels\nd0,red apple,"a ""fruit""\nof red","[""apple"", 7]"\n3,pear,,"[""x""]"\n',
    "train.tsv": b'title\tlabels\nred apple\t["apple"]\npear\t["pear", "plum"]\n',
    "train.jsonl": b'{"uid": "d0", "title": "red apple", "labels": ["apple"]}\n{"title": "x", "labels": "[1]"}\n',
    "labels.jsonl": b'{"uid": "l0", "title": "apple"}\n{"uid": "l1", "title": "pear"}\n',
    "by_uid.jsonl": b'{"uid": "d0", "title": "red apple", "labels": ["l0", "l1"]}\n{"title": "x", "labels": []}\n',
    "labels.txt": b"apple\npear\n",
    "by_row.csv": b"title,labels\nred apple,0;1\npear,1\n",
}


def broken(raw: bytes, draw: random.Random) -> bytes:
    """Bytes with one to three faults in them."""
    for _ in range(draw.choice([1, 1, 2, 3])):
        at = draw.randrange(len(raw) + 1)
        end = min(len(raw), at + draw.choice([1, 1, 2, 8, 40]))
        raw = draw.choice(
            [
                raw[:at] + bytes(byte ^ 1 << draw.randrange(8) for byte in raw[at:end]) + raw[end:],
                raw[:at] + bytes(draw.randrange(256) for _ in range(end - at)) + raw[end:],
                raw[:at],
                raw[:at] + raw[end:],
                raw[:at] + raw[at:end] * draw.choice([2, 2, 100]) + raw[end:],
                raw[:at] + draw.choice(ODD) + raw[at:],
                raw[:at] + draw.choice(ODD) + raw[end:],
                b"",
            ]
        )
    return raw


def break_a_file(folder: Path, draw: random.Random) -> None:
    """Break one file of a folder; of a packed one, what is in it or how it is packed."""
    path = draw.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    raw = path.read_bytes()
    if path.suffix == ".gz" and draw.random() < 0.7:
        path.write_bytes(gzip.compress(broken(gzip.decompress(raw), draw)))
    else:
        path.write_bytes(broken(raw, draw))


def outcome(verb: Callable[[], object]) -> str:
    """Whether a verb gave something, or refused in one line; anything else ends the test."""
    start = time.monotonic()
    line = "read"
    try:
        verb()
    except LongtailError as error:
        line = str(error)
    assert time.monotonic() - start < SECONDS
    assert len(line.encode().splitlines()) == 1, line
    return "read" if line == "read" else "refused"


def read_and_describe(folder: Path) -> None:
    dataset = Dataset.read(folder)
    sections(describe(dataset))
    shutil.rmtree(folder.parent / "written", ignore_errors=True)
    dataset.write(folder.parent / "written")
    assert Dataset.read(folder.parent / "written").labels.digest() == dataset.labels.digest()


def findings(folder: Path) -> Dataset | None:
    found, dataset = check(folder)
    assert (dataset is None) == any(finding.severity == "error" for finding in found)
    for finding in found:
        assert "\n" not in finding.message, finding.message
        finding.message.encode()
    return dataset


@pytest.mark.parametrize("layout", ["fruit", "plain"])
def test_a_broken_folder_is_read_or_refused_in_one_line(
    request: pytest.FixtureRequest, tmp_path: Path, layout: str
) -> None:
    whole, copy, seen = request.getfixturevalue(layout), tmp_path / "copies" / "copy", Counter[str]()
    for case in range(CASES * 2 // 5):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        break_a_file(copy, random.Random(f"{layout} {case}"))
        answer = outcome(lambda: read_and_describe(copy))
        seen[answer] += 1
        assert (findings(copy) is None) == (answer == "refused"), f"check and read disagree in case {case}"
    assert min(seen["read"], seen["refused"]) > CASES // 20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copies", layout]


def test_a_broken_table_is_imported_or_refused_in_one_line(tmp_path: Path) -> None:
    seen = Counter[str]()
    for case in range(CASES // 5):
        draw = random.Random(f"table {case}")
        for name, raw in TABLES.items():
            (tmp_path / name).write_bytes(raw)
        broken_one = draw.choice(list(TABLES))
        (tmp_path / broken_one).write_bytes(broken(TABLES[broken_one], draw))
        for verb in (
            lambda: import_tables(tmp_path / "train.csv", test=tmp_path / "train.tsv"),
            lambda: import_tables(tmp_path / "train.jsonl"),
            lambda: import_tables(tmp_path / "by_uid.jsonl", labels=tmp_path / "labels.jsonl"),
            lambda: import_tables(tmp_path / "by_row.csv", labels=tmp_path / "labels.txt", separator=";", match="row"),
        ):
            seen[outcome(verb)] += 1
    assert min(seen["read"], seen["refused"]) > CASES // 20
