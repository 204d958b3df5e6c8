"""A cross-encoder over a finished run: trained on what the run takes for right, and weighed on what it held out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader
from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.data.filters import same_texts, unfiltered, union
from longtail.data.holdout import rows_at_random, without_orphaned_labels
from longtail.data.sparse import CSR, holds
from longtail.data.split import Split
from longtail.data.texts import Strings
from longtail.errors import BadInput
from longtail.losses.softmax import info_nce
from longtail.metrics.propensity import label_frequency
from longtail.model import Model, Reranker, open_model
from longtail.model.calibration import learn_calibration
from longtail.model.linear import Linear
from longtail.model.remembering import remember, titles_of
from longtail.model.reranker import KIND
from longtail.model.reranking import FIELD
from longtail.model.thresholds import DEPTH
from longtail.modules.cross_encoder import CrossEncoder, logits_of
from longtail.modules.encoders.named import encoder_named
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.options import BELOW_ONE, COUNT, NATURAL, POSITIVE, option
from longtail.search.fusion import Candidates
from longtail.search.weighing import learn_one_more
from longtail.stages.finished import arguments_of
from longtail.stages.held_out import PreferenceOptions, hold_out, tell, worth_of
from longtail.stages.pace import PaceOptions
from longtail.stages.recipe import recipe
from longtail.stages.refit import before_refit, keep_before_refit, place_before_refit
from longtail.text.pairs import PairTokens
from longtail.text.ragged import Ragged
from longtail.text.tokens import token_table
from longtail.topk import IntArray
from longtail.train.activations import bytes_a_token
from longtail.train.optimizer import adamw
from longtail.train.plan import SAMPLE, timed
from longtail.train.run import Run

_STAGE = "cross-encoder"
_AS_FOUND = np.outer([1.0, 0, 0], [1.0, 0, 0])  # weights that leave the order as it is
_RATE = 1e-4
_BLOCK = 8_192  # documents whose labels are looked for at a time
_MEASURED = 256  # pairs that a plan measures with


@dataclass(frozen=True, kw_only=True)
class RerankOptions(PreferenceOptions, PaceOptions):
    """The cross-encoder."""

    first_stage: str | None = option(None, "the folder of a finished run, of any recipe or an ensemble")
    encoder: str = option(
        "minilm",
        "a cross-encoder of Hugging Face or sentence-transformers, by name or folder, or any other transformer, which "
        "gets a new head",
    )
    candidates: int = option(32, "labels that the run ranks first, which are ranked anew", within=COUNT)
    epochs: int = option(1, "passes over the training documents; 0 takes a cross-encoder as it is", within=NATURAL)
    documents: int | None = option(
        None, "training documents, drawn at random, that an epoch has; all if left out", within=COUNT
    )
    negatives: int = option(7, "wrong candidates that a document meets in a step, beside a true label", within=COUNT)
    batch: int = option(16, "documents of a batch", within=COUNT)
    max_length: int | None = option(
        None, "tokens of a document and a label together; 64 at most if left out", within=COUNT
    )
    learning_rate: float | None = option(None, f"of the cross-encoder; {_RATE:g} if left out", within=POSITIVE)
    warmup: float = 0.1
    validation: float = option(
        0.05, "share of the training documents that the run held out, on which it is weighed", within=BELOW_ONE
    )

    def check(self, dataset: Dataset) -> None:
        """Refuse a run that has seen all documents, or other data, and what is no transformer."""
        super().check(dataset)
        if self.first_stage is None:
            raise BadInput("first_stage", "expected the folder of a finished run, found none", remedy="give one")
        _must_have_held_out(Path(self.first_stage), dataset, self)
        if not issubclass((row := encoder_named(self.encoder)).kind, TransformerEncoder):
            problem = f"expected a transformer, which reads two texts together, found {row.name}"
            raise BadInput("encoder", problem, remedy="give for example minilm, or a folder")


class FirstStage(NamedTuple):
    """The model of a finished run.

    Attributes:
        now: as the run ranks.
        unseen: as it was before it was trained on the documents held out; the same where it never was.
    """

    now: Model
    unseen: Model

    @classmethod
    def of(cls, folder: Path, device: torch.device) -> FirstStage:
        """That of a run folder."""
        now, before = open_model(folder / "model", device=device), before_refit(folder, device)
        if now.memory is not None:
            now.memory.keys.titles = titles_of(folder, now.memory)
        return cls(now, before or now)

    def without_answers(self, train: Split) -> Model:
        """``unseen``, with a memory of the documents that it was trained on alone: not of those held out."""
        model = self.unseen
        if model.memory is None or model.fusion is None:
            return model
        return model.fused_by(model.fusion, remember(model, train.documents, train.targets, model.memory.weights))


@recipe(RerankOptions)
def rerank(run: Run, dataset: Dataset, o: RerankOptions) -> Model:
    """Rank the first labels of a finished run anew, by a cross-encoder.

    Sources: monoBERT (Nogueira and Cho, 2019); trained by the softmax of one true label among wrong ones that the run
    ranks first, the localized contrastive estimation of Gao, Dai and Callan (2021, arXiv 2101.08751). What the new
    logit and the run's own score are worth, for labels of each frequency, is learned on the documents that the run held
    out; where they do not gain by it, the run's own model is the result.
    """
    first = run.once("first stage", lambda: FirstStage.of(Path(str(o.first_stage)), run.device))
    encoder = run.once(_STAGE, lambda: CrossEncoder(o.encoder, max_length=o.max_length, seed=o.seed).to(run.device))
    if encoder.has_new_head and not o.epochs:
        problem = f"expected a cross-encoder to be taken as it is, found {o.encoder}, which has no head yet"
        raise BadInput("epochs", problem, remedy="give 1, and it is trained")
    rest, held_out = hold_out(dataset, o.validation, o.seed)
    held_out, _ = without_orphaned_labels(held_out, label_frequency(rest.train.targets))
    if not len(held_out):
        problem = (
            "expected held-out documents to weigh a cross-encoder on, found none with a label that another one has"
        )
        raise BadInput("first_stage", problem, remedy="leave it as it is, or give more documents a label")
    if o.epochs:
        _train(run, encoder, first.unseen, rest, o)
    return _weighed(run, encoder.eval(), first, rest, held_out, o)


def _train(run: Run, encoder: CrossEncoder, model: Model, rest: Dataset, o: RerankOptions) -> None:
    """Train the cross-encoder to tell a true label of a document from wrong ones that the model ranks high."""
    split = run.once("pairs", lambda: _with_labels(rest.train, o.documents, o.seed))
    tokenizer = encoder.tokenizer
    documents = token_table(split.documents, model.fields, tokenizer, run.cache)
    labels = token_table(rest.labels, [FIELD], tokenizer, run.cache)
    mined = Mined(len(split), o.candidates)
    pool = Pool(split.targets, None, 0, mined, own=True)
    sampler = Shuffled(len(split), o.batch, seed=o.seed)
    batches = Loader(split, sampler, pool, partial(tokenizer.batch, documents), None, o.seed)
    optimizer = adamw((encoder, o.learning_rate or _RATE))

    def objective(b: Batch) -> dict[str, Tensor]:
        assert b.places is not None
        chosen = drawn(b.targets, b.mask, o.negatives)  # (B, 1 + negatives)
        there = chosen >= 0
        ids = b.label_ids[b.places.gather(1, chosen.clamp(min=0))]
        rows, some = b.rows[:, None].expand_as(ids)[there].cpu().numpy(), ids[there].cpu().numpy()
        logits = encoder(tokenizer.pairs(documents.take(rows), labels.take(some)).to(b.rows.device))
        scores = logits.new_zeros(ids.shape).index_put(there.nonzero(as_tuple=True), logits)
        targets = torch.zeros_like(scores)
        targets[:, 0] = 1
        return {"softmax": info_nce(scores, targets, there, temperature=1.0)}

    def renew(epoch: int) -> None:
        if not epoch:
            mined.renew(hard_negatives(run, model, split, rest, o.candidates))

    if run.plan is not None:  # a step is measured with as many labels as it is going to have
        mined.renew(np.random.default_rng(0).integers(len(rest.labels), size=(len(split), o.candidates)))
        run.plan.held += _held(encoder, documents, labels, o)
    trained, others = {"encoder": encoder}, {"mined": mined}
    run.train(_STAGE, objective, batches, optimizer, trained, pace=o.pace(o.epochs), before_epoch=renew, others=others)


def _with_labels(train: Split, most: int | None, seed: int) -> Split:
    """The training documents that have a label that is not filtered; some of them, where fewer are asked for."""
    rows = np.flatnonzero(np.diff(unfiltered(train).indptr))
    if most is not None and most < len(rows):
        rows = rows[rows_at_random(len(rows), most, seed)]
    return train.take(rows)


def hard_negatives(run: Run, model: Model, split: Split, dataset: Dataset, length: int) -> IntArray:
    """The wrong labels that a model ranks first for each document.

    A memory is not asked: it knows the answers. Left out are, beside true and filtered pairs, labels whose text is the
    document's own.

    Args:
        run: of the recipe; its plan counts this.
        model: finds them.
        split: N documents.
        dataset: of the L labels.
        length: of a list.

    Returns:
        (N, length) label ids, best first, -1 where there are fewer.
    """
    kind = "fused" if "fused" in model.kinds else None
    if run.plan is not None:
        some = split.documents.take(np.arange(min(SAMPLE, len(split))))
        ranked = partial(model.rank, some, length, kind=kind)
        seconds = run.plan.once("hard negatives", lambda: timed(ranked) / len(some))
        run.plan.add("hard negatives", len(split) * seconds)
        return np.full((len(split), length), -1)
    with run.log.parts("hard negatives"):
        texts = Strings.of(split.documents.joined(model.fields))
        exclude = union(split.known, same_texts(texts, dataset.labels.fields[FIELD]))
        found = []
        for start in range(0, len(split), _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, len(split)))
            found.append(model.rank(split.documents.take(rows), length, kind=kind, exclude=CSR(exclude[rows])).ids)
        return np.concatenate(found)


def drawn(targets: Tensor, mask: Tensor, negatives: int) -> Tensor:
    """A true label of each document, and some wrong ones, drawn by torch's random numbers.

    Args:
        targets: (B, S) of the labels of each document's list.
        mask: (B, S) bool, False where there is no label, or a pair is filtered.
        negatives: how many, at most.

    Returns:
        (B, 1 + at most ``negatives``) int64 places in the lists, the true one first; -1 where there is none.
    """
    lots = torch.rand(targets.shape, device=targets.device)
    sides = (mask & (targets > 0), 1), (mask & (targets == 0), min(negatives, targets.shape[1]))
    found = [torch.where(side, lots, -1).topk(count, dim=1) for side, count in sides]
    return torch.cat([torch.where(lot >= 0, places, -1) for lot, places in found], 1)


def _held(encoder: CrossEncoder, documents: Ragged, labels: Ragged, o: RerankOptions) -> int:
    """The bytes that a step holds of its pairs, if these are as long as the mean document and label together."""
    length = min(
        encoder.tokenizer.max_length, 4 + sum(len(table.ids) / max(1, len(table)) for table in (documents, labels))
    )
    kept = bytes_a_token(encoder, lambda ids, mask: encoder(PairTokens(ids, mask, torch.zeros_like(ids))), length)
    return int(o.batch * (1 + o.negatives) * length * kept)


def _weighed(
    run: Run, encoder: CrossEncoder, first: FirstStage, rest: Dataset, held_out: Split, o: RerankOptions
) -> Model:
    """The model with the cross-encoder, weighed on held-out documents; the run's own where these do not gain by it."""
    if run.plan is not None:
        pairs, a_pair = len(held_out) * o.candidates, _seconds_a_pair(run, encoder, first.now, held_out)
        run.plan.add(f"pairs of held-out documents ({1 / a_pair:,.0f} a second)", pairs * a_pair)
        return first.now
    with run.log.parts("learning on held-out documents"):
        unseen, counts = first.without_answers(rest.train), label_frequency(rest.train.targets)
        untold = Reranker(unseen, encoder, _AS_FOUND, o.candidates, {})
        scorer, vectors = untold.scorer(), untold.encode(held_out.documents)
        assert scorer.reranking is not None
        top, start = scorer.found(vectors, max(DEPTH, o.candidates), held_out.filtered), time.perf_counter()
        asked = top.first(o.candidates)
        logits, frequency = scorer.reranking.logits(vectors, asked.ids)
        a_second = (asked.ids >= 0).sum() / (time.perf_counter() - start)
        scores = np.stack([np.where(asked.ids < 0, 0, asked.scores), logits]).astype(np.float32)
        candidates = Candidates(asked.ids, scores, holds(held_out.targets, asked.ids))
        worth = worth_of(o.prefer, held_out.targets, rest.train.targets, rest.propensity)
        trial = learn_one_more(candidates, counts, worth, o.price)
    tell(run, _STAGE, o.prefer, len(held_out), trial)
    run.log.say(f"{a_second:,.0f} pairs a second: {1000 * o.candidates / a_second:,.0f} ms for a text's candidates")
    if trial is None or trial.weights is None:
        if first.unseen is not first.now:
            keep_before_refit(run, first.unseen)
        return first.now
    learned = Reranker(unseen, encoder, trial.weights, o.candidates, {}).scorer().reranking
    assert learned is not None
    found = learn_calibration(learned.anew(top, logits, frequency, DEPTH), held_out.targets, counts)
    calibrations = {**first.now.calibrations, **({} if found is None else {KIND: found})}
    if first.unseen is not first.now:
        keep_before_refit(run, Reranker(first.unseen, encoder, trial.weights, o.candidates, calibrations))
    return Reranker(first.now, encoder, trial.weights, o.candidates, calibrations)


