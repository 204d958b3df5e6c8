"""Vectors that a transformer has given: a text that comes again is not encoded again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import load_arrays, save_arrays
from longtail.files import kept
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.text.huggingface import model_digest, model_folder
from longtail.text.tokens import PaddedTokens
from longtail.topk import FloatArray

_ARRAYS = ("tokens", "ends", "vectors")
_MOST = 2**30  # bytes of vectors, after which it begins anew


class Given:
    """The vectors that one transformer has given, by the tokens of their texts.

    Args:
        width: D, of a vector.
    """

    def __init__(self, width: int) -> None:
        self._places: dict[bytes, int] = {}
        self._vectors = np.empty((0, width), np.float32)  # as many rows as there are places, or more

    def __len__(self) -> int:
        return len(self._places)

    def of(self, text: PaddedTokens, encode: Callable[[PaddedTokens], Tensor]) -> Tensor:
        """The vectors of B texts, (B, D).

        Args:
            text: (B, T).
            encode: gives the vectors of those that are new; of texts that are the same, of one.
        """
        if 4 * self._vectors.shape[1] * len(self) >= _MOST:
            self._places = {}
        ids = text.ids.to(torch.int32).cpu().numpy()
        lengths = text.mask.sum(1).tolist()
        keys = [row[:length].tobytes() for row, length in zip(ids, lengths, strict=True)]
        new = {key: row for row, key in enumerate(keys) if key not in self._places}
        if new:
            rows = torch.tensor(list(new.values()), device=text.ids.device)
            self._add(list(new), encode(PaddedTokens(text.ids[rows], text.mask[rows])).cpu().numpy())
        return torch.from_numpy(self._vectors[[self._places[key] for key in keys]]).to(text.ids.device)

    def _add(self, keys: list[bytes], vectors: FloatArray) -> None:
        before = len(self)
        self._places |= {key: place for place, key in enumerate(keys, start=before)}
        if len(self) > len(self._vectors):
            more = max(len(self), 2 * len(self._vectors)) - before
            self._vectors = np.concatenate([self._vectors[:before], np.empty((more, vectors.shape[1]), np.float32)])
        self._vectors[before : len(self)] = vectors

    def save(self, folder: Path) -> None:
        """Write all of them into a new folder, which appears whole or not at all."""
        tokens = np.frombuffer(b"".join(self._places), np.int32)
        ends = np.cumsum([len(key) // 4 for key in self._places])
        save_arrays(folder, dict(zip(_ARRAYS, (tokens, ends, self._vectors[: len(self)]), strict=True)))

    def load(self, folder: Path) -> None:
        """Have what `save` wrote, and nothing else."""
        tokens, ends, vectors = load_arrays(folder, _ARRAYS)
        self._places = {row.tobytes(): place for place, row in enumerate(np.split(tokens, ends[:-1]))}
        self._vectors = vectors


@contextmanager
def each_text_once(encoders: Iterable[nn.Module]) -> Iterator[Mapping[str, Given]]:
    """Let transformers that encode without gradients encode a text once, for as long as this context lasts.

    Transformers of the same weights share what they give: texts that they cut into other windows have other tokens. It
    takes 4 bytes a number of the vector of each text, a gigabyte at most.

    Args:
        encoders: transformers as their folders, which are their names, have them, and are left while this lasts; others
            are used as ever.

    Yields:
        What transformers have given, by a hash of their weights.
    """
    used, given = [one for one in encoders if isinstance(one, TransformerEncoder)], dict[str, Given]()
    for encoder in used:
        weights = model_digest(model_folder(encoder.name))
        encoder.given = given.setdefault(weights, Given(encoder.width)).of
    try:
        yield given
    finally:
        for encoder in used:
            encoder.given = None


def ask_first(given: Mapping[str, Given], texts: str, ask: Callable[[], object], cache: Path | None) -> None:
    """Have transformers give the vectors of some texts before any others, or take them from a cache.

    How a vector is rounded depends a little on the texts that it is encoded beside. So whoever asks about the same
    texts first has the same bits, whichever of them it needs.

    Args:
        given: inside `each_text_once`, and still empty.
        texts: a hash of them.
        ask: encodes them.
        cache: a folder that keeps their vectors by both hashes; None for none.
    """
    if cache is None:
        if given:
            ask()
        return
    for weights, one in given.items():
        folder = cache / f"vectors-{hashlib.sha256(f'{weights} {texts}'.encode()).hexdigest()[:32]}"

        def save(one: Given = one, folder: Path = folder) -> None:
            ask()
            one.save(folder)

        kept(folder, save, one.load)
