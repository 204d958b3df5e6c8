"""The loop: what it minimises, when it stops, and that a stopped run ends where an unbroken one does."""

from __future__ import annotations

import json
from functools import partial
from itertools import chain, cycle

import numpy as np
import pytest
import torch

from longtail.batches.clusters import balanced_clusters
from longtail.batches.loader import Loader
from longtail.batches.pool import Pool
from longtail.batches.samplers import Clustered
from longtail.data.dataset import Dataset
from longtail.errors import LongtailError
from longtail.losses.softmax import decoupled_softmax
from longtail.modules.encoders.bag import BagEncoder
from longtail.options import AtMost
from longtail.text.bag import BagTokenizer
from longtail.train.course import Course, UntilBest, linear
from longtail.train.fit import fit, seconds_a_step
from longtail.train.log import Log, read_log
from longtail.train.optimizer import AdamW
from longtail.train.plan import Plan
from longtail.train.progress import SCHEMA, Progress, settings_of
from longtail.train.renewal import Renewal, When
from longtail.train.run import Run

EPOCHS = 3
CPU = torch.device("cpu")


class Crash(Exception):
    pass


def small_dataset():
    topics = ["red apple", "blue sky", "green tree", "old stone", "warm bread", "cold river", "loud drum"]
    documents = [f"{topic} number {i}" for i in range(9) for topic in topics]
    labels = ["fruit", "air", "plant", "rock", "food", "water", "noise"]
    return Dataset.from_texts(documents, [[i % len(topics)] for i in range(len(documents))], labels)


class Stage:
    """One small training stage, with dropout and a sampler that has a state."""

    def __init__(self, run, *, crash_at=None, epochs=EPOCHS, course=None, every=None):
        data = small_dataset()
        tokenizer = BagTokenizer.fit(
            [*data.train.documents.joined(["title"]), *data.labels.joined(["title"])], minimum=1
        )
        self.documents, labels = (tokenizer(t.joined(["title"])) for t in (data.train.documents, data.labels))
        self.encoder = BagEncoder(tokenizer, 8, generator=torch.Generator().manual_seed(1))
        self.sampler = Clustered(len(data.train), 8, seed=3)
        sources = (partial(tokenizer.batch, self.documents), partial(tokenizer.batch, labels))
        self.batches = Loader(data.train, self.sampler, Pool(data.train.targets, 1, random=2), *sources, seed=4)
        self.optimizer = AdamW(self.encoder.parameters(), 0.01)
        self.run, self.crash_at, self.steps, self.course = run, crash_at, 0, course or Course(epochs, linear(4))
        self.regrouped, self.seen = [], []
        self.renewal = every and Renewal(When(1, 1, every), self.renew)

    def objective(self, b):
        if self.steps == self.crash_at:
            raise Crash
        self.steps += 1
        self.seen.append(b.rows.tolist())
        documents = torch.nn.functional.dropout(self.encoder(b.documents), 0.2)
        return {"softmax": decoupled_softmax(documents @ self.encoder(b.labels).T, b.targets, b.mask)}

    def before_epoch(self, epoch):
        self.regrouped.append(epoch)
        self.sampler.regroup(self.clusters(epoch, 0), epoch=epoch)

    def renew(self, at):
        self.regrouped.append(at.epoch * 8 + at.step)
        self.sampler.regroup(self.clusters(at.epoch, at.step), epoch=at.epoch, step=at.step)

    def clusters(self, *key):
        from longtail.modules.encoders.base import embed

        vectors = embed(self.encoder, self.documents, device=CPU)
        return balanced_clusters(vectors, 4, generator=np.random.default_rng([3, *key]), device=CPU)

    def fit(self):
        fit(
            self.objective,
            self.batches,
            self.optimizer,
            progress=self.run.progress,
            stage="encoder",
            modules={"encoder": self.encoder},
            course=self.course,
            seed=5,
            before_epoch=None if self.renewal else self.before_epoch,
            renewal=self.renewal,
            others={"sampler": self.sampler},
        )
        return self.encoder.table.weight.detach()


