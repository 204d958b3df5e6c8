"""Plans on paper: what recipes have, what does not fit, and how all of it grows."""

from __future__ import annotations

import json

import pytest

from longtail.errors import BadInput
from longtail.on_paper.plan import largest_batch, on_paper
from longtail.on_paper.rows import ROWS, read_by
from longtail.on_paper.work import machines

SIZE = {"documents": 1e6, "labels": 1e5, "words": 4, "labels_of": 3}
SETTINGS = {  # of each option another value than its default
    "encoder": "minilm",
    "width": 128,
    "max_length": 2,
    "projection": 64,
    "batch": 700,
    "random_negatives": 9,
    "positives": 2,
    "hard_negatives": 7,
    "label_pool": 99,
    "epochs": 7,
    "start_epochs": 5,
    "classifier_epochs": 9,
    "refresh_from": 1,
    "refresh_every": 1,
    "refresh_steps": 100,
    "cluster_from": 1,
    "cluster_every": 2,
    "cluster_size": 32,
    "mine_from": 1,
    "mine_every": 2,
    "mine_length": 5,
    "validation": 0.001,
    "memory": False,
    "refit": True,
    "refits": 3,
    "momentum": 0.9,
    "bfloat16": True,
    "texts_at_once": 64,
    "recompute": True,
    "labels_at_once": 10,
}
every_recipe = pytest.mark.parametrize("recipe", ROWS)


def total(plan) -> float:
    return max(sum(plan.peak(moment)) for moment in plan.memory)


@every_recipe
def test_more_of_anything_takes_longer_and_more_memory(recipe: str) -> None:
    base = on_paper(recipe, {}, **SIZE)
    assert 0 < base.seconds < 1e9
    for name in ("documents", "labels", "words"):
        more = on_paper(recipe, {}, **SIZE | {name: 3 * SIZE[name]})
        assert more.seconds > base.seconds, name
        assert total(more) >= total(base), name
    wide = on_paper(recipe, {"width": 512}, **SIZE)
    assert wide.seconds > base.seconds
    assert total(wide) > total(base)
    assert on_paper(recipe, {"epochs": 12}, **SIZE).seconds > base.seconds


@every_recipe
def test_more_processes_take_less_time_and_memory_and_send_more(recipe: str) -> None:
    one, four, eight = (on_paper(recipe, {}, **SIZE, world=world, device="h100") for world in (1, 4, 8))
    for stage in one.steps:
        sent = [sum(part.sent for part in plan.steps[stage].values()) for plan in (one, four, eight)]
        assert sent[0] == 0 < sent[1] < sent[2]
        step = f"a step of {stage}"
        assert one.peak(step).device > four.peak(step).device > eight.peak(step).device
        between = f"between epochs of {stage}"
        tables = [plan.memory[between]["tables, whole"].device for plan in (four, eight)]
        assert tables[0] > tables[1] >= one.memory[between]["tables, whole"].device  # whole, in each


@every_recipe
def test_options_are_those_of_the_recipe(recipe: str) -> None:
    for other in ("banana", "loss"):
        with pytest.raises(BadInput, match=f"{other}: a plan of {recipe} on paper does not depend on it; leave it out"):
            on_paper(recipe, {other: 1}, **SIZE)
    for name in read_by(recipe):
        fixed = {"encoder": "minilm"} if name in {"max_length", "labels_at_once", "texts_at_once", "recompute"} else {}
        fixed |= {"refit": True} if name == "refits" else {}
        plans = [on_paper(recipe, fixed | more, **SIZE, world=2).as_json() for more in ({}, {name: SETTINGS[name]})]
        assert plans[0] != plans[1], name
    assert on_paper(recipe, {}, **SIZE).epochs >= 6


