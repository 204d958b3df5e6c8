"""Ray ranks what this process would, in processes of its own, some of which may be killed."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from waiting import until

from longtail import Ranker
from longtail.bulk.job import predict_parts
from longtail.bulk.with_ray import on_ray
from longtail.errors import BadInput, LongtailError

ray = pytest.importorskip("ray", reason="the extra longtail[ray] is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="the extra longtail[parquet] is not installed")
pytestmark = pytest.mark.filterwarnings("default")  # of Ray's own
slow = pytest.mark.slow  # a worker starts in some seconds: one test of Ray always runs


@pytest.fixture(scope="module")
def cluster():
    """Ray with room for two workers and what reads."""
    ray.init("local", num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def workers():
    """Processes of Ray that rank, and are no zombies."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                if (folder / "cmdline").read_bytes().startswith(b"ray::MapWorker") and _is_of_this(int(folder.name)):
                    found.append(int(folder.name))
            except OSError:  # it has ended
                continue
    return found


def _is_of_this(process):
    """Whether a process descends from this one."""
    while process > 1 and process != os.getpid():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process == os.getpid()


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=slow)])
def test_ray_gives_what_this_process_gives(cluster, trained, write_parts, tmp_path, count):
    write_parts(tmp_path / "in", ["a.parquet", "year=2020/b.parquet", "c.parquet"])
    ranker, given = Ranker(trained, k=3, probabilities=True, device="cpu"), [str(tmp_path / "in")]
    predict_parts(ranker, given, str(tmp_path / "here"), batch=20)
    done = predict_parts(ranker, given, str(tmp_path / "there"), batch=20, engine=on_ray(workers=count))
    assert (done.parts, done.texts) == (3, 120)
    for name in ("a.parquet", "c.parquet", "year=2020/b.parquet"):
        here, there = (parquet.ParquetFile(tmp_path / place / name).read() for place in ("here", "there"))
        assert here.schema.equals(there.schema)
        for column in ("number", "title", "labels"):
            assert here[column].equals(there[column]), (name, column)
        for column in ("scores", "probabilities"):
            pairs = zip(here[column].to_pylist(), there[column].to_pylist(), strict=True)
            assert all(one == pytest.approx(other, abs=1e-5) for one, other in pairs)
    if count > 1:  # a worker starts once more
        (tmp_path / "there" / "c.parquet").unlink()
        again = predict_parts(ranker, given, str(tmp_path / "there"), batch=20, engine=on_ray(workers=count))
        assert (again.parts, again.before, again.texts) == (1, 2, 40)


@slow
def test_a_map_of_batches_takes_the_ranker_by_its_class(cluster, trained, titles):
    data = ray.data.from_items([{"title": title} for title in titles]).map_batches(
        Ranker, fn_constructor_args=[trained], fn_constructor_kwargs={"k": 2, "device": "cpu"}, batch_size=16,
        compute=ray.data.ActorPoolStrategy(size=1),
    )  # fmt: skip
    expected = dict(zip(titles, Ranker(trained, k=2, device="cpu")({"title": titles})["labels"], strict=True))
    rows = data.take_all()
    assert {row["title"]: list(row["labels"]) for row in rows} == expected
    assert len(rows) == len(titles)


@slow
def test_a_worker_that_is_killed_costs_no_row(cluster, trained, write_parts, tmp_path):
    names = [f"{i:02}.parquet" for i in range(12)]
    write_parts(tmp_path / "in", names)
    ranker, given = Ranker(trained, device="cpu"), [str(tmp_path / "in")]
    out, killed = tmp_path / "out", []

    def kill():
        until(lambda: len([*out.glob("*.parquet")]) >= 3, 240)  # Ray starts its processes first
        killed.extend(workers()[:1])
        for process in killed:
            os.kill(process, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    done = predict_parts(ranker, given, str(out), batch=2, engine=on_ray(workers=2))
    thread.join()
    assert killed
    assert done.texts == 480
    numbers = [parquet.read_table(out / name)["number"].to_pylist() for name in names]
    assert numbers == [list(range(40 * i, 40 * i + 40)) for i in range(12)]
    predict_parts(ranker, given, str(tmp_path / "here"), batch=2)
    assert parquet.read_table(out)["labels"].equals(parquet.read_table(tmp_path / "here")["labels"])


@slow
def test_a_null_is_named_by_part_and_row(cluster, trained, write_parts, titles, tmp_path):
    write_parts(tmp_path / "in")
    write_parts(tmp_path / "in", ["b.parquet"], title=[*titles[:37], None, *titles[:2]])
    with pytest.raises(BadInput, match=r'in/b.parquet, row 38: expected text in column "title", found null; write'):
        predict_parts(
            Ranker(trained, device="cpu"), [str(tmp_path / "in")], str(tmp_path / "out"), engine=on_ray(workers=1)
        )


@slow
def test_what_goes_wrong_in_a_worker_is_one_line(cluster, run, write_parts, tmp_path):
    write_parts(tmp_path / "in")
    ranker = Ranker(run, device="cpu")
    assert ranker.model
    (run / "model").rename(run / "gone")
    with pytest.raises(LongtailError, match=r"Ray: .*a trained model, found none; longtail resume .*go on$") as caught:
        predict_parts(ranker, [str(tmp_path / "in")], str(tmp_path / "out"), engine=on_ray(workers=1))
    assert "\n" not in str(caught.value)
