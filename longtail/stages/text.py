"""What is read, by which encoder: options, and the encoder with the tokens of everything that a recipe encodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.links import LinkedNodes
from longtail.batches.loader import Loader, Source
from longtail.batches.neighbours import Neighbours
from longtail.batches.pool import Pool
from longtail.batches.samplers import Sampler
from longtail.data.dataset import Dataset
from longtail.data.holdout import rows_evenly
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.modules.encoders.base import Encoder, encode_together
from longtail.modules.encoders.named import ENCODERS, make_encoder
from longtail.options import COUNT, POSITIVE, option
from longtail.stages.fields import FieldOptions, apart
from longtail.stages.held_out import FusionOptions
from longtail.stages.knowledge import NONE, know, must_take_knowledge
from longtail.stages.language_model import TransformerOptions, must_be_of, prepare, reading
from longtail.stages.start import encoder_of, must_not_have_seen
from longtail.text.ragged import Ragged
from longtail.text.tokens import Tokenizer, Tokens, token_table
from longtail.topk import FloatArray
from longtail.train.run import Run
from longtail.transforms import TRANSFORMS, run_read_by

_SAMPLED = 50_000  # texts that a dry run tokenises


@dataclass(frozen=True, kw_only=True)
class TextOptions(TransformerOptions, FieldOptions):
    """Texts and training rows."""

    encoder: str = option(
        "bag",
        "an encoder by name, or any transformer of Hugging Face or sentence-transformers by name or folder",
        known=ENCODERS,
    )
    width: int = option(
        256, "of the vectors of a bag encoder, or of words for a convolution; a transformer has its own", within=COUNT
    )
    max_length: int = option(32, "tokens of a text that a transformer reads, or words of a convolution", within=COUNT)
    ends: bool = option(False, "let a bag encoder tell the first and the last word of a text from the others")
    start: str | None = option(
        None,
        "the folder of a finished run, of any recipe with the same kind of encoder, whose encoder this one starts as",
    )
    static_vectors: str | None = option(
        None, "an .npy file of word vectors that the encoder starts from, with its words in a .txt beside it"
    )
    knowledge: str = option(
        NONE,
        "none, or a language model, as minilm, whose vectors of words are added to the start of a bag encoder; a name "
        "or folder, as of an encoder; see docs/guides/encoders.md",
    )
    knowledge_weight: float = option(2.0, "of these vectors, beside random ones as long on average", within=POSITIVE)
    augment: str = option(
        "none",
        "none, or a transform that adds training rows, with its options as in gandalf:threshold=0.2; see "
        "docs/explanation/methods/gandalf.md",
        known=TRANSFORMS,
    )

    def check(self, dataset: Dataset) -> None:
        """Refuse what the encoder cannot take, and a run that has seen what a fusion is to be learned on."""
        super().check(dataset)
        must_be_of(self, self.encoder, self.start)
        must_take_knowledge(self.knowledge, self.encoder, self.start)
        for run in (self.start and Path(self.start), run_read_by(self.augment)):
            if run and isinstance(self, FusionOptions):
                must_not_have_seen(run, dataset, self.validation, self.seed)


@dataclass(frozen=True, slots=True)
class Text:
    """An encoder, and the tokens of everything that a recipe encodes.

    Attributes:
        run: where it trains.
        encoder: on the run's device.
        documents: N rows of tokens.
        labels: L rows of tokens.
    """

    run: Run
    encoder: Encoder
    documents: Ragged
    labels: Ragged

    def rate(self, given: float | None) -> float:
        """The learning rate that was given, or one that suits the encoder: a new table learns faster than a model."""
        return given or self.encoder.core.learning_rate

    def source(self, table: Ragged) -> Source:
        """What a `Loader` reads the rows of a token table from."""
        return partial(self.encoder.tokenizer.batch, table)

    def tokens(self, texts: Texts, fields: Sequence[str]) -> Ragged:
        """The token table of other texts."""
        return token_table(texts, fields, self.encoder.tokenizer, self.run.cache)

    def embed(self, table: Ragged) -> FloatArray:
        """(n, D) float32 vectors of a token table under the current encoder."""
        return self.run.embed(self.encoder, table)

    def encode(self, b: Batch, *others: Tokens) -> tuple[Tensor, ...]:
        """The documents (B, D) and labels (P, D) of a batch, the nodes of each of its graphs (A, D), and others."""
        assert b.labels is not None
        return encode_together(self.encoder, b.documents, b.labels, *b.nodes, *others)

    def batches(
        self,
        split: Split,
        sampler: Sampler,
        pool: Pool,
        *,
        documents: Source | None = None,
        labels: Ragged | None = None,
        encoded: bool = True,
        graphs: Mapping[str, Neighbours] | None = None,
        links: LinkedNodes | None = None,
    ) -> Loader:
        """Batches of some rows.

        Args:
            split: the rows.
            sampler: cuts an epoch into batches.
            pool: draws the labels of a batch.
            documents: the tokens of the rows, if others than `documents`.
            labels: the tokens of the pool's labels, if others than `labels`.
            encoded: whether the pool's labels are encoded.
            graphs: draw neighbours.
            links: draw nodes.
        """
        of_labels = self.source(self.labels if labels is None else labels) if encoded else None
        of_documents = documents or self.source(self.documents)
        return Loader(split, sampler, pool, of_documents, of_labels, self.run.seed, graphs=graphs or {}, links=links)


def text_of(run: Run, name: str, dataset: Dataset, o: TextOptions) -> Text:
    """What `read_text` makes, once for the plan and for the run, with an encoder that has the knowledge asked for."""
    text = run.once(name, lambda: read_text(run, dataset, o))
    know(run, text.encoder, o.knowledge, o.knowledge_weight)
    return text


def read_text(run: Run, dataset: Dataset, o: TextOptions) -> Text:
    """Make an encoder by name, or take that of another run, and tokenise documents and labels for it."""
    if o.start is None:
        corpus = corpus_of(run, dataset, o.fields)
        generator = torch.Generator().manual_seed(o.seed)
        sizes = {"width": o.width, "max_length": o.max_length}
        model = make_encoder(o.encoder, corpus, **sizes, ends=o.ends, generator=generator, **reading(o))
    else:
        model = encoder_of(Path(o.start), o.encoder)
    prepare(model, o)
    if o.static_vectors is not None:
        found, features = model.start_from(Path(o.static_vectors))
        run.log.say(f"{found:,} of {features:,} features start from {o.static_vectors}")
    model = apart(model, o)
    both = (dataset.train.documents, dataset.labels)
    documents, labels = map(partial(_table, run, o.fields), both, (model.tokenizer, model.label_tokenizer))
    return Text(run, model.to(run.device), documents, labels)


def corpus_of(run: Run, dataset: Dataset, fields: Sequence[str]) -> Iterator[str]:
    """The texts of documents and labels."""
    both = (dataset.train.documents, dataset.labels)
    return chain.from_iterable(_read_of(run, texts).joined(fields) for texts in both)


def _read_of(run: Run, texts: Texts) -> Texts:
    """The texts that are read: all of them, or, by a dry run, some of very many."""
    if not run.dry or len(texts) <= _SAMPLED:
        return texts
    return texts.take(rows_evenly(len(texts), _SAMPLED))


def _table(run: Run, fields: Sequence[str], texts: Texts, tokenizer: Tokenizer) -> Ragged:
    some = _read_of(run, texts)
    table = token_table(some, fields, tokenizer, run.cache)
    return table if some is texts else table.repeated(len(texts))