def test_a_stage_of_no_epochs_is_left_out() -> None:
    encoder, both = (on_paper("ngame", {"classifier_epochs": epochs}, **SIZE) for epochs in (0, 6))
    assert "classifiers" in both.run
    assert {*encoder.steps} == {"encoder"}
    assert encoder.run["fusion"].seconds < both.run["fusion"].seconds  # of one score, and of two
    assert "fusion" not in on_paper("ngame", {"validation": 0.0}, **SIZE).run
    with pytest.raises(BadInput, match="epochs: expected at least 1 on paper, found 0"):
        on_paper("dpr", {"epochs": 0}, **SIZE)


def test_projections_make_label_vectors_narrow_and_not_tables_of_features() -> None:
    wide, narrow = (on_paper("unidec", {"projection": width}, **SIZE) for width in (0, 32))
    table = on_paper("depsl", {}, **SIZE).memory["a step of encoder"]["tables"].device
    assert wide.memory["a step of joint"]["tables"].device == pytest.approx(2 * table + 4 * 1e5 * 257)
    assert narrow.memory["a step of joint"]["tables"].device == pytest.approx(table + 4 * 1e5 * 33)
    assert narrow.memory["a step of joint"]["dense parameters"].device == 16 * 2 * 256 * 32


def test_classifiers_on_a_frozen_encoder_have_the_vectors_of_all_texts_beside_them() -> None:
    plan = on_paper("ngame", {}, **SIZE)
    for moment in ("a step of classifiers", "between epochs of classifiers"):
        assert sum(plan.memory[moment]["vectors"]) == 4 * 256 * (SIZE["documents"] - 5000 + SIZE["labels"])
    assert sum(plan.memory["a step of encoder"]["vectors"]) == 0


def test_tables_and_moments_by_hand() -> None:
    plan = on_paper("unidec", {"width": 100}, documents=1e9, labels=1e6, words=6, labels_of=5, world=8, device="h100")
    step = plan.memory["a step of joint"]
    numbers = 2 * 400_000 * 100 + 1_000_000 * 101  # both tables of features, and classifiers with a bias
    assert step["tables"].device == pytest.approx(4 * numbers / 8)
    assert step["moments"].device == pytest.approx(2 * 4 * numbers / 8)
    between = plan.memory["between epochs of joint"]
    assert between["tables, whole"].device == pytest.approx(4 * numbers * (1 + 1 / 8))
    assert between["vectors"].host == pytest.approx(4 * 100 * (1e9 - 5000 + 1e6))


def test_renee_keeps_no_moments_of_its_classifiers_and_two_bytes_if_asked() -> None:
    plans = [on_paper("renee", given, **SIZE) for given in ({}, {"bfloat16": True}, {"momentum": 0.9})]
    tables = [plan.memory["a step of joint"]["tables"].device for plan in plans]
    moments = [plan.memory["a step of joint"]["moments"].device for plan in plans]
    assert tables[0] - tables[1] == pytest.approx(2 * 1e5 * 257)
    assert moments[0] == moments[1] == pytest.approx(moments[2] - 4 * 1e5 * 257)


def test_work_between_epochs_is_as_often_as_it_is_due() -> None:
    plan = on_paper("unidec", {"epochs": 9, "refresh_from": 3, "refresh_every": 2}, **SIZE)
    assert plan.run["hard negatives"].times == plan.run["clusters of documents"].times == 3  # before 3, 5 and 7
    assert "hard negatives" not in on_paper("ngame", {}, **SIZE).run
    assert "hard negatives" not in on_paper("unidec", {"epochs": 2}, **SIZE).run
    assert on_paper("ance", {}, **SIZE).run["hard negatives"].times == 4
    within = on_paper("ance", {"refresh_steps": 500, "batch": 1000}, **SIZE | {"documents": 1e6})
    assert within.run["hard negatives"].times == 8  # twice in each of 4 epochs of 1,000 steps


def test_few_documents_have_their_own_defaults_and_a_second_run() -> None:
    few, many = (on_paper("unidec", {}, **SIZE | {"documents": documents}) for documents in (5000, 20_000))
    most = on_paper("unidec", {}, **SIZE | {"documents": 200_000})
    assert few.epochs == 2 * many.epochs
    assert few.run["joint"].times == many.run["joint"].times == 2
    assert most.run["joint"].times == 1


