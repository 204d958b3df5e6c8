"""The convolution encoder of InceptionXML: word vectors, mixed across positions, convolved along their own numbers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from longtail.errors import BadInput
from longtail.modules.encoders.base import Encoder
from longtail.modules.encoders.static import start_from
from longtail.modules.table import Table, load_module_state, module_state, unit
from longtail.text.tokens import PaddedTokens, Tokens
from longtail.text.words import WordTokenizer

_STRIDE = 4
_KERNELS = (4, 8, 16)  # of the three branches
_LAST = 16  # kernel of the layer after them


class ConvolutionEncoder(Encoder):
    """x = normalise(h + gelu(S h)), with h from word vectors by attention and two layers of convolutions.

    Source: InceptionXML (Kharbanda et al., 2023), section 3. A text is a matrix of T word vectors, each E wide. Words
    attend to each other, and so do the E numbers of a vector; each of C filters mixes the T positions; then three
    convolutions in parallel, and one more, run along the E numbers, and not along the words. The width of a text's
    vector follows from that: 480 for 32 filters and word vectors 300 wide.

    In evaluation a row's vector does not depend on the rest of its batch; in training the normalisation of each channel
    is that of the batch.

    Args:
        tokenizer: knows the V words, and T.
        embedding: E, the width of a word's vector; a multiple of 4, and 8 at least.
        filters: C.
        dropout: share of the numbers that are dropped in a step, of word vectors, of channels and of h.
        generator: draws the start of everything.

    Raises:
        BadInput: the width is not one that the convolutions divide.
    """

    tokenizer: WordTokenizer

    def __init__(
        self,
        tokenizer: WordTokenizer,
        embedding: int,
        *,
        filters: int = 32,
        dropout: float = 0.25,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if embedding < 2 * _STRIDE or embedding % _STRIDE:
            problem = f"expected a multiple of {_STRIDE} from {2 * _STRIDE} on, found {embedding}"
            raise BadInput("width", problem, remedy="change the width of the word vectors")
        self.tokenizer, self.dropout = tokenizer, dropout
        long = embedding // _STRIDE  # positions after the three branches
        last = min(_LAST, long)
        self.width = filters * ((long - last) // _STRIDE + 1)
        self.table = Table(torch.randn(len(tokenizer), embedding, generator=generator) * embedding**-0.5)
        self.across_words = Attention(tokenizer.max_length, generator)
        self.across_numbers = Attention(embedding, generator, transposed=True)
        self.mix = nn.Linear(tokenizer.max_length, filters)
        self.mixed = nn.BatchNorm1d(filters)
        self.branches = nn.ModuleList(nn.Conv1d(filters, filters, kernel, stride=_STRIDE) for kernel in _KERNELS)
        self.branched = nn.BatchNorm1d(len(_KERNELS) * filters)
        self.join = nn.Conv1d(len(_KERNELS) * filters, filters, last, stride=_STRIDE)
        self.joined = nn.BatchNorm1d(filters)
        self.hidden = Bounded(self.width, self.width, generator)
        for layer in (self.mix, *self.branches, self.join):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)

    @classmethod
    def make(
        cls, *, corpus: Iterable[str], width: int, max_length: int, generator: torch.Generator, **_: object
    ) -> ConvolutionEncoder:
        """An encoder that knows the words of a corpus; see `longtail.modules.encoders.named.make_encoder`."""
        return cls(WordTokenizer.fit(corpus, max_length=max_length), width, generator=generator)

    def forward(self, text: Tokens) -> Tensor:
        """Encode B texts as (B, D) float32 rows of unit length."""
        assert isinstance(text, PaddedTokens)
        words = self._drop(self.table.sequences(text))  # (B, T, E), T of the longest text
        mixed = self.across_numbers(self.across_words(words, words), words)  # (B, T, E)
        h = self.mix.weight[:, : mixed.shape[1]] @ mixed + self.mix.bias[:, None]  # (B, C, E)
        h = _normalised(self.mixed, F.gelu(h))
        branches = zip(self.branches, _KERNELS, strict=True)
        h = torch.cat([branch(_around(h, kernel)) for branch, kernel in branches], 1)  # (B, 3 C, E / 4)
        h = self._drop(_normalised(self.branched, F.gelu(h)))
        h = _normalised(self.joined, F.gelu(self.join(h))).flatten(1)  # (B, D)
        return unit(h + F.gelu(self.hidden(self._drop(h))))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def start_from(self, path: Path) -> tuple[int, int]:
        """Start the rows of known words from static vectors; see `longtail.modules.encoders.static.start_from`."""
        return start_from(self.table, self.tokenizer.words, path)

    def save(self, folder: Path) -> None:
        """Write ``words.json`` and ``convolution.safetensors``."""
        self.tokenizer.save(folder)
        save_file(module_state(self), folder / "convolution.safetensors")

    @classmethod
    def load(cls, folder: Path) -> ConvolutionEncoder:
        """Read what `save` wrote."""
        state = load_file(folder / "convolution.safetensors")
        encoder = cls(
            WordTokenizer.load(folder),
            state["table"].shape[1],
            filters=len(state["mix.bias"]),
            generator=torch.Generator(),
        )
        load_module_state(encoder, state)
        return encoder


class Attention(nn.Module):
    """x + g (x y^T) (W x), with W of spectral norm 1 and g learned from 0; or the same for the transposed matrices.

    Source: InceptionXML, section 3, after the self-attention of SAGAN (Zhang et al., 2019), without its softmax. What
    is multiplied first is what costs least. A row that is all zeros stays so.

    Args:
        channels: rows of x and y, at most; columns, exactly, if transposed.
        generator: draws the start of W.
        transposed: x + g ((x W^T) y^T) x, which attends across columns.
    """

    def __init__(self, channels: int, generator: torch.Generator, *, transposed: bool = False) -> None:
        super().__init__()
        self.project = Bounded(channels, channels, generator, bias=False)
        self.gain = nn.Parameter(torch.zeros(()))
        self.transposed = transposed

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Attend.

        Args:
            x: (B, T, E).
            y: (B, T, E).
        """
        if self.transposed:
            alike = self.project(x) @ y.mT  # (B, T, T)
        else:
            alike = x @ y.mT @ self.project.bounded()[: x.shape[1], : x.shape[1]]  # (B, T, T)
        return torch.addcmul(x, self.gain, alike @ x)


