"""The bag encoder: an embedding of words, word pairs and character n-grams; it trains from nothing on a CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from longtail.data.bag import BagTokenizer
from longtail.data.tokens import BagTokens, Tokens
from longtail.errors import BadInput
from longtail.models.rows import bag_sum, unit


class BagEncoder(nn.Module):
    """x = normalise(sum over features f of weight(f) E[f]), with tf-idf weights from the tokeniser.

    The table starts from independent normal rows: the inner product of two texts is then an unbiased estimate of the
    cosine of their tf-idf vectors, so that the encoder is of use before its first step.

    Args:
        tokenizer: knows the V features.
        width: D, the width of a vector.
        generator: draws the start of the (V, D) table.
    """

    def __init__(self, tokenizer: BagTokenizer, width: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.width = width
        self.table = nn.Parameter(torch.randn(len(tokenizer), width, generator=generator) * width**-0.5)

    def forward(self, text: Tokens) -> Tensor:
        """Encode B bags as (B, D) rows of unit length; a bag without a known feature becomes a zero row."""
        assert isinstance(text, BagTokens)
        return unit(bag_sum(self.table, text))

    def start_from(self, path: Path) -> int:
        """Start the rows of known words from static vectors.

        Args:
            path: an ``.npy`` file, (n, D) float32; beside it a ``.txt`` file of the same name with its n words, one a
                line, in lower case.

        Returns:
            The number of features that were found among the words.

        Raises:
            BadInput: a file is missing, or the shapes disagree with each other or with the encoder.
        """
        words = path.with_suffix(".txt")
        for file in (path, words):
            if not file.is_file():
                raise BadInput(file, "there is no such file", remedy="static vectors are an .npy file and a .txt file")
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
        vocabulary = words.read_text(encoding="utf-8").splitlines()
        if vectors.shape != (len(vocabulary), self.width):
            problem = f"expected ({len(vocabulary)}, {self.width}), by its words and --width, found {vectors.shape}"
            raise BadInput(path, problem, remedy="give the words of these vectors, and their width")
        index = {name: i for i, name in enumerate(self.tokenizer.features)}
        known = [(index[word], i) for i, word in enumerate(vocabulary) if word in index]
        if known:
            at, source = (torch.tensor(ids) for ids in zip(*known, strict=True))
            chosen = torch.from_numpy(vectors[source.numpy()].astype(np.float32))
            with torch.no_grad():
                self.table[at] = chosen / chosen.norm(dim=1).mean().clamp(min=1e-12)
        return len(known)

    def save(self, folder: Path) -> None:
        """Write ``bag.json`` and ``bag.safetensors``."""
        self.tokenizer.save(folder)
        save_file({"table": self.table.detach().cpu().contiguous()}, folder / "bag.safetensors")

    @classmethod
    def load(cls, folder: Path) -> BagEncoder:
        """Read what `save` wrote."""
        table = load_file(folder / "bag.safetensors")["table"]
        encoder = cls.__new__(cls)
        nn.Module.__init__(encoder)
        encoder.tokenizer = BagTokenizer.load(folder)
        encoder.width = table.shape[1]
        encoder.table = nn.Parameter(table)
        return encoder
