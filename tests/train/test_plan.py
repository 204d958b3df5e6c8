"""What a run will cost and leave out, before it starts."""

from __future__ import annotations

import io
import json
import shutil
import time

import numpy as np
import pytest
import torch
from rich.console import Console
from tiny_bert import write_tiny_transformer

from longtail import recipes
from longtail.data.dataset import Dataset
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.errors import LongtailError
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.modules.heads import TwoHeads
from longtail.testing.planted import planted
from longtail.train import plan as module
from longtail.train.activations import activation_bytes
from longtail.train.log import Log
from longtail.train.run import Run
from longtail.units import duration

GENERATOR = torch.Generator()
TARGETS = [[0], [], [0, 1], [1]]


@pytest.mark.parametrize(
    ("filtered", "count"),
    [(None, 1), ([[], [], [], []], 1), ([[1], [0], [0], []], 1), ([[0], [], [0, 1], []], 3)],
    ids=["no filter", "an empty filter", "some pairs", "all labels of two documents"],
)
def test_documents_without_a_label_in_sight_are_counted(filtered, count):
    matrix = None if filtered is None else csr_of_lists(filtered, 2)
    split = Split(Texts.of(["a", "b", "c", "d"]), csr_of_lists(TARGETS, 2), matrix)
    assert module._unlabelled(split) == count


def test_the_plan_says_so_and_stands_in_the_log(tmp_path):
    data = Dataset.from_texts(documents=["red", "blue", "green", "grey"], targets=TARGETS, labels=["warm", "cold"])
    told = io.StringIO()
    run = Run(tmp_path, Log(tmp_path / "metrics.jsonl", Console(file=told, width=120)))
    recipes.depsl(data, out=run, epochs=1, width=4, hard_negatives=0)
    assert "4, 1 without a label" in told.getvalue()
    plans = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [stage["unlabelled"] for line in plans if "plan" in line for stage in line["plan"]["stages"]] == [1]


def test_the_plan_leaves_running_means_as_they_were(monkeypatch):
    """Trial steps change nothing, whatever an encoder keeps besides its parameters."""
    states, plain = [], module.Plan.stage

    def measure(self, stage, objective, batches, optimizer, modules, **options):
        before = [{name: value.clone() for name, value in part.state_dict().items()} for part in modules.values()]
        plain(self, stage, objective, batches, optimizer, modules, **options)
        states.append((before, [part.state_dict() for part in modules.values()]))

    monkeypatch.setattr(module.Plan, "stage", measure)
    data = Dataset.from_texts(documents=["red", "blue", "red", "blue"], targets=[[0], [1]] * 2, labels=["warm", "cold"])
    recipes.dpr(data, encoder="convolution", epochs=0, width=8)
    ((before, after),) = states
    assert "mixed.running_mean" in before[0]
    for one, other in zip(before, after, strict=True):
        assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("what", ["memory", "disk"])
def test_what_there_is_no_room_for_is_refused_before_a_run_is_begun(tmp_path, monkeypatch, what):
    """A run's folder is not there yet when its disk is asked for room."""
    usage = shutil.disk_usage
    if what == "disk":
        monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(place)._replace(free=1000))
    else:
        monkeypatch.setattr(module, "free_bytes", lambda device: 1000)
    data = Dataset.from_texts(["red", "blue"] * 4, [[0], [1]] * 4, ["warm", "cold"])
    with pytest.raises(LongtailError, match=rf"the run needs about .* of {what}, and 0 MiB are free; lower"):
        recipes.depsl(data, out=tmp_path / "new" / "run", epochs=1, width=16, hard_negatives=0)
    assert {path.name for path in tmp_path.glob("new/run/*")} <= {"tokens"}
    assert {path.name for path in tmp_path.glob("new/run/**/*.json*")} <= {"checksums.json"}


