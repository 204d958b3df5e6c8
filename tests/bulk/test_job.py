"""A job gives what `Model.predict` gives, part by part, and goes on where it was stopped."""

from __future__ import annotations

import io
import json
from itertools import chain

import fsspec
import numpy as np
import pytest
from rich.console import Console

from longtail import Ranker, load
from longtail.bulk import job as module
from longtail.bulk.job import MANIFEST, local, predict_parts
from longtail.bulk.parts import parts_of
from longtail.errors import BadInput, LongtailError
from longtail.model import LabelSet

pyarrow = pytest.importorskip("pyarrow", reason="the extra longtail[parquet] is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="the extra longtail[parquet] is not installed")


def files(folder):
    """What is in a folder, and when it was written."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()
    }


def stopped_in(part):
    """An engine that is ended when it has given a first table of some part."""

    def engine(ranker, parts, batch):
        for i, tables in enumerate(local(ranker, parts, batch)):
            yield tables if i != part else chain([next(tables)], _end())

    return engine


def _end():
    raise KeyboardInterrupt
    yield


@pytest.mark.parametrize("batch", [7, 1000])
def test_a_result_has_the_rows_and_what_the_model_says_of_each(trained, write_parts, tmp_path, batch, monkeypatch):
    monkeypatch.setattr(module, "_GROUP", 2000)  # so that several are written
    rows = write_parts(tmp_path / "in", ["a.parquet", "year=2020/b.parquet", "_hidden.parquet", ".x/c.parquet"])
    said = Console(file=io.StringIO(), width=200)
    ranker = Ranker(trained, k=3, label_texts=True, device="cpu")
    done = predict_parts(ranker, [str(tmp_path / "in")], str(tmp_path / "out"), batch=batch, console=said)
    assert (done.parts, done.before, done.texts) == (2, 0, 80)
    assert said.file.getvalue() == "a.parquet: 40 texts\nyear=2020/b.parquet: 40 texts\n"
    assert files(tmp_path / "out").keys() == {"a.parquet", "year=2020/b.parquet", MANIFEST}
    model = load(trained, device="cpu")
    for name in ("a.parquet", "year=2020/b.parquet"):
        found = parquet.ParquetFile(tmp_path / "out" / name)
        table, given = found.read(), rows[name]
        assert table.select(given.column_names).equals(given)
        assert table.column_names == ["number", "title", "labels", "label_texts", "scores"]
        for row, title in zip(table.to_pylist(), given["title"].to_pylist(), strict=True):
            labels = model.predict([title], 3)[0]
            assert row["labels"] == [label.uid for label in labels]
            assert row["label_texts"] == [label.text for label in labels]
            np.testing.assert_allclose(row["scores"], [label.score for label in labels], atol=1e-5)


def test_a_stopped_job_goes_on_with_the_parts_that_are_missing(trained, write_parts, tmp_path):
    write_parts(tmp_path / "in")
    given = (Ranker(trained, device="cpu"), [str(tmp_path / "in")])
    predict_parts(*given, str(tmp_path / "whole"), batch=16)
    with pytest.raises(KeyboardInterrupt):
        predict_parts(*given, str(tmp_path / "out"), batch=16, engine=stopped_in(1))
    before = files(tmp_path / "out")
    assert before.keys() == {"a.parquet", MANIFEST}, "a part is there whole, or not at all"
    write_parts(tmp_path / "in", ["d.parquet"])  # it has come meanwhile
    said = Console(file=io.StringIO(), width=200)
    done = predict_parts(*given, str(tmp_path / "out"), batch=16, console=said)
    assert (done.parts, done.before, done.texts) == (3, 1, 120)
    assert said.file.getvalue().startswith("1 of 4 parts are there\nb.parquet: 40 texts\n")
    after = files(tmp_path / "out")
    assert after.keys() == {"a.parquet", "b.parquet", "c.parquet", "d.parquet", MANIFEST}
    assert {name: after[name] for name in before} == before, "what is done is not done again"
    for name in ("a.parquet", "b.parquet", "c.parquet"):
        assert parquet.read_table(tmp_path / "out" / name).equals(parquet.read_table(tmp_path / "whole" / name))
    assert predict_parts(*given, str(tmp_path / "out")).texts == 0


def test_a_job_with_other_options_or_another_run_is_refused(run, write_parts, tmp_path):
    write_parts(tmp_path / "in")
    given, out = [str(tmp_path / "in")], str(tmp_path / "out")
    predict_parts(Ranker(run, device="cpu"), given, out, engine=lambda *a: iter(list(local(*a))[:3]))
    before = files(tmp_path / "out")
    with pytest.raises(
        BadInput, match=r"_longtail.json: expected k null, as these results have it, found 3; finish it"
    ):
        predict_parts(Ranker(run, k=3, device="cpu"), given, out)
    labels = LabelSet(run, device="cpu")
    labels.remove([labels.model.labels.uids[0]])
    labels.close()
    with pytest.raises(BadInput, match=r"expected the run that these results are of, found other labels; choose"):
        predict_parts(Ranker(run, device="cpu"), given, out)
    assert files(tmp_path / "out") == before


def test_options_may_change_as_long_as_nothing_is_finished(trained, write_parts, tmp_path):
    write_parts(tmp_path / "in")
    given, out = [str(tmp_path / "in")], str(tmp_path / "out")
    message = r'a.parquet: there is no column "text", the columns are: number, title'
    with pytest.raises(BadInput, match=message):
        predict_parts(Ranker(trained, text="text", device="cpu"), given, out)
    assert predict_parts(Ranker(trained, k=1, device="cpu"), given, out).texts == 120
    assert json.loads((tmp_path / "out" / MANIFEST).read_text())["options"]["k"] == 1


def test_two_jobs_do_not_work_in_one_folder(trained, write_parts, tmp_path):
    write_parts(tmp_path / "in")
    given = (Ranker(trained, device="cpu"), [str(tmp_path / "in")], str(tmp_path / "out"))

    def second(*of_job):
        with pytest.raises(BadInput, match=r"out: process \d+ works in this folder; wait for it"):
            predict_parts(*given)
        return local(*of_job)

    assert predict_parts(*given, engine=second).parts == 3


def test_a_null_is_named_by_part_and_row_and_nothing_half_written_stays(trained, write_parts, titles, tmp_path):
    write_parts(tmp_path / "in")
    texts = [*titles[:37], None, *titles[:2]]
    write_parts(tmp_path / "in", ["b.parquet"], title=texts)
    given = [str(tmp_path / "in")], str(tmp_path / "out")
    with pytest.raises(BadInput, match=r'in/b.parquet, row 38: expected text in column "title", found null; write'):
        predict_parts(Ranker(trained, device="cpu"), *given, batch=16)
    assert files(tmp_path / "out").keys() == {"a.parquet", MANIFEST}
    predict_parts(Ranker(trained, device="cpu", skip_null=True), [str(tmp_path / "in")], str(tmp_path / "other"))
    labels = parquet.read_table(tmp_path / "other" / "b.parquet")["labels"].to_pylist()
    assert [i for i, row in enumerate(labels) if not row] == [37]


def test_bytes_that_are_no_utf_8_are_named_by_part_row_and_column(trained, write_parts, titles, tmp_path):
    texts = pyarrow.array([title.encode() for title in titles[:37]] + [b"caf\xe9", None, b"b"])
    broken = pyarrow.StringArray.from_buffers(len(texts), *texts.buffers()[1:], texts.buffers()[0])
    write_parts(tmp_path / "in", ["b.parquet"], title=broken)
    given = [str(tmp_path / "in")], str(tmp_path / "out")
    said = r'in/b.parquet, row 38: expected UTF-8 text in column "title", found byte 0xe9 at position 4; write it as'
    with pytest.raises(BadInput, match=said):
        predict_parts(Ranker(trained, device="cpu"), *given, batch=16)
    (tmp_path / "in" / "b.parquet").unlink()
    rows = write_parts(tmp_path / "in", ["a.parquet"], other=broken)
    assert predict_parts(Ranker(trained, device="cpu"), *given).texts == 40
    other = parquet.read_table(tmp_path / "out" / "a.parquet")["other"]
    assert other.equals(rows["a.parquet"]["other"]), "a column that is not read goes through as it is"


def test_other_file_systems_are_read_and_written(trained, write_parts, tmp_path):
    rows = write_parts(tmp_path)
    system = fsspec.filesystem("memory")
    for name in rows:
        system.pipe(f"/texts/{name}", (tmp_path / name).read_bytes())
    ranker = Ranker(trained, device="cpu")
    try:
        with pytest.raises(KeyboardInterrupt):
            predict_parts(ranker, ["memory://texts/*.parquet"], "memory://ranked", batch=16, engine=stopped_in(1))
        assert sorted(system.find("/ranked")) == [f"/ranked/{MANIFEST}", "/ranked/a.parquet"]
        done = predict_parts(ranker, ["memory://texts"], "memory://ranked", batch=16)
        assert (done.parts, done.before) == (2, 1)
        predict_parts(ranker, [f"file://{tmp_path}"], (tmp_path / "out").as_uri(), batch=16)
        for name in rows:
            table = parquet.read_table(io.BytesIO(system.cat(f"/ranked/{name}")))
            assert table.equals(parquet.read_table(tmp_path / "out" / name))
    finally:
        system.store.clear()
        system.pseudo_dirs[:] = [""]


def test_a_part_without_rows_has_a_result_without_rows(trained, write_parts, tmp_path):
    rows = write_parts(tmp_path / "in", ["a.parquet"])
    parquet.write_table(rows["a.parquet"].slice(0, 0), tmp_path / "in" / "b.parquet")
    assert predict_parts(Ranker(trained, device="cpu"), [str(tmp_path / "in")], str(tmp_path / "out")).texts == 40
    schemas = [parquet.read_schema(tmp_path / "out" / name) for name in ("a.parquet", "b.parquet")]
    assert schemas[0].equals(schemas[1])


def test_results_may_be_within_the_folder_of_the_parts(trained, write_parts, tmp_path):
    write_parts(tmp_path)
    given = Ranker(trained, device="cpu"), [str(tmp_path)], str(tmp_path / "sub" / "out")
    assert predict_parts(*given).parts == 3
    again = predict_parts(*given)
    assert (again.parts, again.before) == (0, 3), "results are no parts"


def test_an_engine_that_loses_rows_is_found_out(trained, write_parts, tmp_path):
    write_parts(tmp_path / "in")

    def loses(ranker, parts, batch):
        for tables in local(ranker, parts, batch):
            yield (table.slice(1) for table in tables)

    with pytest.raises(BadInput, match=r"a.parquet: expected 40 rows, found 37"):
        predict_parts(
            Ranker(trained, device="cpu"), [str(tmp_path / "in")], str(tmp_path / "out"), batch=15, engine=loses
        )
    assert files(tmp_path / "out").keys() == {MANIFEST}


def test_an_engine_that_gives_other_columns_is_found_out(trained, write_parts, tmp_path):
    """As Ray may, of parts with different ones."""
    write_parts(tmp_path / "in")

    def lacks(ranker, parts, batch):
        for tables in local(ranker, parts, batch):
            yield (table.drop_columns("number") for table in tables)

    message = "a.parquet: expected the columns number, title, labels, scores, found title, labels, scores; give parts"
    with pytest.raises(BadInput, match=message):
        predict_parts(Ranker(trained, device="cpu"), [str(tmp_path / "in")], str(tmp_path / "out"), engine=lacks)
    assert files(tmp_path / "out").keys() == {MANIFEST}


@pytest.mark.parametrize(
    ("inputs", "output", "message"),
    [
        (["nothing"], "out", "expected Parquet files, found none"),
        (["in/*.csv"], "out", "expected Parquet files, found none"),
        (["in/a.parquet", "more/a.parquet"], "out", "expected parts of different names, found .*in/a.parquet"),
        (["in"], "in", "expected a folder without parts that are read, found .*in/a.parquet in it"),
        (["in"], "more", "more: is there already, and holds something else"),
        (["in"], "text/a.parquet", "text/a.parquet: expected a folder, or a new name for one, found a file"),
        (["text"], "out", "text/a.parquet: is not readable as Parquet"),
        (["nowhere://in"], "out", "nowhere://in: expected a path or URL that fsspec opens, found none"),
    ],
)
def test_what_makes_no_job_is_refused(trained, write_parts, tmp_path, monkeypatch, inputs, output, message):
    monkeypatch.chdir(tmp_path)
    for folder in ("in", "more"):
        write_parts(tmp_path / folder)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.parquet").write_text("a\n")
    before = files(tmp_path)
    with pytest.raises(LongtailError, match=message):
        predict_parts(Ranker(trained, device="cpu"), inputs, output)
    assert {name for name in files(tmp_path) if not name.endswith(MANIFEST)} == before.keys()


def test_parts_are_named_by_their_path_from_what_was_given(write_parts, tmp_path, monkeypatch):
    write_parts(tmp_path, ["x/1/a.parquet", "x/2/a.parquet", "x/2/b.pq"])
    monkeypatch.chdir(tmp_path)
    names = {given: [part.name for part in parts_of([given])] for given in ("x", "x/*/a.parquet", "x/2/b.pq", "x/?/*q")}
    assert names["x"] == names["x/*/a.parquet"] == ["1/a.parquet", "2/a.parquet"]
    assert names["x/2/b.pq"] == ["b.pq"]
    assert names["x/?/*q"] == ["2/b.pq"]
    assert [part.name for part in parts_of(["x/2/a.parquet", "x/2/b.pq"])] == ["a.parquet", "b.pq"]
