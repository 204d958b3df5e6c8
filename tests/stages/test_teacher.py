"""A teacher: what it says by a naive twin, that a student learns it, how it goes on, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from stopping import stopped_after

import longtail
from longtail.batches.batch import Batch
from longtail.data.dataset import Dataset
from longtail.data.graph import Graph
from longtail.data.sparse import csr_of_lists
from longtail.errors import BadInput
from longtail.model.remembering import remember
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.recipes import depsl, ngame, unidec
from longtail.recipes.distil import student
from longtail.search.memory import Memory
from longtail.stages import teacher as module
from longtail.stages.held_out import hold_out
from longtail.stages.make_ensemble import ensemble
from longtail.testing.planted import planted
from longtail.text.tokens import PaddedTokens
from longtail.topk import FloatArray
from longtail.train.plan import Plan, Planned
from longtail.train.progress import settings_of
from longtail.train.run import Run
from longtail.transforms import augmented

SMALL = {"width": 16, "batch": 64, "warmup": 5, "device": "cpu", "memory": False, "random_negatives": 64, "ends": False}
KNOWN = 600


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Few documents with labels; the teacher knows more."""
    return planted(0, documents=KNOWN, test_documents=200, labels=60).dataset.only_rows(np.arange(100))


@pytest.fixture(scope="module")
def wise(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on more documents with the same labels."""
    whole, out = planted(0, documents=KNOWN, test_documents=200, labels=60).dataset, tmp_path_factory.mktemp("wise")
    assert whole.labels.digest() == data.labels.digest()
    unidec(whole, out=out / "run", epochs=8, validation=0.1, refit=False, **SMALL)
    return out / "run"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The texts that the student has no labels of."""
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    titles = planted(0, documents=KNOWN, test_documents=200, labels=60).dataset.train.documents.fields["title"]
    path.write_text("\n".join(list(titles)[100:]), encoding="utf-8")
    return path


def first(model: longtail.Bundle, data: Dataset) -> float:
    assert data.test is not None
    top = model.rank(data.test.documents, 1, exclude=data.test.filtered).ids
    return float(np.mean([data.test.targets[i, one] > 0 for i, (one,) in enumerate(top)]))


def test_a_student_learns_of_a_teacher_what_its_own_documents_do_not_say(
    data: Dataset, wise: Path, texts: Path
) -> None:
    given = {**SMALL, "epochs": 8, "validation": 0.0}
    alone = first(unidec(data, **given), data)
    taught = first(unidec(data, **given, teacher=str(wise), augment=f"unlabelled:texts={texts}"), data)
    unlabelled = first(unidec(data, **given, augment=f"unlabelled:texts={texts}"), data)
    assert taught > max(alone, unlabelled) + 0.1


def test_terms_are_those_of_a_naive_twin(
    data: Dataset, wise: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The teacher's logits are the scores that it ranks by, of the documents of a batch and the labels of its pool."""
    seen: list[tuple[Batch, torch.Tensor, float]] = []
    made = module.taught

    def watched(run: Run, task: object, o: object) -> object:
        terms = made(run, task, o)  # type: ignore[arg-type]

        def of(b: Batch, **scores: torch.Tensor) -> dict[str, torch.Tensor]:
            found = terms(b, **scores)
            if run.plan is None:
                seen.append((b, scores["encoder"].detach().clone(), float(found["taught encoder"].detach())))
            return found

        return of

    monkeypatch.setattr(import_module("longtail.recipes.depsl"), "taught", watched)
    given = {name: value for name, value in SMALL.items() if name != "memory"}
    depsl(data, **given, epochs=1, teacher=str(wise), teacher_weight=3.0, teacher_temperature=0.2, out=tmp_path / "run")
    model = longtail.load(wise)
    x, z = model.queries(model.encode(data.train.documents), "fused"), model.table("fused")
    b, scores, found = seen[0]
    rows = []
    for i, row in enumerate(b.rows.tolist()):
        pool = [j for j in range(len(b.label_ids)) if b.mask[i, j]]
        p = torch.tensor([float(x[row] @ z[b.label_ids[j]]) for j in pool]).softmax(0)
        q = torch.tensor([float(scores[i, j]) / 0.2 for j in pool]).softmax(0)
        rows.append(float((p * (p / q).log()).sum()))
    assert found == pytest.approx(3 * float(np.mean(rows)), rel=1e-3)


def test_what_goes_with_a_label_is_taught_by_training_documents_and_no_other(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits are the scores of the teacher, if what is trained on says what goes with labels, and none is near."""
    whole = planted(0, documents=KNOWN, test_documents=200, labels=60).dataset
    plain = unidec(whole, **SMALL, validation=0.3, epochs=2, refit=False)
    assert plain.fusion is not None
    weights = np.zeros((len(plain.mixed) + 3, 3))
    weights[:, 0] = [1.0, 2.0, 5.0, 3.0, 0.5]  # of the scores, what is near, what goes with a label, and none
    remembers = remember(plain, whole.train.documents, whole.train.targets, weights)
    assert remembers.related is not None
    rest = hold_out(whole, 0.3, 0)[0]
    task = SimpleNamespace(train=augmented(rest, "unlabelled", seed=0).train, dataset=rest)
    monkeypatch.setattr(module, "sha256", lambda _: "of a card")

    def logits(name: str, memory: Memory) -> FloatArray:
        monkeypatch.setattr(module, "open_model", lambda *_, **__: plain.fused_by(plain.fusion, memory))
        run, place = Run(tmp_path / name, cache=tmp_path / name), tmp_path / "model"
        asked = [module._asked(run, place, task, 0.1) for _ in range(2)]  # type: ignore[arg-type]
        one, kept = (
            of.logits(np.arange(len(task.train)), np.arange(len(whole.labels)), torch.device("cpu")) for of in asked
        )
        assert torch.equal(one, kept)
        return one.numpy()

    def agrees(found: FloatArray, memory: Memory | None) -> bool:
        kind = "fused" if memory is None else "memory"
        top = plain.fused_by(plain.fusion, memory).rank(task.train.documents, 5, kind=kind)
        return np.allclose(np.take_along_axis(found, top.ids, 1), top.scores, rtol=0, atol=1e-4)

    none = np.zeros(0, np.int64)
    trained = remember(plain, rest.train.documents, rest.train.targets, weights)
    related = logits("related", remembers)
    assert agrees(related, trained.of_documents(none))
    assert not agrees(related, remembers.of_documents(none))
    assert not agrees(related, None)
    moved = rest.train.targets.copy()
    moved.indptr[1] -= 1  # the last label of the first document is the second's
    task.dataset = SimpleNamespace(train=replace(rest.train, targets=moved))
    assert not np.allclose(logits("related", remembers), related)
    assert agrees(logits("near", replace(remembers, related=None, weights=np.delete(weights, -2, axis=0))), None)


def test_a_student_that_was_stopped_goes_on_and_has_not_asked_again(
    data: Dataset, wise: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {**SMALL, "epochs": 2, "validation": 0.0, "teacher": str(wise)}
    whole = unidec(data, **given)
    stopped_after(3, lambda: unidec(data, out=Run(tmp_path / "run", interval=0.0), **given))
    kept = [path for path in (tmp_path / "run" / "tokens").iterdir() if path.name.startswith("teacher-")]
    assert len(kept) == 1
    monkeypatch.setattr(module, "save_arrays", lambda *_: pytest.fail("the teacher was asked again"))
    again = unidec(data, out=Run(tmp_path / "run", interval=0.0), **given)
    np.testing.assert_array_equal(again.vectors["classifier"], whole.vectors["classifier"])
    assert not (tmp_path / "run" / "tokens").exists()


def test_distil_takes_an_ensemble_and_holds_out_what_it_held_out(data: Dataset, tmp_path: Path) -> None:
    given = {**SMALL, "epochs": 1, "validation": 0.3, "seed": 2}
    unidec(data, out=tmp_path / "one", refit=True, **given)
    ngame(data, out=tmp_path / "two", classifier_epochs=1, refit=True, **given)
    ensemble(tmp_path / "one", tmp_path / "two", data, out=tmp_path / "both")
    model = longtail.distil(tmp_path / "both", data, out=tmp_path / "student", epochs=1, refit=True, **SMALL)
    settings = settings_of(tmp_path / "student")
    asked = {name: settings["arguments"][name] for name in ("teacher", "validation", "seed", "encoder", "fields")}
    assert settings["arguments"]["augment"] == "unlabelled"
    teacher = str((tmp_path / "both").resolve())
    assert asked == {"teacher": teacher, "validation": 0.3, "seed": 2, "encoder": "bag", "fields": ["title"]}
    assert settings["recipe"] == "unidec"
    assert model.fusion is not None
    with pytest.raises(BadInput, match="into: expected an encoder, or one of depsl, unidec, found renee"):
        longtail.distil(tmp_path / "both", data, into="renee")


@pytest.fixture(scope="module")
def teachers(data: Dataset, tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs: ``words`` of a bag, ``reads`` of a transformer, and ``both``, their ensemble."""
    folder, given = tmp_path_factory.mktemp("teachers"), {**SMALL, "epochs": 1, "validation": 0.3, "refit": False}
    unidec(data, out=folder / "words", **given)
    unidec(data, out=folder / "reads", encoder=str(tiny_bert), max_length=8, **given)
    ensemble(folder / "words", folder / "reads", data, out=folder / "both")
    return folder


def test_words_of_a_bag_start_from_what_the_transformer_of_a_teacher_knows(
    data: Dataset, teachers: Path, tmp_path: Path
) -> None:
    """Of an ensemble's member, too; not where the student says otherwise, or cannot take it."""
    places = {"reads": "encoder", "both": "second/encoder"}
    whose = {name: teachers / name / "model" / place for name, place in places.items()}
    for name, folder in whose.items():
        assert student(teachers / name, "bag", {}).options["knowledge"] == str(folder.resolve())
    assert student(teachers / "words", "bag", {}).options["knowledge"] == "none"
    assert student(teachers / "both", "bag", {"start": "a run"}).options["knowledge"] == "none"
    for into, chosen in (("unidec", {"encoder": "lstm"}), ("convolution", {})):
        assert "knowledge" not in student(teachers / "both", into, chosen).options
    assert student(teachers / "both", "bag", {"knowledge": "none"}).options["knowledge"] == "none"
    longtail.distil(teachers / "both", data, out=tmp_path / "student", epochs=0, refit=False, **SMALL)
    assert settings_of(tmp_path / "student")["arguments"]["knowledge"] == str(whose["both"].resolve())


def test_a_bag_takes_what_gains_and_makes_it_no_larger(data: Dataset, teachers: Path, tmp_path: Path) -> None:
    """All graphs, but no further runs; another preset is left as it is, and so is an encoder that is no bag."""
    edges = (csr_of_lists([[i % 2] for i in range(n)], 2) for n in (len(data.train), len(data.labels)))
    linked = replace(data, graphs={"links": Graph(data.labels.fields["title"].take(np.arange(2)), *edges)})
    model = longtail.distil(teachers / "words", linked, out=tmp_path / "student", epochs=1, **SMALL)
    arguments = settings_of(tmp_path / "student")["arguments"]
    chosen = {"preset": "best", "refit": True, "refits": 1, "graphs": ["all"], "knowledge": "none"}
    assert {name: arguments[name] for name in chosen} == chosen
    assert model.encoder.width == 2 * SMALL["width"]
    for into, given in (("bag", {"preset": "paper"}), ("unidec", {"encoder": "lstm"}), ("depsl", {})):
        assert "refits" not in student(teachers / "words", into, given).options


def test_a_transformer_that_teaches_twice_reads_each_text_once(
    data: Dataset, teachers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the training documents and of labels, whether it is asked before documents are held out or after."""
    given = {**SMALL, "epochs": 1, "refit": True}
    plain = longtail.distil(teachers / "both", data, **given)
    read: list[tuple[int, ...]] = []
    new = TransformerEncoder._new

    def watched(self: TransformerEncoder, text: PaddedTokens) -> torch.Tensor:
        if self.given is not None:
            read.extend(tuple(ids[mask].tolist()) for ids, mask in zip(text.ids, text.mask, strict=True))
        return new(self, text)

    monkeypatch.setattr(TransformerEncoder, "_new", watched)
    once = longtail.distil(teachers / "both", data, out=tmp_path / "once", **given)
    table = longtail.load(teachers / "reads").encoder.tokenizer(list(data.train.documents.fields["title"]))
    rows = np.split(table.ids, table.offsets[1:-1])
    assert {tuple(row.tolist()) for row in rows} <= set(read)
    assert len(read) == len(set(read))
    np.testing.assert_array_equal(once.vectors["encoder"], plain.vectors["encoder"])


def test_a_plan_counts_a_text_that_a_transformer_is_asked_about_once(
    data: Dataset, teachers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "timed", lambda *_: float(len(data.train) - 30 + len(data.labels)))  # a second a text
    seen: list[Plan] = []
    monkeypatch.setattr(Plan, "table", lambda self: seen.append(self) or "")
    with pytest.raises(Planned):
        longtail.distil(teachers / "both", data, epochs=1, refit=True, out=Run(tmp_path / "dry", dry=True), **SMALL)
    (plan,) = seen
    work = plan.work["asking the teacher"]
    texts = {*data.train.documents.fields["title"], *data.labels.fields["title"]}
    assert (work.times, round(work.seconds)) == (2, len(texts))


def test_what_is_no_teacher_is_refused(data: Dataset, wise: Path, tmp_path: Path) -> None:
    def refused(problem: str, **given: object) -> None:
        with pytest.raises(BadInput, match=problem):
            unidec(data, **{**SMALL, "epochs": 1, "teacher": str(wise), **given})

    refused("expected the card of a trained model, found no such file", teacher=str(tmp_path))
    other = Dataset.from_texts(["a"] * 30, [[0]] * 30, ["a label"] * 61)
    with pytest.raises(BadInput, match="expected a run of the 61 labels of"):
        unidec(other, **SMALL, epochs=1, teacher=str(wise))
    seen = tmp_path / "seen"
    depsl(data, out=seen, epochs=1, width=8, device="cpu")
    refused("expected a run that has not seen the held-out documents", teacher=str(seen), validation=0.3)
    unidec(data, out=tmp_path / "held", **SMALL, epochs=1, validation=0.3, refit=False)
    refused("expected a run that held out the same documents", teacher=str(tmp_path / "held"), validation=0.2)
    with pytest.raises(BadInput, match="nowhere"):
        unidec(data, **SMALL, augment=f"unlabelled:texts={tmp_path / 'nowhere'}")


def test_rows_without_labels_are_the_texts_of_labels_and_the_lines_of_a_file(data: Dataset, texts: Path) -> None:
    titles = [*data.train.documents.fields["title"], *data.labels.fields["title"], *texts.read_text().splitlines()]
    found = augmented(data, f"unlabelled:texts={texts}", seed=0).train
    assert list(found.documents.fields["title"]) == titles
    assert found.targets[len(data.train) :].nnz == 0
    assert found.filtered is not None
    itself = np.equal.outer(titles, list(data.labels.fields["title"]))  # a label that a row is says nothing of it
    itself[: len(data.train)] = False
    np.testing.assert_array_equal(found.filtered.toarray() > 0, itself)
    assert itself.sum() >= len(data.labels)
    some = augmented(data, "unlabelled:most=7", seed=0).train
    assert len(some) == len(data.train) + 7
    assert set(list(some.documents.fields["title"])[-7:]) <= set(data.labels.fields["title"])


def test_whoever_takes_a_transformer_alone_is_told_what_would_teach_a_bag_more(teachers: Path) -> None:
    """Not of a teacher that has a bag, nor for a student that reads by something else."""
    for into, chosen in (("bag", {}), ("unidec", {}), ("bag", {"start": "a run"})):
        advice = student(teachers / "reads", into, chosen).advice
        assert advice is not None
        assert str(teachers / "reads") in advice
    told = [
        ("words", "bag", {}),
        ("both", "bag", {}),
        ("reads", "convolution", {}),
        ("reads", "unidec", {"encoder": "lstm"}),
    ]
    assert [student(teachers / name, into, chosen).advice for name, into, chosen in told] == [None] * 4
