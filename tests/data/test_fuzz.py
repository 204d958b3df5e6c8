"""Whatever stands in the files of a data folder or of a table: it is read as it stands there, or refused in one line.

What is read of a folder is what `naive.read` finds in it. Packed files that unpack to very much, headers that promise
very much, and JSON that is very deep are among the faults.

``LONGTAIL_FUZZ`` is how many broken folders and tables are tried in place of some 1,000.
"""

from __future__ import annotations

import gzip
import os
import random
import re
import shutil
import time
import zlib
from collections import Counter
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from broken import flipped

from longtail.data.check import check
from longtail.data.dataset import Dataset
from longtail.data.describe import describe
from longtail.data.io.imports import import_tables
from longtail.errors import BadInput, LongtailError
from longtail.memory import peak_bytes
from longtail.report.description import sections

_spec = spec_from_file_location("naive", Path(__file__).with_name("naive.py"))
naive = module_from_spec(_spec)
_spec.loader.exec_module(naive)
CASES = int(os.environ.get("LONGTAIL_FUZZ", "1000"))
SECONDS = 10  # that one case may take
ODD = [
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\xef\xbb\xbf", b"\r", b"\n", b"\x1a", b"\x85", b"\xe2\x80\xa8"),
    *(b"null", b"true", b"NaN", b"-1", b"1e400", b"-0.0", b"9" * 19, b"9" * 30, b"9" * 400, b"9" * 5000, b"1_0"),
    *(b"[", b"]", b"{", b"}", b'"', b"'", b",", b":", b"[" * 50_000, b'{"a":' * 50_000, b"{}", b"[]", b'""', b'"x"'),
    *(b"../../x", b"/", b".", b"utf-7", b"utf-16", b"rot13", b"zip", b"idna", b"unicode_escape", b"uid", b"title"),
]
HUGE = [b"9" * 9, b"9" * 12, b"9" * 17, b"9" * 18, b"9" * 19, b"4294967296", b"-1", b"00", b"1_0", b"0x1", b"+1", b"1."]
VALUES = [
    b"true",
    b"null",
    b"-1",
    b"1.0",
    b'"1"',
    b"[]",
    b"{}",
    b"1e5",
    b"NaN",
    b"Infinity",
    b'"\\ud800"',
    b'"\\u0000"',
]
NUMBER, VALUE = re.compile(rb"[0-9]+"), re.compile(rb'(?<=[:\[,] )("[^"]*"|[0-9.]+)|(?<=\[)[0-9.]+')
CLEAR_REFS = Path("/proc/self/clear_refs")  # of Linux
BOMB = 200_000_000  # bytes that a packed file of some hundred KB holds
TABLES = {
    "train.csv": b'uid,title,content,labels\nd0,red apple,"a ""fruit""\nof red","[""apple"", 7]"\n3,pear,,"[""x""]"\n',
    "train.tsv": b'title\tlabels\nred apple\t["apple"]\npear\t["pear", "plum"]\n',
    "train.jsonl": b'{"uid": "d0", "title": "red apple", "labels": ["apple"]}\n{"title": "x", "labels": "[1]"}\n',
    "labels.jsonl": b'{"uid": "l0", "title": "apple"}\n{"uid": "l1", "title": "pear"}\n',
    "by_uid.jsonl": b'{"uid": "d0", "title": "red apple", "labels": ["l0", "l1"]}\n{"title": "x", "labels": []}\n',
    "labels.txt": b"apple\npear\n",
    "by_row.csv": b"title,labels\nred apple,0;1\npear,1\n",
    "packed.csv.gz": gzip.compress(b'uid,title,labels\nd0,red apple,"[""apple"", 7]"\n', mtime=0),
    "packed.jsonl.gz": gzip.compress(b'{"title": "red apple", "labels": ["apple"]}\n', mtime=0),
}
SPLICED = [b"3 4\n0:1 2:0.5\n", b"2 0 4\n1,3 0:1\n", b"0 1\n", *TABLES.values()]


def broken(raw: bytes, draw: random.Random) -> bytes:
    """Bytes with one to three faults in them."""
    for _ in range(draw.choice([1, 1, 2, 3])):
        other = draw.choice(SPLICED)
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
                raw[:at] + other[draw.randrange(len(other)) :] + raw[end:],
                raw[:at] + raw[at:].replace(b"\n", draw.choice([b"\r\n", b"\r", b"\n\n"]), draw.choice([1, -1])),
                NUMBER.sub(lambda _: draw.choice(HUGE), raw, count=draw.choice([1, 2])),
                VALUE.sub(lambda _: draw.choice(VALUES), raw, count=draw.choice([1, 3])),
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
    try:
        found = naive.read(folder)
    except (naive.Wrong, ValueError, LookupError, TypeError, AttributeError, EOFError, OSError, zlib.error) as error:
        raise AssertionError(f"silently accepted: {error!r}") from error
    assert naive.same(dataset, found), "silently accepted as something else"
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


