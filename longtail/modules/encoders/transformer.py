"""The transformer encoder: any Hugging Face or sentence-transformers model, saved so that both open it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from longtail.errors import BadInput
from longtail.modules.encoders.adapters import add_lora, save_lora, save_merged
from longtail.modules.encoders.base import Encoder
from longtail.modules.encoders.decoders import is_causal, must_read_alone, see_ahead
from longtail.modules.encoders.layers import groups_by_layer
from longtail.modules.encoders.pooling import WindowPool, Windows, pooled
from longtail.modules.encoders.sentence_folder import (
    POOLING,
    SentenceFolder,
    first_numbers,
    linear,
    read_layers,
    write_layers,
    write_sentence_folder,
)
from longtail.modules.encoders.sub_batches import by_length
from longtail.shards.shard import step_seed
from longtail.text.huggingface import TransformerTokenizer, model_folder, open_pretrained, quiet, read_if_there
from longtail.text.tokens import PaddedTokens, Tokens

PRECISIONS = ("auto", "bfloat16", "float32")  # the first is bfloat16 on a GPU
_SMALL = 384  # wide, as MiniLM is, of which it was measured
WEIGHTS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class TransformerEncoder(Encoder):
    """x = normalise(P pool(h_1 .. h_T)), with h the last hidden states of a transformer and P an optional projection.

    Rows are sorted by length and run in a few sub-batches of similar length, so that short texts do not pay for long
    ones. Neither padding nor the rest of a batch changes a row's vector.

    With ``texts_at_once``, activations are held of so many texts: a sub-batch of at most that many is encoded once for
    the loss, and once more for its gradients when their turn comes, with the same random numbers. So a batch of any
    size needs the memory of a few texts and of a vector a token, for a third more work. Source: gradient caching (Gao
    et al., 2021), here by checkpoints (Chen et al., 2016), so that losses need not know.

    Several layers can be joined (`join`): x is then that of each of them, side by side, before its length is made 1.

    Args:
        name: the transformer, as in `longtail.text.huggingface.model_folder`.
        max_length: tokens a text may have; None takes what the folder says.
        windows: of ``max_length`` tokens that a text is read in, at most: its pooled states are the mean over them.
            None takes what a folder that `save` wrote says, else 1.
        window_pooling: ``mean``, or ``attention`` for a mean whose weights are learned (`WindowPool`). None takes what
            is in such a folder, else the mean. Weights that are learned go on from there for as many windows.
        stride: tokens of the text from the beginning of a window to that of the next; None takes what is in one.
        pooling: ``mean`` of the hidden states of a text's tokens, ``cls``, the first of them, or ``last``. None takes
            what a sentence-transformers folder says, else the last of a decoder, and the mean of any other.
        bidirectional: whether each token of a decoder, too, sees those behind it (LLM2Vec, BehnamGhader et al., 2024).
        document_prefix: what a document's text begins with, as an instruction; None takes what the folder says.
        label_prefix: the same of labels.
        projection: D, the width of a linear layer on top. None takes what a sentence-transformers folder has, else no
            such layer.
        seed: draws the start of a new projection.

    Attributes:
        name: as above; of an encoder that `load` opened, its folder.
        texts_at_once: whose activations are held in training; None for all of a batch.
        precision: of products, one of `PRECISIONS`: what layers compute with, while vectors are float32; weights that
            are bfloat16 (`hold`) compute in bfloat16 whatever it is.
        layer_decay: what a layer's learning rate is times that of the layer above; embeddings are the lowest.
        weight_decay: of weights, but not of biases and normalisations, decoupled from the gradient.
        eight_bits: whether an optimiser's moments of its matrices have 8 bits.
        widths: so many first numbers of a vector are made good by themselves; a step of training has one of them.
        layers: whose hidden states are joined, counted from 1; none for those of the last one, and the projection.
        given: has vectors from before (`longtail.modules.encoders.given`), and encodes the texts that are new, if any.

    Raises:
        LongtailError: there is no such model, or its folder asks for a layer that this encoder does not have.
        MissingExtra: a package that it needs is not installed.
    """

    tokenizer: TransformerTokenizer
    texts_at_once: int | None = None
    precision: str = "auto"
    layer_decay: float = 1.0
    weight_decay: float = 0.0
    eight_bits: bool = False
    widths: Sequence[int] = ()
    layers: tuple[int, ...] = ()
    given: Callable[[PaddedTokens, Callable[[PaddedTokens], Tensor]], Tensor] | None = None
    _lora: Any = None  # the configuration of adapters, where there are some
    _compiled: Any = None  # what steps of training compute the layers by, where they are compiled

    def __init__(
        self,
        name: str | Path,
        *,
        max_length: int | None = None,
        windows: int | None = None,
        stride: int | None = None,
        window_pooling: str | None = None,
        pooling: str | None = None,
        bidirectional: bool = False,
        document_prefix: str | None = None,
        label_prefix: str | None = None,
        projection: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        folder, self.name = model_folder(name), str(name)
        self.backbone = open_pretrained("AutoModel", folder).float()
        must_read_alone(self.backbone)
        hidden = int(self.backbone.config.hidden_size)
        said = SentenceFolder.read(folder, hidden)
        self.pooling = pooling or said.pooling or ("last" if is_causal(self.backbone) else "mean")
        if self.pooling not in POOLING:
            problem = f"expected one of {', '.join(POOLING)}, found {self.pooling}"
            raise BadInput("pooling", problem, remedy="change the pooling")
        cut = Windows.read(folder).but(windows, stride, window_pooling)
        plain = TransformerTokenizer(folder, max_length, windows=cut.windows, stride=cut.stride)
        given = {"document_prefix": document_prefix, "label_prefix": label_prefix}
        self.tokenizer, self._label_tokenizer = (
            plain.prefixed(stated, f"{name} of {folder}") if own is None else plain.prefixed(own, name)
            for (name, own), stated in zip(given.items(), said.prefixes, strict=True)
        )
        self.backbone.config.use_cache = False  # of a decoder, which is to write nothing
        if bidirectional:
            see_ahead(self.backbone)
        if getattr(self.backbone, "pooler", None) is not None:
            self.backbone.pooler.requires_grad_(requires_grad=False)  # its output is not read
        self.tokenizer.must_suit(self.backbone, folder)
        self.projection = said.projection
        if projection is not None:
            start = torch.randn(projection, hidden, generator=torch.Generator().manual_seed(seed)) * hidden**-0.5
            self.projection = linear({"linear.weight": start})
        self.width = hidden if self.projection is None else self.projection.out_features
        self.windows = WindowPool(cut, hidden)
        if joined := read_layers(folder):
            self.join(joined)
        self.windows.read(folder)

    def hold(self, weights: str) -> None:
        """Hold the transformer in numbers of another kind, a key of `WEIGHTS`; a projection stays float32."""
        self.backbone.to(WEIGHTS[weights])

    @property
    def learning_rate(self) -> float:
        """What suits it: more for one that is no wider than MiniLM (docs/guides/encoders.md)."""
        return 3e-4 if self.backbone.config.hidden_size <= _SMALL else 1e-4

    @property
    def depth(self) -> int:
        """How many layers it has."""
        return int(self.backbone.config.num_hidden_layers)

    def join(self, layers: Sequence[int]) -> None:
        """Read these layers, in [1, depth], in place of the last one; a projection, which is of that, is let go.

        Raises:
            BadInput: vectors have nested widths, which those of joined layers have not.
        """
        if self.widths:
            problem = "vectors of joined layers have no nested widths"
            raise BadInput("widths", problem, remedy="leave it out")
        self.layers, self.projection = tuple(layers), None
        self.width = len(layers) * int(self.backbone.config.hidden_size)
        self.windows = WindowPool(self.windows.cut, self.width)

    @classmethod
    def make(
        cls, *, name: str, corpus: Iterable[str], width: int, ends: bool, generator: torch.Generator, **own: Any
    ) -> TransformerEncoder:
        """An encoder by its name or folder; see `longtail.modules.encoders.named.make_encoder`."""
        del corpus, width, ends, generator  # which others start from
        return cls(name, **own)

    @property
    def label_tokenizer(self) -> TransformerTokenizer:
        """Makes the tokens of labels, with their own prefix."""
        return self._label_tokenizer

    def nest(self, widths: Sequence[int]) -> None:
        """Cut vectors to the largest of some widths, and let training make each of them good by itself.

        A vector's first numbers are then a vector of their own. In a step, all texts have one of the widths, drawn at
        random; the mean over steps is the mean of the losses over widths. Source: Matryoshka representation learning
        (Kusupati et al., 2022), eq. 1.

        Args:
            widths: at least one.

        Raises:
            BadInput: one is larger than the vectors are.
        """
        if (widest := max(widths)) > self.width:
            problem = f"expected widths up to {self.width}, which the transformer has, found {widest}"
            raise BadInput("widths", problem, remedy="leave it out")
        if widest < self.width:
            self.projection = first_numbers(self.projection, self.width, widest)
        self.width, self.widths = widest, sorted(set(widths))

    def recompute(self) -> None:
        """Hold what goes into each layer in training, and compute the rest once more for gradients.

        Source: checkpoints (Chen et al., 2016), section 4, with a segment a layer.

        Raises:
            BadInput: transformers cannot do so with this model.
        """
        if not self.backbone.supports_gradient_checkpointing:
            problem = f"expected a transformer that transformers checkpoints, found {type(self.backbone).__name__}"
            raise BadInput("recompute", problem, remedy="leave it out, or give texts_at_once")
        new = getattr(self.backbone, "activation_checkpointing_enable", None)  # which older versions call otherwise
        (new or self.backbone.gradient_checkpointing_enable)({"use_reentrant": False})

    def compile_layers(self) -> None:
        """Have training compute by what `torch.compile` makes of them; without gradients, texts are encoded as ever."""
        self._compiled = torch.compile(self.backbone.forward, dynamic=True)  # batches have many widths

    def adapt(self, rank: int, *, seed: int) -> None:
        """Train low-rank adapters instead of the weights; see `longtail.modules.encoders.adapters.add_lora`."""
        self.backbone.requires_grad_(requires_grad=False)
        self._lora = add_lora(self.backbone, rank, name=self.name, seed=seed)

    def parameter_groups(self, rate: float) -> list[dict[str, Any]]:
        """Groups for an optimiser; see `longtail.modules.encoders.layers.groups_by_layer`."""
        decays = {"layer_decay": self.layer_decay, "weight_decay": self.weight_decay}
        below = [(name, parameter) for name, parameter in self.named_parameters() if not name.startswith("windows.")]
        mix = [] if self.windows.mix is None else [self.windows.mix.group(rate)]
        tables = [part.weight for part in self.backbone.modules() if isinstance(part, nn.Embedding)]
        groups = groups_by_layer(below, self.depth, rate, tables=tables, **decays, in_eight_bits=self.eight_bits)
        return [*groups, *mix]

    def forward(self, text: Tokens) -> Tensor:
        """Encode B texts as (B, D) float32 rows of unit length."""
        assert isinstance(text, PaddedTokens)
        return self._new(text) if self.given is None or torch.is_grad_enabled() else self.given(text, self._new)

    def _new(self, text: PaddedTokens) -> Tensor:
        windows, of = text.windows(self.tokenizer.max_length)
        states = self.windows(self._encoded(windows), of, len(text))  # (B, H), of (S, H)
        vectors = states if self.projection is None else self.projection(states)  # (B, D)
        if self.widths and self.training and torch.is_grad_enabled():
            width = self.widths[step_seed() % len(self.widths)]
            vectors = F.pad(vectors[:, :width], (0, self.width - width))
        return F.normalize(vectors)

    def _encoded(self, text: PaddedTokens) -> Tensor:
        """One (B, H) row of pooled states a text, or a window of one."""
        held = self.texts_at_once if torch.is_grad_enabled() else None
        order, lengths, ends = by_length(text.mask, held)
        counts = np.diff(ends).tolist()
        words = self.backbone.get_input_embeddings()(text.ids[order])  # (B, T, H), once: its gradient is a whole table
        parts = [
            self.pooled_states(some_words[:, :width], some_mask[:, :width])
            if held is None
            else checkpoint(self.pooled_states, some_words[:, :width], some_mask[:, :width], use_reentrant=False)
            for some_words, some_mask, width in zip(
                torch.split(words, counts),
                torch.split(text.mask[order], counts),
                lengths[ends[1:] - 1].tolist(),
                strict=True,
            )
        ]
        return torch.cat(parts)[order.argsort()]

    def pooled_states(self, words: Tensor, mask: Tensor) -> Tensor:
        """One (B, H) float32 vector a row of (B, T, H) word embeddings."""
        asked = self.precision == "bfloat16" or (self.precision == "auto" and words.device.type == "cuda")
        half = asked or words.dtype == torch.bfloat16
        run = self.backbone
        if self._compiled is not None and torch.is_grad_enabled():
            run, words = self._compiled, words.contiguous()  # a part of wider rows would be compiled apart
        with torch.autocast(words.device.type, torch.bfloat16, enabled=half):
            found = run(inputs_embeds=words, attention_mask=mask.long(), output_hidden_states=bool(self.layers))
        states = [found.hidden_states[layer] for layer in self.layers] or [found.last_hidden_state]
        hidden = torch.cat(states, 2).float()  # (B, T, H), or (B, T, H) of each layer side by side
        return pooled(hidden, mask, self.pooling)

    def save(self, folder: Path) -> None:
        """Write a folder that ``SentenceTransformer`` and ``transformers.AutoModel.from_pretrained`` open.

        The former then encodes as this encoder does, if it does not join layers (of several windows, the first); the
        latter gives the hidden states. Adapters are in its weights, and by themselves in a folder ``adapter``, which
        ``peft`` opens. Weights that are held in bfloat16 are written so where there are no adapters.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with quiet():
            self.backbone.save_pretrained(folder) if self._lora is None else save_merged(folder, self.backbone)
        if self._lora is not None:
            save_lora(folder / "adapter", self.backbone, self._lora)
        self.tokenizer.save(folder)
        write_sentence_folder(
            folder,
            pooling=self.pooling,
            width=int(self.backbone.config.hidden_size),
            texts={"max_seq_length": self.tokenizer.max_length, "do_lower_case": self.tokenizer.lower_case},
            projection=self.projection,
            prefixes=(self.tokenizer.prefix, self.label_tokenizer.prefix),
        )
        self.windows.save(folder)
        write_layers(folder, self.layers)

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> TransformerEncoder:
        """Read what `save` wrote, or any other folder that the class takes, in eval mode.

        Weights that the folder has in bfloat16 are held so: a model then ranks as it did when it was trained.
        """
        encoder, said = cls(folder), read_if_there(folder / "config.json", dict)
        if "bfloat16" in {said.get("dtype"), said.get("torch_dtype")}:  # as versions of transformers call it
            encoder.hold("bfloat16")
        return encoder.to(device).eval()
