"""What only a transformer can be asked for: how it reads a text, and how it is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from longtail.errors import BadInput
from longtail.modules.encoders.attention import attend
from longtail.modules.encoders.base import Encoder
from longtail.modules.encoders.named import encoder_named
from longtail.modules.encoders.pooling import POOLING_OF_WINDOWS
from longtail.modules.encoders.sentence_folder import POOLING
from longtail.modules.encoders.transformer import PRECISIONS, WEIGHTS, TransformerEncoder
from longtail.options import COUNT, NATURAL, Range, option, options_of
from longtail.stages.recipe import RunOptions
from longtail.train import eight_bits

MOMENTS = "float32", "8-bit"
_READS = (  # when it is made, alone
    *("windows", "stride", "window_pooling", "pooling"),
    *("bidirectional", "document_prefix", "label_prefix"),
)


@dataclass(frozen=True, kw_only=True)
class TransformerOptions(RunOptions):
    """Transformers."""

    windows: int | None = option(
        None,
        "parts of max_length tokens that a transformer reads of a text, at most, to one vector; if left out what its "
        "folder says, else 1",
        within=COUNT,
    )
    stride: int | None = option(
        None,
        "tokens from the beginning of such a part to that of the next; if left out what its folder says, else without "
        "overlap",
        within=COUNT,
    )
    window_pooling: str | None = option(
        None,
        "of such parts: their mean, or attention for weights that are learned, and start equal; if left out what its "
        "folder says, else the mean",
        choices=POOLING_OF_WINDOWS,
    )
    pooling: str | None = option(
        None,
        "of a transformer's hidden states: mean, cls or last; what its folder says if left out",
        choices=POOLING,
    )
    bidirectional: bool = option(
        False, "whether each token of a transformer that is a decoder, too, sees those behind it"
    )
    document_prefix: str | None = option(
        None, "what a transformer reads before each document; what its folder says if left out"
    )
    label_prefix: str | None = option(
        None, "what a transformer reads before each label; what its folder says if left out"
    )
    widths: Sequence[int] = option(
        (),
        "widths of a transformer's vectors: they are cut to the largest, and trained so that the first numbers of each "
        "do alone (Matryoshka)",
        within=COUNT,
    )
    lora: int = option(
        0,
        "the rank of low-rank adapters, which are trained in place of a transformer's weights; 0 for none",
        within=NATURAL,
    )
    layer_decay: float = option(
        1.0,
        "what the learning rate of a transformer's layer is times that of the layer above",
        within=Range(0, 1, open="low"),
    )
    encoder_decay: float = option(0.0, "weight decay of a transformer's weights, but for biases", within=NATURAL)
    texts_at_once: int | None = option(
        None, "texts whose activations a transformer holds, for a third more work; all if left out", within=COUNT
    )
    recompute: bool = option(
        False, "whether a transformer holds of its layers what goes in, and computes the rest once more for gradients"
    )
    compile: bool = option(
        False,
        "whether torch.compile makes few kernels of a transformer's many: a minute at first, then a fraction of a "
        "step's time on a GPU",
    )
    precision: str = option(
        "auto",
        "of a transformer's products: auto for bfloat16 on a GPU and float32 on a CPU",
        choices=PRECISIONS,
    )
    attention: str | None = option(
        None,
        "how a transformer computes it, by transformers' name: sdpa, eager, flash_attention_2 or another; what "
        "transformers takes if left out",
    )
    weights: str = option(
        "float32",
        "of a transformer, in training and after: float32, or bfloat16, whose updates keep what it cannot hold of them",
        choices=tuple(WEIGHTS),
    )
    moments: str = option(
        "float32",
        "of a transformer's matrices, in the optimiser: float32, or 8-bit, which takes a quarter of the bytes and the "
        "package bitsandbytes",
        choices=MOMENTS,
    )


def must_be_of(o: TransformerOptions, encoder: str, start: str | None) -> None:
    """Refuse what only a transformer can be asked for with any other encoder, or only where one is made.

    Args:
        o: the options.
        encoder: its name.
        start: the run that it comes from, which has said how texts are read; None for one that is made.

    Raises:
        BadInput: such an option is given.
    """
    if issubclass(encoder_named(encoder).kind, TransformerEncoder):
        for name, value in reading(o).items() if start is not None else ():
            problem = f"expected none with start, whose encoder reads texts as it was trained to, found {value}"
            raise BadInput(name, problem, remedy="leave it out")
        if (o.weights, o.precision) == ("bfloat16", "float32"):
            raise BadInput("precision", "weights of bfloat16 compute in it, found float32", remedy="leave it out")
        if (o.weights, o.moments) == ("bfloat16", "8-bit") and not o.lora:
            problem = "moments of 8 bits are of float32 weights, found weights of bfloat16"
            raise BadInput("moments", problem, remedy="leave one of both out")
        return
    for name, value in given(o).items():
        problem = f"expected none for the encoder {encoder}, which is no transformer, found {value}"
        raise BadInput(name, problem, remedy="leave it out, or choose a transformer")


def given(o: TransformerOptions) -> dict[str, Any]:
    """Those of its options that only transformers have and that are not left out, by name."""
    own = (known for name, known in options_of(TransformerOptions).items() if name not in options_of(RunOptions))
    return {known.name: getattr(o, known.name) for known in own if getattr(o, known.name) != known.default}


def reading(o: TransformerOptions) -> dict[str, Any]:
    """What a transformer is made with."""
    return {name: value for name, value in given(o).items() if name in _READS}


def prepare(encoder: Encoder, o: TransformerOptions) -> None:
    """Let a transformer be trained as its options say.

    Raises:
        BadInput: its vectors are narrower than they are to be, its layers cannot be computed once more, or there is no
            such attention here.
        MissingExtra: a package that it needs is not installed.
    """
    encoder = encoder.core
    if isinstance(encoder, TransformerEncoder):
        encoder.texts_at_once, encoder.precision = o.texts_at_once, o.precision
        encoder.layer_decay, encoder.weight_decay = o.layer_decay, o.encoder_decay
        encoder.hold(o.weights)
        encoder.eight_bits = o.moments == "8-bit"
        if encoder.eight_bits:
            eight_bits.must_be_installed()
        if o.attention is not None:
            attend(encoder.backbone, o.attention)
        if o.recompute:
            encoder.recompute()
        if o.widths:
            encoder.nest(o.widths)
        if o.lora:
            encoder.adapt(o.lora, seed=o.seed)
        if o.compile:
            encoder.compile_layers()