def test_what_does_not_fit_is_said_in_a_line_with_what_helps() -> None:
    size = {"documents": 5e8, "labels": 1e8, "words": 6, "labels_of": 5, "device": "h200"}
    lines = [*on_paper("unidec", {}, **size, world=64).refusals()]
    assert len(lines) == 4
    assert all(line.startswith("does not fit: ") and "\n" not in line for line in lines)
    whole = next(line for line in lines if "tables, whole" in line)
    assert whole.startswith("does not fit: between epochs of joint takes ")
    assert "more processes do not help" in whole
    assert not [*on_paper("unidec", {"width": 8}, **size | {"labels": 1e6, "documents": 1e6}, world=64).refusals()]
    assert [*on_paper("depsl", {}, **SIZE, device_memory=1e9).refusals()]
    assert not [*on_paper("depsl", {}, **SIZE, device_memory=1e11).refusals()]


@pytest.mark.parametrize(
    ("recipe", "given", "more", "said"),
    [
        ("astec", {}, {}, "there is no plan on paper for astec; there is for unidec, depsl"),
        ("unidec", {}, {"device": "abacus"}, "there is no plan on paper for abacus; there is for cpu"),
        ("unidec", {"encoder": "bert"}, {}, "there is no plan on paper for bert; there is for bag, minilm"),
    ],
)
def test_there_is_no_plan_for_what_is_not_known(recipe, given, more, said) -> None:
    with pytest.raises(BadInput, match=said):
        on_paper(recipe, given, **SIZE, **more)


def test_constants_are_replaced_by_a_file(tmp_path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"cpu": {"products": 5.8e9}, "mine": _numbers(price=3)}))
    slower = on_paper("depsl", {}, **SIZE, constants=path)
    assert slower.seconds > on_paper("depsl", {}, **SIZE).seconds
    mine = on_paper("depsl", {}, **SIZE, constants=path, device="mine", world=2)
    assert mine.as_json()["price"] == pytest.approx(3 * mine.hours)
    assert mine.as_json()["seconds"] == mine.seconds


def _numbers(**other) -> dict[str, float]:
    cpu = machines()["cpu"]
    return {**cpu.rates, "memory": cpu.memory} | other


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"cpu": {"products": 0}}, "a number above 0 for products of cpu, found 0"),
        ({"cpu": {"products": True}}, "a number above 0 for products of cpu, found True"),
        ({"cpu": {"speed": 1}}, "cpu has no number called speed"),
        ({"mine": {"products": 1}}, "a number above 0 for transformer of mine, found None"),
        ({"cpu": 3}, "expected an object for cpu, found 3"),
    ],
)
def test_constants_that_are_none_are_refused(said, expected, tmp_path) -> None:
    (path := tmp_path / "mine.json").write_text(json.dumps(said))
    with pytest.raises(BadInput, match=expected):
        machines(path)


def test_each_machine_says_where_its_numbers_are_from() -> None:
    assert all({"rates", "sent"} <= {*machine.sources} for machine in machines().values())


@pytest.mark.parametrize("more", [{}, {"recompute": True}, {"texts_at_once": 8}])
def test_the_largest_batch_is_the_last_that_is_not_refused(more: dict[str, object]) -> None:
    given = {"encoder": "mpnet", "max_length": 128, "validation": 0.0} | more
    sizes = SIZE | {"words": 100, "device": "v100"}
    largest = largest_batch("ngame", given, **sizes)

    def refused(batch: int) -> bool:
        lines = on_paper("ngame", {**given, "batch": batch}, **sizes).refusals()
        return any("a step of encoder" in line for line in lines)

    assert 1 < largest < 2**20
    assert not refused(largest)
    assert refused(largest + 1)
    if more:
        assert largest > 2 * largest_batch("ngame", {name: given[name] for name in given.keys() - more}, **sizes)
