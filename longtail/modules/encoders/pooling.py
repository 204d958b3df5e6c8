"""Hidden states to one vector of a text: of the tokens of a window, and of the windows that a long text is read in."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from longtail.errors import BadInput
from longtail.files import write_json
from longtail.modules.encoders.mixing import Mix
from longtail.text.huggingface import GET_AGAIN, read_if_there

POOLING_OF_WINDOWS = ("mean", "attention")
_WINDOWS, _MIX = "windows.json", "windows.safetensors"


def pooled(hidden: Tensor, mask: Tensor, how: str) -> Tensor:
    """One vector of the hidden states of each text, or window of one.

    Args:
        hidden: (B, T, H).
        mask: (B, T), False on padding.
        how: ``cls``, ``last`` or ``mean``.

    Returns:
        (B, H).
    """
    if how == "cls":
        return hidden[:, 0]
    if how == "last":
        return hidden[torch.arange(len(hidden), device=hidden.device), mask.sum(1) - 1]
    return (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


class Windows(NamedTuple):
    """How a long text is cut (`longtail.text.huggingface.TransformerTokenizer`), and what is made of its windows.

    Attributes:
        windows: at most.
        stride: tokens from the beginning of one to that of the next; None for no overlap.
        pooling: one of `POOLING_OF_WINDOWS`.
    """

    windows: int = 1
    stride: int | None = None
    pooling: str = "mean"

    @classmethod
    def read(cls, folder: Path) -> Windows:
        """What a `WindowPool` wrote, if anything.

        Raises:
            BadInput: it is something else.
        """
        said = read_if_there(folder / _WINDOWS, dict)
        cut = cls(said.get("windows", 1), said.get("stride"), said.get("pooling", "mean"))
        numbers = isinstance(cut.windows, int) and cut.windows >= 1 and isinstance(cut.stride, (int, type(None)))
        if not numbers or cut.pooling not in POOLING_OF_WINDOWS:
            problem = f"expected numbers of windows and stride, and mean or attention, found {said}"
            raise BadInput(folder / _WINDOWS, problem, remedy=GET_AGAIN)
        return cut

    def but(self, windows: int | None, stride: int | None, pooling: str | None) -> Windows:
        """The same but for what is given; one window has neither a stride nor a pooling but what is given."""
        count = self.windows if windows is None else windows
        kept = self if count > 1 else Windows()
        return Windows(count, kept.stride if stride is None else stride, pooling or kept.pooling)


class WindowPool(nn.Module):
    """The vectors of the windows of a text to one: their mean, or a mean with weights that are learned (`Mix`).

    Args:
        cut: how texts are cut.
        width: H of the vectors.

    Raises:
        BadInput: there is one window, and its weight is to be learned.
    """

    def __init__(self, cut: Windows, width: int) -> None:
        super().__init__()
        if cut.pooling == "attention" and cut.windows == 1:
            raise BadInput("window_pooling", "expected several windows, found 1", remedy="give windows, as 4")
        self.cut = cut
        self.mix = Mix(cut.windows, width) if cut.pooling == "attention" else None

    def forward(self, vectors: Tensor, of: Tensor, count: int) -> Tensor:
        """Pool the windows of B texts.

        Args:
            vectors: (S, H).
            of: (S,) int64 ascending in [0, B), whose each is.
            count: B.

        Returns:
            (B, H).
        """
        if len(vectors) == count:
            return vectors
        if self.mix is None:
            sums = vectors.new_zeros(count, vectors.shape[1]).index_add(0, of, vectors)
            return sums / of.bincount(minlength=count)[:, None]
        place = torch.arange(len(of), device=of.device) - torch.searchsorted(of, of)
        mixed: Tensor = self.mix(vectors, of, place, count)
        return mixed

    def save(self, folder: Path) -> None:
        """Note how texts are cut, where they are, and learned weights; sentence-transformers has no place for it."""
        if self.cut.windows > 1:
            write_json(folder / _WINDOWS, self.cut._asdict())
        if self.mix is not None:
            self.mix.save(folder / _MIX)

    def read(self, folder: Path) -> None:
        """Take learned weights from a folder that `save` wrote, where they are of as many windows; see `Mix.read`."""
        found = Windows.read(folder)
        if self.mix is not None and (found.windows, found.pooling) == (self.cut.windows, self.cut.pooling):
            self.mix.read(folder / _MIX)
