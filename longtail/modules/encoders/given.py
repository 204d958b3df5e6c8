"""Vectors that a transformer has given: a text that comes again is not encoded again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import load_arrays, save_arrays
from longtail.errors import BadInput
from longtail.files import remove_folder
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
        self._in_cache = 0  # of the places, the first

    def __len__(self) -> int:
        return len(self._places)

    def of(self, text: PaddedTokens, encode: Callable[[PaddedTokens], Tensor]) -> Tensor:
        """The vectors of B texts, (B, D).

        Args:
            text: (B, T).
            encode: gives the vectors of those that are new; of texts that are the same, of one.
        """
        if 4 * self._vectors.shape[1] * len(self) >= _MOST:
            self._places, self._in_cache = {}, 0
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

    def save(self, cache: Path, name: str) -> None:
        """Write the vectors that are new to a cache, as a folder of their own, if there are some."""
        since, self._in_cache = self._in_cache, len(self)
        if since == len(self):
            return
        keys = list(self._places)[since:]
        folder = cache / f"{name}-{hashlib.sha256(b''.join(keys)).hexdigest()[:16]}"
        if not folder.is_dir():
            tokens = np.frombuffer(b"".join(keys), np.int32)
            ends = np.cumsum([len(key) // 4 for key in keys])
            save_arrays(folder, dict(zip(_ARRAYS, (tokens, ends, self._vectors[since : len(self)]), strict=True)))

    def load(self, cache: Path, name: str) -> None:
        """Add what a cache has under a name; what is not as it was written is removed."""
        for folder in sorted(cache.glob(f"{name}-*")):
            try:
                tokens, ends, vectors = load_arrays(folder, _ARRAYS, mapped=True)
            except BadInput:
                remove_folder(folder)
                continue
            keys = [row.tobytes() for row in np.split(np.asarray(tokens, np.int32), ends[:-1])]
            new = [row for row, key in enumerate(keys) if key not in self._places]
            self._add([keys[row] for row in new], vectors[new])
        self._in_cache = len(self)


@contextmanager
def each_text_once(encoders: Iterable[nn.Module], cache: Path | None = None) -> Iterator[None]:
    """Let transformers that encode without gradients encode a text once, for as long as this context lasts.

    Transformers of the same weights share what they give: texts that they cut into other windows have other tokens. It
    takes 4 bytes a number of the vector of each text, a gigabyte at most.

    Args:
        encoders: transformers as their folders, which are their names, have them, and are left while this lasts; others
            are used as ever.
        cache: a folder that may have vectors from before, and gets those that are new; none if left out.
    """
    used, given = [one for one in encoders if isinstance(one, TransformerEncoder)], dict[str, Given]()
    for encoder in used:
        name = f"vectors-{model_digest(model_folder(encoder.name))[:32]}"
        if name not in given:
            given[name] = Given(encoder.width)
            if cache is not None:
                given[name].load(cache, name)
        encoder.given = given[name].of
    try:
        yield
        if cache is not None:
            for name, one in given.items():
                one.save(cache, name)
    finally:
        for encoder in used:
            encoder.given = None