class Bounded(nn.Module):
    """A linear layer whose weights are divided by their largest singular value (Miyato et al., 2018).

    Args:
        into: numbers that it reads.
        out: numbers that it gives.
        generator: draws the start of the weights, and of the singular vector that training keeps close to the right one
            by one step of the power method each time that it is read.
        bias: whether it has one.
    """

    def __init__(self, into: int, out: int, generator: torch.Generator, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(out, into), generator=generator))
        self.bias = nn.Parameter(torch.zeros(out)) if bias else None
        self.register_buffer("left", torch.randn(out, generator=generator))
        self.left: Tensor
        for _ in range(15):
            self._improve()

    @torch.no_grad()
    def _improve(self) -> None:
        right = F.normalize(self.weight.mT @ self.left, dim=0)
        self.left.copy_(F.normalize(self.weight @ right, dim=0))

    def bounded(self) -> Tensor:
        """The weights over their largest singular value, (out, into)."""
        if self.training:
            self._improve()
        left = self.left.clone()  # the next call may move it before the backward pass of this one
        largest: Tensor = torch.linalg.vector_norm(self.weight.mT @ left).clamp(min=1e-12)
        return self.weight / largest

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, into) to (B, out)."""
        return F.linear(x, self.bounded(), self.bias)


def _around(x: Tensor, kernel: int) -> Tensor:
    """A circle of numbers, (B, C, E), with as much of its other end on both sides as gives E / 4 positions."""
    side = (kernel - _STRIDE) // 2
    longer: Tensor = F.pad(x, (side, side), mode="circular")
    return longer


def _normalised(layer: nn.BatchNorm1d, h: Tensor) -> Tensor:
    """Each channel normalised, (B, C, n); a single number has no variance, and is taken as in evaluation."""
    if h.shape[0] * h.shape[2] == 1:
        return F.batch_norm(h, layer.running_mean, layer.running_var, layer.weight, layer.bias)
    normalised: Tensor = layer(h)
    return normalised