def test_the_loss_falls():
    stage = Stage(Run(), epochs=12)
    batch = next(stage.batches.epoch(0))
    before = float(stage.objective(batch)["softmax"].detach())
    stage.fit()
    assert float(stage.objective(batch)["softmax"].detach()) < 0.1 * before


def test_a_module_in_eval_mode_is_trained_in_train_mode():
    stage = Stage(Run())
    stage.encoder.eval()  # as a finished model has it, and who opens one
    modes, plain = [], stage.objective
    stage.objective = lambda b: modes.append(stage.encoder.training) or plain(b)
    stage.fit()
    assert modes
    assert all(modes)


def test_the_moments_are_let_go_with_the_stage(monkeypatch):
    stage, held = Stage(Run()), []
    monkeypatch.setattr("longtail.train.fit.return_freed", lambda: held.append(len(stage.optimizer.state)))
    stage.fit()
    assert not stage.optimizer.state
    assert held == [0]  # once, when there is nothing left that could be freed
    assert all(parameter.grad is None for parameter in stage.encoder.parameters())


@pytest.mark.parametrize("crash_at", [0, 1, 7, 8, 9, 15, 23])
def test_a_run_that_was_stopped_at_any_step_ends_bit_equal(tmp_path, crash_at):
    whole = Stage(Run()).fit()
    with pytest.raises(Crash):
        Stage(Run(tmp_path, interval=0.0), crash_at=crash_at).fit()
    second = Stage(Run(tmp_path, interval=0.0))
    assert torch.equal(second.fit(), whole)
    assert second.steps == EPOCHS * 8 - crash_at  # nothing is done twice
    assert second.regrouped == [epoch for epoch in range(EPOCHS) if epoch * 8 >= crash_at]


@pytest.mark.parametrize("every", [1, 3, 8, 11])
def test_a_renewal_is_done_at_its_steps_and_what_is_new_goes_into_the_next_batch(every):
    stage = Stage(Run(), every=every)
    whole = stage.fit()
    assert stage.regrouped == list(range(8, EPOCHS * 8, every))
    assert not torch.equal(whole, Stage(Run(), every=100).fit())
    for epoch in range(EPOCHS):  # however often documents are regrouped
        assert sorted(chain.from_iterable(stage.seen[epoch * 8 : epoch * 8 + 8])) == list(range(63))


@pytest.mark.parametrize("crash_at", [0, 8, 10, 11, 12, 14, 20, 23])
def test_a_run_that_was_stopped_around_a_renewal_ends_bit_equal(tmp_path, crash_at):
    first = Stage(Run(), every=3)
    whole = first.fit()
    with pytest.raises(Crash):
        Stage(Run(tmp_path, interval=0.0), crash_at=crash_at, every=3).fit()
    second = Stage(Run(tmp_path, interval=0.0), every=3)
    assert torch.equal(second.fit(), whole)
    assert second.seen == first.seen[crash_at:]
    assert second.regrouped == [step for step in (8, 11, 14, 17, 20, 23) if step >= crash_at]


def test_without_a_recent_checkpoint_only_the_time_since_it_is_lost(tmp_path):
    whole = Stage(Run()).fit()
    with pytest.raises(Crash):
        Stage(Run(tmp_path, interval=1e6), crash_at=11).fit()
    second = Stage(Run(tmp_path, interval=1e6))
    assert torch.equal(second.fit(), whole)
    assert second.steps == EPOCHS * 8


def test_a_finished_stage_is_loaded_and_not_trained_again(tmp_path):
    first = Stage(Run(tmp_path)).fit()
    (tmp_path / "stages" / "encoder.checkpoint.safetensors").touch()  # left by a crash just before it was let go
    second = Stage(Run(tmp_path))
    assert torch.equal(second.fit(), first)
    assert second.steps == 0
    assert [path.name for path in (tmp_path / "stages").iterdir()] == ["encoder.safetensors"]


def test_the_log_has_each_epoch_once_after_a_crash(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with pytest.raises(Crash):
        Stage(Run(tmp_path, Log(path), interval=0.0), crash_at=19).fit()
    with path.open("a") as file:
        file.write('{"stage": "encoder", "ep')  # cut off by the crash
    Stage(Run(tmp_path, Log(path), interval=0.0)).fit()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["epoch"], line["step"]) for line in lines] == [(1, 8), (2, 16), (3, 24)]
    assert set(lines[0]["terms"]) == {"softmax"}


