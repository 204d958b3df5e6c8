"""Comparisons of tiny runs: what is done, what is not done again, and what the tables say."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from broken import flipped

from longtail.compare.comparison import _job, compare
from longtail.compare.jobs import Job, must_agree, outcome
from longtail.compare.methods import Method
from longtail.data.dataset import Dataset
from longtail.data.sparse import csr_of_lists
from longtail.errors import BadInput
from longtail.files import write_json
from longtail.locks import LOCK
from longtail.metrics.propensity import inverse_propensity
from longtail.metrics.ranking import metrics_of
from longtail.model import load
from longtail.recipes import RECIPES
from longtail.report.judge import Judge, judged
from longtail.report.outcome import Outcome
from longtail.testing.planted import planted
from longtail.topk import TopK
from longtail.train.cost import Cost
from longtail.train.plan import Planned
from longtail.train.progress import Progress

QUICK = "batch=64,width=16,device=cpu"
TWO = [
    Method.parse(f"text=dpr:epochs=2,{QUICK}"),
    Method.parse(f"ngame:epochs=1,classifier_epochs=2,validation=0.05,{QUICK}"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "planted"
    planted(0, documents=300, test_documents=60, labels=60).dataset.write(path)
    return path


@pytest.fixture(scope="module")
def compared(folder, tmp_path_factory):
    """Two methods with two seeds: the folder and the results."""
    out = tmp_path_factory.mktemp("compared")
    return out, compare(folder, TWO, out, seeds=2)


def test_every_run_is_a_run_folder_of_its_own(compared, folder):
    out, results = compared
    assert list(results["rows"]) == [method.label for method in TWO]
    for method in TWO:
        for seed in range(2):
            settings = json.loads((out / "runs" / method.folder / f"seed-{seed}" / "run.json").read_text())
            assert settings["recipe"] == method.recipe
            assert settings["arguments"].items() >= {**method.arguments, "seed": seed}.items()
    runs = results["rows"]["text"]["runs"]
    assert [run["seed"] for run in runs] == [0, 1]
    wanted = f"longtail train dpr {folder} --out {out}/runs/text/seed-1 --epochs 2 --batch 64 --width 16 --device cpu"
    assert runs[1]["command"] == f"{wanted} --seed 1"


def test_the_numbers_are_those_of_evaluate(compared, folder):
    out, results = compared
    dataset = Dataset.read(folder)
    assert dataset.test is not None
    weights = inverse_propensity(dataset.train.targets, 0.55, 1.5)
    row = results["rows"][TWO[1].label]
    assert row["headline"] == "fused"
    assert list(row["kinds"]) == ["encoder", "classifier", "fused"]
    for kind, metrics in row["kinds"].items():
        for seed in range(2):
            bundle = load(out / "runs" / TWO[1].folder / f"seed-{seed}", device="cpu")
            top = bundle.rank(dataset.test.documents, 10, kind=kind, exclude=dataset.test.filtered)
            values = metrics_of(top, dataset.test.targets, ks=(1, 3, 5, 10), inverse_propensity=weights)
            assert {name: of["seeds"][seed] for name, of in metrics.items()} == values
        for of in metrics.values():
            assert of["mean"] == pytest.approx(np.mean(of["seeds"]))
            assert of["low"] <= of["mean"] <= of["high"]


def test_costs_are_those_of_the_training_process(compared):
    for row in compared[1]["rows"].values():
        assert row["batch"] == 64
        assert 32 <= row["pool"] <= 60
        for run in row["runs"]:
            assert 0 < run["seconds"] < 60
            assert 2**26 < run["peak_memory"] < 2**32
            assert run["peak_gpu_memory"] == 0
            assert 60 * 16 * 4 < run["model_bytes"] < 2**22
            assert 0 < run["milliseconds_a_text"][row["headline"]] < 100
            assert 0 < run["latency"]["p50"] <= run["latency"]["p99"]


def test_the_tables_hold_every_method_and_the_files_hold_the_results(compared):
    out, results = compared
    assert json.loads((out / "results.json").read_text()) == results
    assert all(method.label in (out / "report.html").read_text() for method in TWO)
    text = (out / "results.md").read_text()
    header = next(line for line in text.splitlines() if "nDCG@3" in line)
    names = [f"P@{k}" for k in (1, 3, 5, 10)]
    names += [f"{name}@{k}" for name in ("nDCG", "PSP", "R", "C") for k in (1, 3, 5)]
    assert [cell.strip() for cell in header.split("|")] == ["", "", "score", "seeds", *names, ""]
    assert text.count(f"\n| **{TWO[1].label}** | fused | 2 |") == 1
    p1 = results["rows"]["text"]["kinds"]["encoder"]["P@1"]
    assert f"{p1['mean']:.2f} ±{(p1['high'] - p1['low']) / 2:.2f}" in text
    delta = results["differences"][TWO[1].label]["P@1"]
    fused = results["rows"][TWO[1].label]["kinds"]["fused"]["P@1"]
    assert delta["mean"] == pytest.approx(fused["mean"] - p1["mean"])
    assert list(results["differences"]) == [TWO[1].label]


def test_what_is_done_is_not_done_again(compared, folder):
    out, results = compared
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*") if path.is_file()}
    again = compare(folder, TWO[::-1], out, seeds=2)
    assert {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*") if path.is_file()} == before
    assert again["rows"] == results["rows"]
    assert list(again["differences"]) == ["text"]


def test_models_may_be_removed_and_what_was_measured_stays(compared, folder, tmp_path):
    out, results = tmp_path / "out", compared[1]
    shutil.copytree(compared[0], out)
    for model in out.glob("runs/*/*/model"):
        shutil.rmtree(model)
    again = compare(folder, TWO, out, seeds=2)
    assert not [*out.glob("runs/*/*/model")]
    for label, row in results["rows"].items():
        assert again["rows"][label]["kinds"] == row["kinds"]
        for now, before in zip(again["rows"][label]["runs"], row["runs"], strict=True):
            assert now == before | {"command": now["command"]}  # which names the folder


def test_a_comparison_that_kept_no_sizes_of_models_is_gone_on_with(compared, folder, tmp_path):
    out, results = tmp_path / "out", compared[1]
    shutil.copytree(compared[0], out)
    for path in out.glob("runs/*/*/prediction.json"):
        said = json.loads(path.read_text())
        path.write_text(json.dumps({key: said[key] for key in ("kinds", "milliseconds")}))  # nor checksums
    again = compare(folder, TWO, out, seeds=2)
    for label, row in results["rows"].items():
        assert [run["model_bytes"] for run in again["rows"][label]["runs"]] == [
            run["model_bytes"] for run in row["runs"]
        ]


def test_a_run_of_other_settings_or_data_is_refused(compared, folder, tmp_path):
    with pytest.raises(BadInput, match="made with epochs 2, asked for now is 3; give the row another label"):
        compare(folder, [Method.parse(f"text=dpr:epochs=3,{QUICK}")], compared[0])
    planted(1, documents=300, test_documents=60, labels=60).dataset.write(tmp_path / "other")
    with pytest.raises(BadInput, match="made with other data"):
        compare(tmp_path / "other", TWO, compared[0])


@pytest.mark.parametrize("name", ["run.json", "prediction.json"])
def test_a_file_that_is_cut_is_refused_in_one_line(compared, folder, tmp_path, name):
    out = tmp_path / "out"
    shutil.copytree(compared[0], out)
    path = out / "runs" / "text" / "seed-1" / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BadInput, match=rf"{name}: expected JSON, found .*; (put the file back|remove .*; the run)"):
        compare(folder, TWO, out, seeds=2)


@pytest.mark.parametrize("earlier", [False, True], ids=["now", "earlier version"])
@pytest.mark.parametrize("fault", ["flipped", "cut", "emptied", "gone", "another array"])
def test_a_ranking_that_is_not_as_it_was_written_is_refused_in_one_line(compared, tmp_path, fault, earlier):
    job = _job(TWO[0], 0, tmp_path, tmp_path)
    shutil.copytree(compared[0] / "runs" / "text" / "seed-0", job.folder)
    outcome(job)
    path, card = job.folder / "predictions.npz", job.folder / "prediction.json"
    if earlier:
        said = json.loads(card.read_text())
        card.write_text(json.dumps({key: said[key] for key in said.keys() - {"sha256", "digest"}}))
    content = path.read_bytes()
    if fault == "gone":
        path.unlink()
    elif fault == "another array":
        np.savez(path, **{"encoder ids": np.array([{}])})
    else:
        middle = len(content) // 2
        path.write_bytes({"flipped": flipped(content, middle), "cut": content[:middle], "emptied": b""}[fault])
    with pytest.raises(BadInput, match=r"predictions.npz: expected .*; remove .*/prediction.json; the run") as refused:
        outcome(job)
    assert "\n" not in str(refused.value)


def test_a_flipped_byte_of_what_a_ranking_says_of_itself_is_refused(compared, tmp_path):
    job = _job(TWO[0], 0, tmp_path, tmp_path)
    shutil.copytree(compared[0] / "runs" / "text" / "seed-0", job.folder)
    card = job.folder / "prediction.json"
    content, before = card.read_bytes(), outcome(job)
    for at in range(0, len(content), 3):
        changed = flipped(content, at, at % 8)
        card.write_bytes(changed)
        try:
            found = outcome(job)
        except BadInput:
            continue
        assert b'"digest"' not in changed, at  # it is then as one of an earlier version, and its file as it was
        assert (found.milliseconds, found.model_bytes) == (before.milliseconds, before.model_bytes)


def test_a_method_that_fails_is_reported_and_the_others_go_on(compared, folder, tmp_path):
    shutil.copytree(compared[0], tmp_path / "out")
    results = compare(folder, [Method.parse(f"bad=dpr:augment=doubling,{QUICK}"), TWO[0]], tmp_path / "out", seeds=2)
    assert list(results["rows"]) == ["text"]
    assert list(results["failed"]) == ["bad"]
    assert list(results["failed"]["bad"]) == ["0"]
    assert "expected one of none, gandalf, " in results["failed"]["bad"]["0"]
    assert (
        "bad, seed 0, failed: --augment: expected one of none, gandalf" in (tmp_path / "out" / "results.md").read_text()
    )


def test_a_recipe_that_is_over_its_budget_is_stopped_and_goes_on_with_a_larger_one(compared, folder, tmp_path):
    shutil.copytree(compared[0], tmp_path / "out")
    methods = [Method.parse(f"long=dpr:epochs=3,{QUICK}"), TWO[0]]
    results = compare(folder, methods, tmp_path / "out", seeds=2, budget=0.5)  # less than Python needs to start
    assert list(results["rows"]) == ["text"]  # done before, whatever it took
    assert results["stopped"] == {"long": {"0": "over the budget of 0.5s"}}
    assert results["failed"] == {}
    for name in ("results.md", "report.html"):
        text = (tmp_path / "out" / name).read_text()
        assert "seed 0, stopped: over the budget of 0.5s; a larger budget lets it go on" in text
        assert "failed:" not in text
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs" / "long").rglob("*")}
    assert compare(folder, methods, tmp_path / "out", seeds=2, budget=0.5)["stopped"] == results["stopped"]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs" / "long").rglob("*")} == before
    results = compare(folder, methods, tmp_path / "out", budget=600, seeds=1)
    assert list(results["rows"]) == ["long", "text"]
    assert results["stopped"] == {}
    assert results["rows"]["long"]["runs"][0]["seconds"] > 0.5


def test_without_a_test_split_there_is_nothing_to_judge_by(folder, tmp_path):
    dataset = Dataset.read(folder, test=False)
    dataset.write(tmp_path / "train-only")
    with pytest.raises(BadInput, match="expected a test split"):
        compare(tmp_path / "train-only", TWO, tmp_path / "out")


def test_a_killed_comparison_goes_on_and_ends_as_an_unbroken_one(compared, folder, tmp_path):
    """Killed while a run trains: that run ends with it, or is waited for where the system tells it nothing."""
    out = tmp_path / "out"
    shutil.copytree(compared[0], out)
    shutil.rmtree(out / "runs" / TWO[1].folder / "seed-1")
    texts = [f"text=dpr:epochs=2,{QUICK}", f"{TWO[1].label}"]
    command = [sys.executable, "-m", "longtail", "compare", str(folder), *texts, "--out", str(out), "--seeds", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not (out / "runs" / TWO[1].folder / "seed-1" / "run.json").exists() and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    results = compare(folder, TWO, out, seeds=2)
    for label, row in results["rows"].items():
        whole = compared[1]["rows"][label]
        for part in ("kinds", "bins", "pool"):
            assert row[part] == whole[part]


def test_seeds_are_averaged_document_by_document():
    """Two documents, labels 0 and 1; seed 0 is right for both, seed 1 for the first only."""
    truth = csr_of_lists([[0], [1]], 2)
    dataset = planted(0, documents=40, test_documents=20, labels=16).dataset
    judge = Judge.of(dataset)
    judge = replace(judge, test=replace(judge.test, targets=truth), weights=None)
    outcomes = [
        Outcome(
            {"encoder": TopK(np.array(ids), np.zeros((2, 1), np.float32))}, {}, 0, Cost(), {"arguments": {}}, 0, "", []
        )
        for ids in ([[0], [1]], [[0], [0]])
    ]
    row = judged("dpr", {}, outcomes, judge)
    assert row.by_seed["encoder"]["P@1"] == [100, 50]
    assert row.scores["encoder"]["P@1"].each.tolist() == [100, 50]
    assert row.scores["encoder"]["P@1"].value == 75
    assert row.scores["encoder"]["C@1"].each.tolist() == [100, 50]
    assert row.scores["encoder"]["P@5"].value == pytest.approx(15)


def test_an_argument_that_a_recipe_has_by_now_was_its_default(compared, folder, tmp_path):
    """A comparison that was begun before a recipe had an argument."""
    out, results = tmp_path / "out", compared[1]
    shutil.copytree(compared[0], out)
    for path in out.glob("runs/*/*/run.json"):
        settings = json.loads(path.read_text())
        del settings["sha256"]
        del settings["arguments"]["width"]
        del settings["arguments"]["warmup"]
        path.write_text(json.dumps(settings))
    default = inspect.signature(RECIPES["dpr"]).parameters["width"].default
    asked = f"text=dpr:epochs=2,batch=64,width={default},device=cpu"
    again = compare(folder, [Method.parse(asked)], out, seeds=2)
    assert again["rows"]["text"]["kinds"] == results["rows"]["text"]["kinds"]
    with pytest.raises(BadInput, match=rf"made with width {default}, asked for now is 16; give the row another label"):
        compare(folder, TWO, out, seeds=2)


@pytest.mark.parametrize(
    ("now", "message"),
    [
        ("mine=dpr:batch=64,width=16,device=cpu", "made with epochs 2, the default now is 6; give the row another"),
        ("mine=dpr:epochs=2,width=16,device=cpu", "made with batch 64, the default now is 37; give the row another"),
        ("mine=dpr:epochs=2,batch=64,device=cpu", r"made with width 16, the default now is \d+; give the row another"),
        ("mine=dpr:epochs=2,batch=64,width=16,device=cpu,fields=title", None),  # the default
        ("mine=dpr:epochs=2,batch=64,width=16", None),  # wherever it was made
        ("mine=dpr:epochs=2,batch=64,width=16,preset=paper", "made with preset None, asked for now is paper"),
    ],
)
def test_a_run_made_with_an_argument_that_is_not_asked_for_now_is_refused(now, message, compared, folder, tmp_path):
    """Finished or not, it would be told of as a run of the defaults; those that go by the data among them."""
    made = compared[0] / "runs" / "text" / "seed-0" / "run.json"
    job = _job(Method.parse(now), 0, folder, tmp_path)
    job.folder.mkdir(parents=True)
    shutil.copy(made, job.folder)
    dataset = Dataset.read(folder)
    with nullcontext() if message is None else pytest.raises(BadInput, match=message):
        must_agree(job, dataset, dataset.fingerprint())


@pytest.mark.parametrize("text", ["dpr", "unidec", "unidec:epochs=auto", "dismec", "dismec:preset=paper"])
def test_a_run_of_defaults_that_go_by_the_data_is_gone_on_with(text, folder, tmp_path, monkeypatch):
    job, dataset, claim = _job(Method.parse(text), 0, folder, tmp_path), Dataset.read(folder), Progress.claim

    def claimed(progress):
        claim(progress)
        raise Planned

    monkeypatch.setattr(Progress, "claim", claimed)  # the run is begun, and no further
    with pytest.raises(Planned):
        RECIPES[job.method.recipe](dataset, out=job.folder, **job.given)
    must_agree(job, dataset, dataset.fingerprint())


def test_a_row_may_name_a_run_of_its_own_seed(tmp_path):
    dataset = planted(0, documents=40, test_documents=20, labels=16).dataset
    method = Method.parse("taught=astec:augment=lever:run=out/runs/ngame/seed-{seed},width=8")
    jobs = [_job(method, seed, tmp_path, tmp_path) for seed in range(2)]
    for seed, job in enumerate(jobs):
        asked = {"augment": f"lever:run=out/runs/ngame/seed-{seed}", "width": 8}
        assert job.arguments == asked
        assert asked["augment"] in job.command
        write_json(job.folder / "run.json", {"recipe": "astec", "arguments": asked | {"seed": seed}, "hashes": {}})
        must_agree(job, dataset, {})  # asked for again
    shutil.copytree(jobs[0].folder, jobs[1].folder, dirs_exist_ok=True)
    with pytest.raises(BadInput, match="made with seed 0, asked for now is 1"):
        must_agree(jobs[1], dataset, {})


@pytest.fixture(scope="module")
def beside(compared, folder, tmp_path_factory):
    """The finished runs of one method, with both seeds and alone, beside a recipe: the folder and the results."""
    out, runs = tmp_path_factory.mktemp("beside"), compared[0] / "runs" / TWO[1].folder
    methods = [TWO[0], Method.parse(f"mine={runs}/seed-{{seed}}"), Method.parse(f"{runs}/seed-1")]
    return out, methods, compare(folder, methods, out, seeds=2)


def test_finished_runs_are_judged_as_a_comparison_judges_them_that_trained_them(compared, beside):
    (out, trained), (_, methods, results) = compared, beside
    before, mine, alone = trained["rows"][TWO[1].label], results["rows"]["mine"], results["rows"][methods[2].label]
    assert [mine[name] for name in ("kinds", "bins", "recipe", "headline", "batch", "pool")] == [
        before[name] for name in ("kinds", "bins", "recipe", "headline", "batch", "pool")
    ]
    assert results["differences"]["mine"] == trained["differences"][TWO[1].label]
    assert [run["seed"] for run in mine["runs"]] == [0, 1]
    assert [run["seed"] for run in alone["runs"]] == [1]
    assert alone["kinds"]["fused"]["P@1"]["seeds"] == before["kinds"]["fused"]["P@1"]["seeds"][1:]
    asked = {"epochs": 1, "classifier_epochs": 2, "batch": 64, "width": 16, "device": "cpu"}  # 0.05 is the default
    assert mine["arguments"] == alone["arguments"] == asked
    for now, was in zip(mine["runs"], before["runs"], strict=True):
        same = ("seconds", "peak_memory", "model_bytes", "versions")
        assert [now[name] for name in same] == [was[name] for name in same]
        assert f"--out {out / 'runs' / TWO[1].folder}/seed-{now['seed']} " in now["command"]


def test_a_finished_run_stays_as_it_is_and_is_judged_once(compared, beside, folder):
    out, methods, results = beside
    paths = [path for where in (out, compared[0]) for path in (where / "runs").rglob("*") if path.is_file()]
    before = {path: path.stat().st_mtime_ns for path in paths}
    assert not [*out.glob("runs/*mine*/*/model")]
    assert compare(folder, methods, out, seeds=2)["rows"] == results["rows"]
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_what_was_judged_of_a_finished_run_stays_when_it_is_gone(compared, folder, tmp_path):
    run, out = tmp_path / "runs" / "mine", tmp_path / "out"
    shutil.copytree(compared[0] / "runs" / "text" / "seed-0", run)
    methods = [Method.parse(f"mine={run}")]
    results = compare(folder, methods, out, seeds=2)
    assert [one["seed"] for one in results["rows"]["mine"]["runs"]] == [0]
    shutil.rmtree(run)
    assert compare(folder, methods, out, seeds=2)["rows"] == results["rows"]
    shutil.copytree(compared[0] / "runs" / "text" / "seed-1", run)
    with pytest.raises(BadInput, match="another run is there as mine; give the row another label"):
        compare(folder, methods, out, seeds=2)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (shutil.rmtree, "expected the settings of a run, found no such file"),
        (lambda run: shutil.rmtree(run / "model"), "expected a finished run, found one without a model"),
        (lambda run: (run / LOCK).touch(), "expected a finished run"),
    ],
)
def test_what_is_no_finished_run_is_refused_before_anything_is_done(compared, folder, tmp_path, spoil, message):
    run, out = tmp_path / "mine", tmp_path / "out"
    shutil.copytree(compared[0] / "runs" / "text" / "seed-0", run)
    spoil(run)
    with pytest.raises(BadInput, match=message):
        compare(folder, [TWO[0], Method.parse(str(run))], out, seeds=1)
    assert not out.exists()


def test_a_run_that_was_stopped_is_not_written_over_by_a_finished_one(compared, folder, tmp_path):
    began = tmp_path / "runs" / "mine" / "seed-0"
    began.mkdir(parents=True)
    shutil.copy(compared[0] / "runs" / TWO[1].folder / "seed-0" / "run.json", began)
    before = (began / "run.json").read_text()
    with pytest.raises(BadInput, match="another run is there as mine"):
        compare(folder, [Method.parse(f"mine={compared[0]}/runs/text/seed-0")], tmp_path, seeds=1)
    assert (began / "run.json").read_text() == before


def test_a_finished_run_of_other_data_is_refused(compared, tmp_path):
    planted(1, documents=300, test_documents=60, labels=60).dataset.write(tmp_path / "data")
    run = compared[0] / "runs" / "text" / "seed-0"
    with pytest.raises(BadInput, match=r"seed-0: the run was made with other data than .*; compare runs of the same"):
        compare(tmp_path / "data", [Method.parse(str(run))], tmp_path / "out", seeds=1)


def test_a_run_that_died_before_it_had_tidied_up_is_not_taken_for_trained(tmp_path):
    job = Job(Method.parse("dpr"), 0, tmp_path, tmp_path / "run")
    write_json(job.folder / "model" / "bundle.json", {})
    assert job.trained()
    (job.folder / LOCK).touch()
    assert not job.trained()  # it is resumed, which finds the model, and removes what is left beside it
