"""The encoders that a recipe takes by name: a row for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from longtail.errors import BadInput
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.base import Encoder
from longtail.modules.encoders.convolution import ConvolutionEncoder
from longtail.modules.encoders.fielded import with_fields
from longtail.modules.encoders.recurrent import RecurrentEncoder
from longtail.modules.encoders.transformer import TransformerEncoder


class EncoderKind(NamedTuple):
    """One encoder: how it is made, opened and trained.

    Attributes:
        name: that a recipe takes.
        kind: the class.
        make: takes the arguments of `make_encoder` by name, and leaves aside those that it has no use for.
        load: opens the folder that ``save`` of the class wrote.
        about: one line of help.
    """

    name: str
    kind: type[Encoder]
    make: Callable[..., Encoder]
    load: Callable[[Path], Encoder]
    about: str


BAG = EncoderKind(
    "bag",
    BagEncoder,
    BagEncoder.make,
    BagEncoder.load,
    "words, word pairs and character n-grams; trains from nothing on a CPU",
)
CONVOLUTION = EncoderKind(
    "convolution",
    ConvolutionEncoder,
    ConvolutionEncoder.make,
    ConvolutionEncoder.load,
    "words in order, with attention and convolutions; trains from nothing",
)
LSTM = EncoderKind(
    "lstm",
    RecurrentEncoder,
    RecurrentEncoder.make,
    RecurrentEncoder.load,
    "words in order, read from both sides by an LSTM; trains from nothing",
)
MINILM = EncoderKind(
    "minilm",
    TransformerEncoder,
    TransformerEncoder.make,
    TransformerEncoder.load,
    "MiniLM-L6, a transformer 384 wide that a package carries",
)
TRANSFORMER = MINILM._replace(
    name="transformer", about="any other transformer, by its name at Hugging Face or by its folder"
)

ENCODERS = {row.name: row for row in (BAG, CONVOLUTION, LSTM, MINILM, TRANSFORMER)}


def encoder_named(name: str) -> EncoderKind:
    """The row of an encoder by the name that a recipe takes; what is the name of no row is that of a transformer."""
    return ENCODERS.get(name, TRANSFORMER)


def row_of(encoder: Encoder) -> EncoderKind:
    """The row of an encoder by its class; of rows that share one, the last, which is the general one."""
    return {row.kind: row for row in ENCODERS.values()}[type(encoder.core)]


def load_encoder(name: str, folder: Path) -> Encoder:
    """Open what ``save`` of an encoder wrote, by the name of its row; one that reads fields apart, too."""
    return with_fields(ENCODERS[name].load(folder), folder)


def join_layers(encoder: Encoder, layers: Callable[[int], Sequence[int]]) -> int:
    """Let a transformer join some of its layers, which are chosen by how many it has.

    Returns:
        How many were joined; 0 for an encoder that has no layers to choose from.

    Raises:
        BadInput: it reads fields apart.
    """
    if not isinstance(encoder.core, TransformerEncoder):
        return 0
    if not isinstance(encoder, TransformerEncoder):
        raise BadInput("fields_apart", "this recipe joins layers of a transformer", remedy="leave it out")
    encoder.join(layers(encoder.depth))
    return len(encoder.layers)


def make_encoder(
    name: str,
    corpus: Iterable[str],
    *,
    width: int,
    max_length: int,
    ends: bool = False,
    generator: torch.Generator,
    **own: Any,
) -> Encoder:
    """Make an encoder by name.

    Args:
        name: of a row of `ENCODERS`, or of a transformer, or its folder.
        corpus: the texts that it is to know the words of; read once, or not at all.
        width: of the rows of a table of features or words: D of a bag encoder; a transformer has a width of its own.
        max_length: tokens of a text that a transformer reads, or words that a convolution does.
        ends: whether a bag encoder tells the first and the last word of a text from the others.
        generator: draws the start of what is trained from nothing.
        own: what else encoders of its kind are made with, by name, as the pooling of a transformer.

    Raises:
        LongtailError: there is no such transformer, or a number does not suit the encoder.
        MissingExtra: a package that it needs is not installed.
    """
    row = encoder_named(name)
    sizes = {"width": width, "max_length": max_length}
    return row.make(name=name, corpus=corpus, **sizes, ends=ends, generator=generator, **own)
