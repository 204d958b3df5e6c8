"""What Ray ranks comes as one stream, which is cut where parts end; here without Ray, which other tests have."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from longtail import Ranker
from longtail.bulk import with_ray as module
from longtail.bulk.job import MANIFEST, predict_parts
from longtail.bulk.with_ray import on_ray
from longtail.errors import BadInput, LongtailError, MissingExtra
from longtail.model import LabelSet

arrow = pytest.importorskip("pyarrow", reason="the extra longtail[parquet] is not installed")
NAMES = ["a.parquet", "b.parquet", "c.parquet"]


class RayError(Exception):
    """Stands for Ray's own."""


@pytest.fixture
def streamed(monkeypatch):
    """Has the rows of all parts come in tables of 17 rows, whichever parts they are of."""

    def ranked(ranker, parts, batch, workers):
        tables = [arrow.Table.from_batches([rows]) for part in parts for _, rows in part.batches(batch)]
        whole = ranker(arrow.concat_tables(tables))
        for start in range(0, len(whole), 17):
            yield whole.slice(start, 17)

    monkeypatch.setattr(module, "_ray", lambda: SimpleNamespace(exceptions=SimpleNamespace(RayError=RayError)))
    monkeypatch.setattr(module, "_ranked", ranked)


def there(folder):
    return sorted(path.name for path in folder.iterdir())


def test_each_part_gets_its_own_rows(streamed, trained, write_parts, tmp_path):
    from pyarrow import parquet

    rows = write_parts(tmp_path / "in", NAMES)
    parquet.write_table(rows["a.parquet"].slice(0, 0), tmp_path / "in" / "aa.parquet")
    done = predict_parts(Ranker(trained, device="cpu"), [str(tmp_path / "in")], str(tmp_path / "out"), engine=on_ray())
    assert (done.parts, done.texts) == (4, 120)
    for name in NAMES:
        assert parquet.read_table(tmp_path / "out" / name).select(["number", "title"]).equals(rows[name])


def test_a_run_that_is_changed_meanwhile_ends_the_job_before_a_part_of_both(
    streamed, run, write_parts, tmp_path, monkeypatch
):
    write_parts(tmp_path / "in", NAMES)
    plain = module._Rows.take

    def take(rows, count):
        yield from plain(rows, count)
        if there(tmp_path / "out")[-1] == "a.parquet":  # that is done
            labels = LabelSet(run, device="cpu")
            labels.remove([labels.model.labels.uids[0]])
            labels.close()

    monkeypatch.setattr(module._Rows, "take", take)
    with pytest.raises(BadInput, match=r"run: expected the run as it was when the job began, found it changed; choose"):
        predict_parts(Ranker(run, device="cpu"), [str(tmp_path / "in")], str(tmp_path / "out"), engine=on_ray())
    assert there(tmp_path / "out") == [MANIFEST, "a.parquet"]


@pytest.mark.parametrize("null", [True, False])
def test_an_error_of_ray_is_one_line_that_names_a_null_if_it_is_that(
    streamed, trained, write_parts, titles, tmp_path, monkeypatch, null
):
    write_parts(tmp_path / "in", NAMES)
    if null:
        write_parts(tmp_path / "in", ["b.parquet"], title=[*titles[:37], None, *titles[:2]])
    text = (
        "a worker:\n  File x\nValueError: too hot\n\nThe above exception was the direct cause of the following:\nmore\n"
    )

    def ranked(*_):
        raise RayError(text)
        yield

    monkeypatch.setattr(module, "_ranked", ranked)
    message = r"in/b.parquet, row 38: expected text in" if null else "^Ray: ValueError: too hot; see its log, and give"
    with pytest.raises(LongtailError, match=message):
        predict_parts(Ranker(trained, device="cpu"), [str(tmp_path / "in")], str(tmp_path / "out"), engine=on_ray())
    assert there(tmp_path / "out") == [MANIFEST]


def test_without_ray_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(MissingExtra, match=r"^the engine ray needs the package ray; pip install 'longtail\[ray\]'$"):
        on_ray(workers=2)