def test_the_means_of_an_epoch_survive_a_crash(tmp_path):
    Stage(Run(None, Log(tmp_path / "whole.jsonl"))).fit()
    with pytest.raises(Crash):
        Stage(Run(tmp_path, Log(tmp_path / "metrics.jsonl"), interval=0.0), crash_at=13).fit()
    Stage(Run(tmp_path, Log(tmp_path / "metrics.jsonl"), interval=0.0)).fit()
    terms = [
        [json.loads(line)["terms"] for line in (tmp_path / name).read_text().splitlines()]
        for name in ("whole.jsonl", "metrics.jsonl")
    ]
    assert terms[0] == terms[1]


class Scored(Stage):
    """A stage that ends by itself: its score is planted, and depends on what was trained."""

    def __init__(self, run, *, crash_at=None):
        super().__init__(run, crash_at=crash_at, course=UntilBest(AtMost(9), linear, 4, self.score))
        self.rates, self.start = [], self.encoder.table.weight.detach().clone()

    def objective(self, b):
        self.rates.append(self.optimizer.param_groups[0]["lr"])
        return super().objective(b)

    def score(self):
        """Highest when the vectors have moved this far, which they have after some epochs."""
        moved = float((self.encoder.table.weight.detach() - self.start).norm())
        return -abs(moved - 1.6)


@pytest.mark.parametrize("crash_at", range(1, 48, 6))
def test_a_stage_that_ends_by_itself_ends_bit_equal_wherever_it_was_stopped(tmp_path, crash_at):
    whole = Scored(Run(None, Log(tmp_path / "whole.jsonl")))
    weights, epochs = whole.fit(), whole.course.epochs
    assert 3 <= epochs < 9  # it has ended before it had to
    assert crash_at < 8 * epochs
    with pytest.raises(Crash):
        Scored(Run(tmp_path, Log(tmp_path / "metrics.jsonl"), interval=0.0), crash_at=crash_at).fit()
    second = Scored(Run(tmp_path, Log(tmp_path / "metrics.jsonl"), interval=0.0))
    assert torch.equal(second.fit(), weights)
    assert second.rates == whole.rates[crash_at:]
    said = [
        [(line["epoch"], line["held_out"]) for line in read_log(tmp_path / name)]
        for name in ("whole.jsonl", "metrics.jsonl")
    ]
    assert said[0] == said[1]
    assert len(said[0]) == epochs


def test_a_finished_stage_says_how_many_epochs_it_took(tmp_path):
    """So that what is noted after it is noted under the same step by a run that takes it up."""
    numbers = []
    for _ in range(2):
        log = Log(tmp_path / "metrics.jsonl")
        stage = Scored(Run(tmp_path, log))
        stage.fit()
        log.note(after=1)
        numbers.append([line["step"] for line in read_log(tmp_path / "metrics.jsonl") if "after" in line])
    assert numbers[0] == numbers[1]
    assert stage.steps == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops_before_the_step(value):
    stage = Stage(Run())
    start = stage.encoder.table.weight.detach().clone()
    plain = stage.objective
    stage.objective = lambda b: {**plain(b), "extra": plain(b)["softmax"] * value}
    with pytest.raises(LongtailError, match=r"loss term extra is (nan|inf)"):
        stage.fit()
    assert torch.equal(stage.encoder.table.weight.detach(), start)


def test_training_leaves_the_global_random_state_alone():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    Stage(Run()).fit()
    assert torch.equal(torch.rand(1), expected)


def test_timing_a_step_changes_nothing():
    stage, other = Stage(Run()), Stage(Run())
    assert seconds_a_step(stage.objective, stage.batches, stage.optimizer) > 0
    assert torch.equal(stage.encoder.table.weight, other.encoder.table.weight)
    assert torch.equal(stage.fit(), other.fit())