def _seconds_a_pair(run: Run, encoder: CrossEncoder, model: Model, held_out: Split) -> float:
    assert run.plan is not None
    tokenizer, rows = encoder.tokenizer, np.resize(np.arange(len(held_out)), _MEASURED)
    documents = token_table(held_out.documents.take(rows), model.fields, tokenizer)
    places = np.random.default_rng(0).integers(len(model.labels), size=_MEASURED)
    labels = token_table(model.labels.take(places), [FIELD], tokenizer)
    asked = partial(logits_of, encoder, documents, labels, device=run.device)
    return run.plan.once(KIND, lambda: timed(asked) / _MEASURED)


def _must_have_held_out(folder: Path, dataset: Dataset, o: RerankOptions) -> None:
    """Refuse a run of other data, one that has no documents that it has not seen, and one that is reranked already."""
    arguments, where = arguments_of(folder, dataset), folder / "run.json"
    model = open_model(folder / "model", device=torch.device("cpu"))
    if isinstance(model, Reranker):
        problem = "expected a run without a cross-encoder, found one that has one"
        raise BadInput(folder, problem, remedy="give the run that it was made of")
    is_unseen = not arguments.get("refit") or place_before_refit(folder).is_dir()
    has_learned = model.fusion is not None or isinstance(model, Linear)
    if not (arguments.get("validation") and has_learned and is_unseen):
        problem = "expected a run that has documents which it has not seen, found one that has none"
        raise BadInput(where, problem, remedy="train it by a recipe that has the option validation, with that above 0")
    if (o.validation, o.seed) != (held := (arguments["validation"], arguments["seed"])):
        expected, found = (f"validation {share:g} and seed {seed}" for share, seed in (held, (o.validation, o.seed)))
        raise BadInput(where, f"expected {expected}, those of the run, found {found}", remedy="leave both out")