def kept_by(encoder, tokens):
    """The bytes of all tensors that a pass keeps for its gradients, once each, without parameters."""
    own, kept = {parameter.untyped_storage().data_ptr() for parameter in encoder.parameters()}, {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        vectors = encoder.train()(tokens)
    assert vectors.requires_grad
    return sum(size for place, size in kept.items() if place not in own)


@pytest.fixture(scope="session", params=["Bert", "ModernBert", "Llama"])
def folder(request, tmp_path_factory):
    made = tmp_path_factory.mktemp(request.param)
    write_tiny_transformer(made, request.param)
    return made


@pytest.mark.parametrize("adapted", [False, True], ids=["all trained", "adapters"])
def test_what_a_transformer_keeps_for_its_backward_pass_is_counted(folder, adapted):
    """What texts of several lengths keep is foreseen, whatever the layers are."""
    encoder = TransformerEncoder(folder)
    if adapted:
        pytest.importorskip("peft", reason="needs the extra lora")
        encoder.adapt(4, seed=0)
    texts = ["red", "blue red", "red red red blue", "red blue " * 6] * 16
    tokens = encoder.tokenizer.batch(encoder.tokenizer(texts), np.arange(len(texts)))
    parts, state = [encoder, encoder.backbone, encoder.windows], torch.get_rng_state()
    encoder.windows.eval()
    modes = [part.training for part in parts]
    estimate = activation_bytes(encoder, tokens)
    assert [part.training for part in parts] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in encoder.parameters())
    assert estimate == pytest.approx(kept_by(encoder, tokens), rel=0.1)
    assert activation_bytes(TwoHeads(encoder, generator=GENERATOR), tokens) == estimate
    assert activation_bytes(torch.nn.Linear(2, 2), tokens) == 0
    encoder.hold("bfloat16")
    assert activation_bytes(encoder, tokens) < 0.75 * estimate


def test_what_is_computed_again_or_held_in_parts_is_not_counted_whole(tiny_bert):
    """Two layers, 32 wide, whose inputs are held, and one layer at a time; two texts of three; windows as texts."""
    encoder = TransformerEncoder(tiny_bert, max_length=4, windows=3)
    texts = ["red red red red", "blue red blue red", "red blue red blue"]
    tokens = encoder.tokenizer.batch(encoder.tokenizer(texts), np.arange(3))
    read = tokens.windows(4)[0].mask
    tall = activation_bytes(encoder, tokens)
    encoder.recompute()
    assert activation_bytes(encoder, tokens) == pytest.approx(tall / 2 + 4 * 2 * 32 * read.numel(), abs=2)
    assert all(part.gradient_checkpointing for part in encoder.modules() if hasattr(part, "gradient_checkpointing"))
    one = TransformerEncoder(tiny_bert, max_length=4, windows=3)
    one.texts_at_once = 2
    assert activation_bytes(one, tokens) == pytest.approx(tall * 2 / len(read) + 2 * 4 * 32 * read.numel(), abs=2)


def test_adapters_have_gradients_and_moments_and_frozen_weights_have_none(tiny_bert, plans):
    data = Dataset.from_texts(["red", "blue"] * 20, [[0], [1]] * 20, ["warm", "cold"])
    for lora in (0, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "resident_bytes", lambda: 0)
            recipes.depsl(data, encoder=str(tiny_bert), max_length=8, lora=lora, epochs=0, hard_negatives=0)
    whole, adapted = (plan.memory for plan in plans)
    assert adapted < whole - 10_000 * 4


def test_the_plan_of_a_transformer_knows_what_a_larger_batch_costs(tiny_bert):
    data = Dataset.from_texts(["red", "blue", "red shoes", "blue"] * 64, [[0], [1], [0], [1]] * 64, ["warm", "cold"])
    told = []
    for batch in (64, 256):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "resident_bytes", lambda: 0)
            patch.setattr(module.Plan, "table", lambda plan: told.append(plan) or "")
            recipes.depsl(data, encoder=str(tiny_bert), max_length=16, epochs=0, batch=batch, hard_negatives=0)
    widths = (told[1].memory - told[0].memory) / (192 * 3 * 2 * 4 * 32)  # a layer and a token; texts have 3 tokens or 4
    assert 16 < widths < 24


@pytest.fixture
def plans(monkeypatch):
    """The plans that are shown."""
    told = []
    monkeypatch.setattr(module.Plan, "table", lambda plan: told.append(plan) or "")
    return told