@pytest.fixture
def old(plain: Path) -> Path:
    """The older layout, with its texts packed."""
    folder = plain.rename(plain.with_name("old"))
    (folder / "trn_X_Y.txt").unlink()
    (folder / "tst_X_Y.txt.gz").unlink()
    (folder / "train.txt").write_text("4 2 4\n0,2 0:0.5\n1 0:1 1:1\n2\n 0:1\n")
    (folder / "test.txt.gz").write_bytes(gzip.compress(b"2 2 4\n0 0:1\n2,1 1:1\n", mtime=0))
    label = folder / "raw_data" / "label.raw.txt"
    label.with_name("label.raw.txt.gz").write_bytes(gzip.compress(label.read_bytes(), mtime=0))
    label.unlink()
    return folder


@pytest.mark.parametrize("layout", ["fruit", "plain", "old"])
def test_a_broken_folder_is_read_or_refused_in_one_line(
    request: pytest.FixtureRequest, tmp_path: Path, layout: str
) -> None:
    whole, copy, seen = request.getfixturevalue(layout), tmp_path / "copies" / "copy", Counter[str]()
    for case in range(CASES // 4):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        break_a_file(copy, random.Random(f"{layout} {case}"))
        answer = outcome(lambda: read_and_describe(copy))
        seen[answer] += 1
        assert (findings(copy) is None) == (answer == "refused"), f"check and read disagree in case {case}"
    assert min(seen["read"], seen["refused"]) > CASES // 40
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copies", layout]


def test_a_broken_table_is_imported_or_refused_in_one_line(tmp_path: Path) -> None:
    seen = Counter[str]()
    for case in range(CASES // 8):
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
            lambda: import_tables(tmp_path / "packed.csv.gz", test=tmp_path / "packed.jsonl.gz"),
        ):
            seen[outcome(verb)] += 1
    assert min(seen["read"], seen["refused"]) > CASES // 20


def test_a_broken_parquet_table_is_imported_as_it_was_written_or_refused(tmp_path: Path) -> None:
    """Its pages have checksums, which are looked at; its schema and counts have none."""
    pyarrow = pytest.importorskip("pyarrow", reason="the extra longtail[parquet] is not installed")
    from pyarrow import parquet

    rows = {"title": ["red apple", "pear"], "labels": [["apple", "red"], ["pear"]]}
    path, seen = tmp_path / "table.parquet", Counter[str]()
    parquet.write_table(pyarrow.table(rows), path, write_page_checksum=True)
    whole, pages = path.read_bytes(), parquet.read_metadata(path).row_group(0)
    end = max(
        (pages.column(i).dictionary_page_offset or pages.column(i).data_page_offset)
        + pages.column(i).total_compressed_size
        for i in range(pages.num_columns)
    )
    for case in range(CASES // 8):
        draw = random.Random(f"parquet {case}")
        if case % 2:
            at = draw.randrange(4, end)
            path.write_bytes(flipped(whole, at, draw.randrange(8)))
        else:
            path.write_bytes(broken(whole, draw))

        def read(is_flipped: bool = bool(case % 2)) -> None:
            dataset = import_tables(path)
            if is_flipped:
                assert list(dataset.train.documents.fields["title"]) == rows["title"]
                assert list(dataset.labels.fields["title"]) == ["apple", "red", "pear"]

        seen[outcome(read)] += 1
    assert seen["refused"] > CASES // 40


@pytest.mark.parametrize("name", ["trn.json.gz", "raw_data/label.raw.txt.gz", "raw_data/tree.raw.txt.gz"])
def test_a_packed_file_that_unpacks_to_a_line_that_is_too_long_is_refused_early(plain: Path, name: str) -> None:
    packed = gzip.compress(bytes(BOMB), 1, mtime=0)
    (plain / name.removesuffix(".gz")).unlink(missing_ok=True)
    if name == "trn.json.gz":
        (plain / "lbl.json").write_text('{"title": "apple"}\n')
    (plain / name).write_bytes(packed)
    if CLEAR_REFS.exists():
        CLEAR_REFS.write_text("5")  # the peak is begun anew, which may be that of another test
    before = peak_bytes()
    with pytest.raises(BadInput, match=r"line 1: expected lines of less than 67,108,864 bytes, found a longer one"):
        Dataset.read(plain)
    assert peak_bytes() < before + BOMB
