"""The paragraphs that recipes share: how a run begins, what is read, the classifiers, the bundle."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

import longtail
from longtail.batches.batch import Batch
from longtail.batches.loader import Loader, Source
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.losses.base import Loss
from longtail.losses.binary import binary_cross_entropy
from longtail.losses.contrastive import probabilistic_contrastive
from longtail.losses.softmax import decoupled_softmax, info_nce, sup_con
from longtail.losses.softmax import symmetric as both_directions
from longtail.losses.triplet import triplet
from longtail.model import Bundle, Pair
from longtail.modules.classifiers import FreeVectors
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.base import embed
from longtail.modules.encoders.convolution import ConvolutionEncoder
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.modules.heads import AnyEncoder
from longtail.search.exact import Exact
from longtail.stages.ranges import must_be_in_range
from longtail.text.bag import BagTokenizer
from longtail.text.ragged import Ragged
from longtail.text.tokens import VectorTokens, token_table
from longtail.text.words import WordTokenizer
from longtail.topk import FloatArray, IntArray
from longtail.train.fit import fit, linear
from longtail.train.optimizer import AdamW
from longtail.train.run import Run

AnyModel = TypeVar("AnyModel", Bundle, Pair)

LOSSES: dict[str, Callable[..., Tensor]] = {
    "triplet": triplet,
    "decoupled_softmax": decoupled_softmax,
    "info_nce": info_nce,
    "sup_con": sup_con,
    "binary_cross_entropy": binary_cross_entropy,
    "probabilistic_contrastive": probabilistic_contrastive,
}


def loss_named(name: str, *, temperature: float | None = None, symmetric: bool = False) -> Loss:
    """A loss of `LOSSES`.

    Args:
        name: of the loss.
        temperature: its own default if left out.
        symmetric: half of it in the other direction, from labels to documents.

    Raises:
        BadInput: there is none of that name.
    """
    if name not in LOSSES:
        raise BadInput("--loss", f"expected one of {', '.join(LOSSES)}, found {name}", remedy="choose one of those")
    loss = LOSSES[name] if temperature is None else partial(LOSSES[name], temperature=temperature)
    return partial(both_directions, loss) if symmetric else loss


def begin(recipe: str, arguments: Mapping[str, Any]) -> Run:
    """Open the run of a recipe, or go on with it.

    Args:
        recipe: its name.
        arguments: of the recipe, by name, with ``dataset`` and ``out`` (a folder, a `Run`, or None for no folder).

    Raises:
        BadInput: a number is out of its range; or the folder holds a run of another recipe, of other arguments or of
            other data.
    """
    settings = dict(arguments)
    dataset, out = settings.pop("dataset"), settings.pop("out")
    must_be_in_range(settings)
    run = out if isinstance(out, Run) else Run(None if out is None else Path(out))
    run.describe(
        {
            "recipe": recipe,
            "arguments": {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()},
            "data": None if dataset.folder is None else str(Path(dataset.folder).resolve()),
            "hashes": dataset.fingerprint(),
            "versions": {
                "longtail": longtail.__version__,
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": np.__version__,
            },
        }
    )
    return run


@dataclass(frozen=True, slots=True)
class Text:
    """An encoder, and the tokens of everything that a recipe encodes.

    Attributes:
        encoder: on its device.
        documents: N rows of tokens.
        labels: L rows of tokens.
        device: where the encoder is.
    """

    encoder: AnyEncoder
    documents: Ragged
    labels: Ragged
    device: torch.device

    def sources(self) -> tuple[Source, Source]:
        """What a `Loader` reads documents and labels from."""
        batch = self.encoder.tokenizer.batch
        return partial(batch, self.documents), partial(batch, self.labels)

    def embed(self, table: Ragged) -> FloatArray:
        """(n, D) float32 vectors of a token table under the current encoder."""
        return embed(self.encoder, table, device=self.device)


def read_text(
    dataset: Dataset,
    encoder: str,
    fields: Sequence[str],
    width: int,
    max_length: int,
    static_vectors: str | None,
    *,
    run: Run,
    device: torch.device,
    seed: int,
) -> Text:
    """Make an encoder by name, and tokenise the training documents and the labels for it.

    Token tables are kept in the folder that the environment variable ``LONGTAIL_CACHE`` names, where other runs find
    them, else in the run's folder for as long as it trains.

    Args:
        dataset: its training documents and labels are tokenised.
        encoder: ``bag``, ``convolution``, or a transformer by name or folder (see `TransformerEncoder`).
        fields: of the texts, joined by a space.
        width: of the rows of a table of features or words: D of a bag encoder; a transformer has a width of its own.
        max_length: tokens of a text that a transformer reads, or words that a convolution does.
        static_vectors: an ``.npy`` file that such a table starts from (`longtail.modules.encoders.static`), or None.
        run: for its folder.
        device: where the encoder goes.
        seed: of the start of a bag encoder.
    """
    model: BagEncoder | ConvolutionEncoder | TransformerEncoder
    corpus = chain(dataset.train.documents.joined(fields), dataset.labels.joined(fields))
    generator = torch.Generator().manual_seed(seed)
    if encoder == "bag":
        model = BagEncoder(BagTokenizer.fit(corpus), width, generator=generator)
    elif encoder == "convolution":
        model = ConvolutionEncoder(WordTokenizer.fit(corpus, max_length=max_length), width, generator=generator)
    else:
        model = TransformerEncoder(encoder, max_length=max_length)
    if static_vectors is not None and not isinstance(model, TransformerEncoder):
        found = model.start_from(Path(static_vectors))
        run.log.say(f"{found:,} of {len(model.tokenizer):,} features start from {static_vectors}")
    cache = cache_of(run)
    documents, labels = (
        token_table(texts, fields, model.tokenizer, cache) for texts in (dataset.train.documents, dataset.labels)
    )
    return Text(model.to(device), documents, labels, device)


def cache_of(run: Run) -> Path | None:
    """The folder that keeps what is made from the data: ``LONGTAIL_CACHE``, else one of the run; None without a run."""
    if shared := os.environ.get("LONGTAIL_CACHE"):
        return Path(shared)
    return None if run.folder is None or run.dry else run.folder / "tokens"


def learning_rate_of(encoder: AnyEncoder) -> float:
    """The learning rate that suits an encoder: a table that starts from nothing learns faster than a language model."""
    return 1e-4 if isinstance(encoder, TransformerEncoder) else 4e-3


def train_classifiers(
    run: Run,
    split: Split,
    documents: FloatArray,
    start: FloatArray,
    loss: Loss,
    *,
    stage: str = "classifiers",
    epochs: int,
    batch: int,
    random_negatives: int,
    learning_rate: float,
    dropout: float,
    seed: int,
    device: torch.device,
) -> FloatArray:
    """Train one vector a label on a frozen encoder. Source: NGAME (Dahiya et al., 2023), section 3.3 (stage M2).

    Args:
        run: keeps the stage.
        split: N training documents.
        documents: (N, D) their vectors under the frozen encoder.
        start: (L, D) where the classifiers start: the embeddings of the labels' texts.
        loss: of cosines.
        stage: its name in the run.
        epochs: passes over the documents.
        batch: documents of a batch; its pool holds all their positives.
        random_negatives: labels drawn at random into each pool.
        learning_rate: of the classifiers; it falls linearly to 0.
        dropout: share of a document vector's numbers that are dropped in a step.
        seed: of all random numbers.
        device: where the classifiers are trained.

    Returns:
        (L, D) float32 rows of unit length.
    """
    classifiers = FreeVectors(start).to(device)
    pool = Pool(split.targets, positives=None, random=random_negatives)
    sampler = Shuffled(len(split), batch, seed=seed)
    batches = Loader(split, sampler, pool, vector_source(documents), None, seed=seed)
    optimizer = AdamW(classifiers.parameters(), learning_rate)

    def objective(b: Batch) -> dict[str, Tensor]:
        assert isinstance(b.documents, VectorTokens)
        vectors = F.normalize(F.dropout(b.documents.values, dropout))  # (B, D)
        return {"classifier": loss(vectors @ classifiers(b.label_ids).T, b.targets, b.mask)}

    fit(
        objective,
        batches,
        optimizer,
        run=run,
        stage=stage,
        modules={"classifiers": classifiers},
        epochs=epochs,
        seed=seed,
        schedule=linear(batches.steps()),
    )
    return classifiers.vectors()


def vector_source(vectors: FloatArray) -> Source:
    """What a `Loader` reads documents from that were encoded before: rows of (n, D) vectors."""
    return lambda rows: VectorTokens(torch.from_numpy(vectors[rows]))


def mine(split: Split, documents: FloatArray, labels: FloatArray, length: int, *, device: torch.device) -> IntArray:
    """The wrong labels nearest to each training document: what `longtail.batches.negatives.Mined` draws from.

    Source: ANCE (Xiong et al., 2021), section 3; the thesis, section 2.3.2, H_i.

    Args:
        split: N training documents; their true and filtered pairs are left out.
        documents: (N, D) their current vectors.
        labels: (L, D) the labels' current vectors.
        length: of a list.
        device: where the search runs.

    Returns:
        (N, length) label ids, best first, -1 where there are fewer.
    """
    known = split.targets if split.filtered is None else (split.targets + split.filtered).tocsr()
    return Exact(labels, device=device).search(documents, length, exclude=known).ids


def finish(run: Run, bundle: AnyModel) -> AnyModel:
    """Keep the trained bundle in the run's folder, and let the run's own token tables go."""
    run.account()
    if run.folder is not None:
        shutil.rmtree(run.folder / "model", ignore_errors=True)
        bundle.save(run.folder / "model")
        shutil.rmtree(run.folder / "tokens", ignore_errors=True)
    return bundle
