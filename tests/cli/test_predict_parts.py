"""``longtail predict`` of Parquet files, into a folder."""

from __future__ import annotations

import signal

import pytest
from waiting import until

from longtail import load
from longtail.testing.planted import planted

pyarrow = pytest.importorskip("pyarrow", reason="the extra longtail[parquet] is not installed")


@pytest.fixture(scope="module")
def titles():
    return list(planted(0, documents=400, test_documents=50, labels=120).dataset.test.documents.fields["title"])


@pytest.fixture
def parts(titles, tmp_path):
    """Writes parts of 50 rows, and returns their folder."""
    from pyarrow import parquet

    def write(count):
        (tmp_path / "in").mkdir()
        for i in range(count):
            table = pyarrow.table({"number": range(50 * i, 50 * i + 50), "title": titles})
            parquet.write_table(table, tmp_path / "in" / f"part-{i:03}.parquet", row_group_size=20)
        return tmp_path / "in"

    return write


def read(folder):
    from pyarrow import parquet

    return parquet.read_table(folder)


def test_files_become_files_of_a_folder(longtail, trained, parts, titles, tmp_path):
    given = sorted(parts(3).iterdir())
    options = ("--k", 20, "--threshold", 0.2, "--device", "cpu", "--label-texts", "--prefix", "own_")
    status, output, errors = longtail("predict", trained, "--input", *given, "--output", tmp_path / "out", *options)
    assert (status, output) == (0, ""), errors
    assert errors.startswith("part-000.parquet: 50 texts\npart-001.parquet: 50 texts\n")
    assert errors.splitlines()[-1].startswith("150 texts in 3 parts, ")
    table = read(tmp_path / "out")
    names = ["number", "title", "own_labels", "own_label_texts", "own_scores", "own_probabilities"]
    assert table.column_names == names
    assert table["number"].to_pylist() == list(range(150))
    found = load(trained, device="cpu").predict(titles, threshold=0.2)
    assert table["own_labels"].to_pylist() == [[label.uid for label in labels] for labels in found] * 3
    again = longtail("predict", trained, "--input", *given, "--output", tmp_path / "out", *options)
    assert again == (0, "", f"3 of 3 parts are there\n0 texts in 0 parts: {tmp_path / 'out'}\n")


def test_a_stopped_and_killed_job_goes_on_and_no_row_comes_twice(
    longtail, start_longtail, trained, parts, titles, tmp_path
):
    folder, out, count = parts(40), tmp_path / "out", 40
    command = ("predict", trained, "--input", folder, "--output", out, "--device", "cpu", "--batch", 5)
    there = 0
    for end in (signal.SIGINT, signal.SIGKILL):
        process = start_longtail(*command)
        until(lambda least=there + 3: len([*out.glob("part-*.parquet")]) >= least)
        process.send_signal(end)
        _, errors = process.communicate()
        there = len([*out.glob("part-*.parquet")])
        if end == signal.SIGINT:
            said = "longtail: stopped; the same command goes on with the parts that are missing"
            assert (process.returncode, errors.splitlines()[-1]) == (130, said)
            assert not [*out.glob(".*.partial")]
    assert process.returncode == -signal.SIGKILL
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*.parquet")}
    assert 6 <= len(before) < count
    (out / ".part-000.parquet.1.4194305.partial").mkdir()  # as of one that was killed when the part was in its place
    status, _, errors = longtail(*command)
    assert status == 0, errors
    assert errors.startswith(f"{len(before)} of {count} parts are there\n")
    assert f"{50 * (count - len(before)):,} texts in {count - len(before)} parts" in errors
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before
    names = [f"part-{i:03}.parquet" for i in range(count)]
    assert sorted(path.name for path in out.iterdir()) == ["_longtail.json", *names]
    table, found = read(out), load(trained, device="cpu").predict(titles)
    assert table["number"].to_pylist() == list(range(50 * count))
    assert table["labels"].to_pylist() == [[label.uid for label in labels] for labels in found] * count


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--input", "{in}", "--output", "{new}", "--text", "words"), 'there is no column "words", the columns are:'),
        (("--input", "{in}", "--output", "{new}", "--table"), "table: has no meaning for the output"),
        (("--input", "{part}", "--output", "{new}.jsonl"), "expected lines, found Parquet, whose results go into a"),
        (("--input", "{part}"), "expected lines, found Parquet"),
        (("--text", "words"), "output: expected a folder, as text is of Parquet, found none; name a folder"),
        (("--input", "a", "b", "--output", "{new}.jsonl"), "input: expected one file, found 2"),
        (("--output", "{new}"), "-: expected Parquet files, found none"),
        (("--input", "{in}", "--output", "{new}", "--precision", "0.9999"), "precision: expected what a threshold"),
    ],
)
def test_what_does_not_go_together_is_one_line(longtail, trained, parts, tmp_path, arguments, message):
    folder = parts(1)
    names = {"in": folder, "new": tmp_path / "new", "part": folder / "part-000.parquet"}
    words = [word.format(**names) for word in arguments]
    status, output, errors = longtail("predict", trained, *words, stdin="", folder=tmp_path)
    assert (status, output, errors.count("\n")) == (1, "", 1), errors
    assert message in errors
    assert not [*tmp_path.glob("new/part*")]