def dry(recipe, **options):
    data = planted(0, documents=300, labels=60).dataset
    with pytest.raises(module.Planned):
        recipes.RECIPES[recipe](data, out=Run(None, dry=True), batch=64, width=8, device="cpu", **options)


def test_a_dry_run_counts_what_happens_between_epochs_and_after_them(plans):
    dry("unidec", epochs=6, refit=False)
    (plan,) = plans
    assert [(stage.stage, stage.epochs) for stage in plan.stages] == [("joint", 6)]
    times = {name: work.times for name, work in plan.work.items()}
    asked = {"fusion": 1, "asking documents": 1}
    assert times == {"encoding texts": 6, "clusters of documents": 2, "hard negatives": 2, **asked}
    assert plan.held == 2 * 4 * plan.stages[0].rows * 8  # keys of 8 numbers, of one of the two views, and a copy
    assert plan.seconds > 6 * plan.stages[0].seconds
    assert all(work.seconds > 0 for work in plan.work.values())


def test_the_table_has_time_and_memory_of_each_stage_and_what_work_between_epochs_holds(plans):
    dry("unidec", epochs=6, refit=False)
    (plan,) = plans
    plan.add("hard negatives", 0.0, held=3 * 2**20)
    (stage,), lines = plan.stages, dict(plan._lines())
    size = f"{stage.memory / 2**20:,.0f} MiB" if stage.memory < 2**30 else f"{stage.memory / 2**30:,.1f} GiB"
    assert lines["stage joint"].startswith(f"6 epochs of {duration(stage.seconds)}, about {size}; an epoch: ")
    assert lines["hard negatives"] == f"3 times, {duration(plan.work['hard negatives'].seconds)}, holds 3 MiB"
    assert "holds" not in lines["encoding texts"]
    assert plan.as_json()["work"]["hard negatives"]["held"] == plan.held == 3 * 2**20


def test_several_runs_on_all_documents_are_planned_as_so_many_of_one(plans):
    dry("unidec", epochs=6, refit=True)
    dry("unidec", epochs=6, refit=True, refits=3)
    one, three = plans
    assert [(stage.stage, stage.times) for stage in one.stages] == [("joint", 1), ("refit joint", 1)]
    assert [(stage.stage, stage.times) for stage in three.stages] == [("joint", 1), ("refit joint", 3)]
    assert dict(three._lines())["stage refit joint"].startswith("3 times, 6 epochs of ")
    assert three.disk - one.disk == 2 * 4 * three.stages[1].parameters
    assert three.seconds > 2 * 6 * three.stages[1].seconds + 6 * three.stages[0].seconds
    times = {name: (work.times, three.work[name].times) for name, work in one.work.items()}
    assert times == {
        "encoding texts": (11, 21),  # once more by the first, for the memory that it tries
        "clusters of documents": (4, 8),
        "hard negatives": (4, 8),
        "fusion": (1, 1),
        "asking documents": (1, 1),
    }


@pytest.fixture
def stage(plans):
    dry("unidec", epochs=6, refit=False)
    return plans.pop().stages[0]


def test_what_is_made_of_several_runs_is_as_large_again_as_they_are(stage):
    for together, more in ((False, 2), (True, 5)):
        plan = module.Plan(None)
        with plan.repeated(3, at_once=1, together=together):
            plan.stages.append(stage)
        assert plan.memory == stage.memory + 4 * more * stage.parameters


@pytest.mark.parametrize(
    ("times", "at_once", "rounds"), [(1, 1, 2), (3, 1, 4), (1, 2, 1), (3, 2, 2), (2, 2, 2), (3, 4, 1)]
)
def test_runs_at_once_take_the_time_of_their_rounds_and_the_disk_of_all(stage, times, at_once, rounds):
    """A first run and some further ones that are like it: so many rounds of as many at once."""
    plan = module.Plan(None)
    plan.stages.append(stage)
    plan.add("fusion", 7.0)
    with plan.repeated(times, at_once=at_once, together=True):
        plan.stages.append(stage)
        plan.add("fusion", 7.0)
    assert plan.seconds == pytest.approx(rounds * (6 * stage.seconds + 7))
    assert plan.disk == (1 + times + 3) * 4 * stage.parameters
    assert plan.work["fusion"].times == 1 + times
    said = dict(plan._lines())
    assert said.get("at once", "").startswith(f"{at_once} runs, each in a process") == (at_once > 1)