def test_a_run_that_cannot_fit_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr("longtail.train.plan.free_bytes", lambda device: 1000)
    stage = Stage(Run())
    with pytest.raises(LongtailError, match=r"[MG]iB of memory, and 0 MiB are free; lower batch"):
        Plan(None).stage("x", stage.objective, stage.batches, stage.optimizer, {"encoder": stage.encoder}, epochs=1)


@pytest.mark.parametrize("interval", [-1.0, float("nan"), float("inf")])
def test_an_interval_that_is_none_is_refused(interval):
    with pytest.raises(LongtailError, match=r"^checkpoint_every: expected at least 0, found"):
        Run(None, interval=interval)


def test_a_run_of_before_an_option_was_there_has_its_default(tmp_path):
    settings = {"recipe": "simcse", "arguments": {"epochs": 3}, "hashes": {"targets": "a"}}
    (tmp_path / "run.json").write_text(json.dumps(settings))  # without a schema, as the first runs are
    now = {**settings, "arguments": {"epochs": 3, "new": 1}}
    described(tmp_path, now, {"epochs": 6, "new": 1})
    with pytest.raises(LongtailError, match=r"arguments \{'new': 1\}, asked for now is \{'new': 2\}"):
        described(tmp_path, {**settings, "arguments": {"epochs": 3, "new": 2}}, {"epochs": 6, "new": 1})
    (tmp_path / "run.json").write_text(json.dumps({**settings, "schema": SCHEMA + 1}))
    with pytest.raises(LongtailError, match="use the longtail that wrote it"):
        described(tmp_path, now, {})


def described(folder, settings, defaults=None):
    progress = Progress(folder, Log())
    progress.describe(settings, defaults or {})
    return progress


def test_a_run_folder_of_other_settings_is_refused(tmp_path):
    settings = {"recipe": "dpr", "arguments": {"epochs": 3, "seed": 0}, "hashes": {"targets": "a"}}
    for _ in range(2):
        described(tmp_path / "run", settings).claim()
    with pytest.raises(LongtailError, match=r"arguments \{'epochs': 3\}, asked for now is \{'epochs': 4\}"):
        described(tmp_path / "run", {**settings, "arguments": {"epochs": 4, "seed": 0}})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("precious")
    with pytest.raises(LongtailError, match="not empty"):
        described(tmp_path / "other", settings)


def test_a_folder_is_a_runs_when_its_first_stage_begins(tmp_path):
    settings = {"recipe": "dpr", "arguments": {"loss": "nonsense"}, "hashes": {"targets": "a"}}
    corrected = settings | {"arguments": {"loss": "triplet"}}
    described(tmp_path / "run", settings)
    assert not (tmp_path / "run").exists()
    (tmp_path / "run" / "tokens").mkdir(parents=True)
    (tmp_path / "run" / "cost.json").write_text('{"seconds": 3, "peak_memory": 0, "peak_gpu_memory": 0}')
    first, second = Run(tmp_path / "run"), Run(tmp_path / "run")
    first.progress.describe(corrected, {})
    second.progress.describe(settings, {})
    Stage(first, epochs=1).fit()
    assert settings_of(tmp_path / "run") == {"schema": SCHEMA, "data": None, **corrected}
    assert json.loads((tmp_path / "run" / "cost.json").read_text())["seconds"] >= 3
    with pytest.raises(LongtailError, match="another process has begun a run here"):
        second.progress.claim()


def test_a_clock_that_jumps_changes_nothing(tmp_path, monkeypatch):
    """A day back and a year on, between any two looks at it."""
    day = 86_400.0
    jumps = cycle([-day, 365 * day, 0.0])
    monkeypatch.setattr("time.time", lambda: 1e9 + next(jumps))
    monkeypatch.setattr("time.time_ns", lambda: int(1e18 + 1e9 * next(jumps)))
    written = []
    for where in ("checkpoint", "progress"):
        monkeypatch.setattr(f"longtail.train.{where}.save_state", lambda path, state: written.append(path.name))
    run = Run(tmp_path, Log(tmp_path / "metrics.jsonl"), interval=0.0)
    Stage(run).fit()
    assert len(written) == EPOCHS * 8  # a checkpoint after each step but the last, and the finished stage
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert all(0 <= line["seconds"] < 3600 for line in lines)