def test_what_is_measured_serves_other_plans_of_as_many_threads(monkeypatch):
    measured, times = {}, iter((1.0, 2.0, 3.0))
    asked = [module.Plan(None, measured).once("step", lambda: next(times)) for _ in range(2)]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 17)
    assert [*asked, module.Plan(None, measured).once("step", lambda: next(times))] == [1.0, 1.0, 2.0]


def test_a_dry_run_counts_renewals_within_an_epoch(plans):
    dry("unidec", epochs=6, refit=False, refresh_steps=3)
    dry("ance", epochs=4, refresh_steps=2, mine_from=1)
    unidec, ance = plans
    assert [plan.stages[0].steps for plan in plans] == [4, 5]
    assert unidec.work["hard negatives"].times == unidec.work["clusters of documents"].times == 6  # of 16 steps
    assert ance.work["hard negatives"].times == 8  # of 15 steps


def test_a_dry_run_counts_later_stages_and_linkers(plans):
    dry("oak", epochs=3, linker="ngame", linker_epochs=2, classifier_epochs=1, train_links="out-of-fold", folds=2)
    (plan,) = plans
    stages = {stage.stage: stage.epochs for stage in plan.stages}
    for linker in ("linker", "linker-without-1-of-2", "linker-without-2-of-2"):
        assert (stages.pop(f"{linker} encoder"), stages.pop(f"{linker} classifiers")) == (2, 6)
    assert stages == {"encoder": 3, "classifiers": 1, "plain-classifier": 1}
    assert plan.work["links"].times == 2  # both folds; nothing is held out, so no memory is tried


def test_a_step_over_very_many_labels_is_reckoned_and_not_taken(plans, monkeypatch):
    monkeypatch.setattr(module, "LARGE", 0)
    monkeypatch.setattr("longtail.train.fit.take_step", lambda *_, **__: pytest.fail("a step was taken"))
    dry("dexml", epochs=2)
    (plan,) = plans
    assert plan.stages[0].seconds > 0
    assert plan.stages[0].pool == 60


def test_a_run_is_what_it_is_without_its_plan(tmp_path, monkeypatch):
    """What is planned leaves nothing behind: with and without a plan, the numbers are the same."""
    data = planted(0, documents=300, labels=60).dataset
    options = {"epochs": 3, "batch": 64, "width": 8, "refresh_from": 1, "device": "cpu"}
    with_plan = recipes.unidec(data, **options)
    run = Run()
    run.planned = True
    without = recipes.unidec(data, out=run, **options)
    for kind, vectors in with_plan.vectors.items():
        np.testing.assert_array_equal(vectors, without.vectors[kind])


def test_on_a_gpu_the_first_time_is_not_what_is_measured():
    """It loads kernels: by it, a plan on an H200 said 4.2 minutes for texts that are encoded in seconds."""
    spent = iter([0.2, 0.0, 0.2])
    for device, most in (("cuda", 0.1), ("cpu", 1.0)):
        seconds = module.timed(lambda: time.sleep(next(spent)), torch.device(device))
        assert seconds < most
    assert seconds >= 0.2
    assert not list(spent)


def test_a_search_by_8_bits_is_measured_as_one_and_apart_from_exact_ones(monkeypatch):
    made = {"search": module.Exact.search, "nearly": module.Exact.nearly}
    searched = []
    for name, search in made.items():
        monkeypatch.setattr(module.Exact, name, lambda *of, n=name, s=search: (searched.append(n), s(*of))[1])
    plan = module.Plan(None)
    for nearly, names in ((False, {"search"}), (True, {"nearly"}), (True, set())):  # it was measured before
        searched.clear()
        assert plan.seconds_of_search(600, 20_000, 128, torch.device("cpu"), nearly=nearly) > 0
        assert set(searched) == names
