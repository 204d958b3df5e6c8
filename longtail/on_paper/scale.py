"""How large a task is: what is learned from, by what, and in how many processes."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, expm1, log1p
from typing import Any, NamedTuple

from longtail.on_paper.work import Machine

NUMBER, IDS = 4, 8  # bytes of a float32, and of the number of a row
_HEAPS, _POWER = 10.5, 0.716  # distinct features of F: measured on titles of an encyclopaedia, from 1,000 texts on
_KEPT = 0.46  # of the features of all texts those that two of them have, on the same titles
MOST_FEATURES = 400_000  # of a bag encoder
_FEATURES = 6.7  # of a word: itself and its 4-grams, on the same titles; and a pair for each two neighbours
_PIECES = 1.4  # tokens of a transformer a word; and two more
LETTERS = 7.0  # bytes of a word, with what parts it from the next


class EncoderShape(NamedTuple):
    """An encoder's numbers.

    Attributes:
        width: D of its vectors; 0 for what the options say.
        parameters: numbers that are trained, without those of tables.
        layers: of a transformer; 0 for a bag of features, all of which is a table.
        hidden: width within it.
        inner: width within its feed-forward layers.
        heads: of its attention.
    """

    width: int = 0
    parameters: float = 0
    layers: int = 0
    hidden: int = 0
    inner: int = 0
    heads: int = 0


ENCODERS = {  # as their configurations say
    "bag": EncoderShape(),
    "minilm": EncoderShape(384, 22.7e6, 6, 384, 1536, 12),
    "distilbert": EncoderShape(768, 66.4e6, 6, 768, 3072, 12),
    "mpnet": EncoderShape(768, 109.5e6, 12, 768, 3072, 12),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A task, and who works on it.

    Attributes:
        documents: N that are learned from, without those held out.
        held_out: documents that a fusion is learned on.
        labels: L.
        words: of a text.
        labels_of: true labels of a document.
        tests: documents of the evaluation.
        world: V processes, each with one shard of a step.
        machine: of each process.
        encoder: its shape.
        o: the options of the recipe.
    """

    documents: float
    held_out: float
    labels: float
    words: float
    labels_of: float
    tests: float
    world: int
    machine: Machine
    encoder: EncoderShape
    o: Any

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return ceil(self.documents / int(self.o.batch))

    @property
    def encoder_width(self) -> int:
        """E, of the encoder's vectors."""
        return int(self.encoder.width or self.o.width)

    @property
    def projection(self) -> int:
        """The width of projections on top of it; 0 for none."""
        return int(getattr(self.o, "projection", 0))

    @property
    def width(self) -> int:
        """D, of what is compared."""
        return self.projection or self.encoder_width

    @property
    def features(self) -> float:
        """Features of a text in a bag encoder."""
        return _FEATURES * self.words + max(0.0, self.words - 1)

    @property
    def known_features(self) -> float:
        """Features that a bag encoder keeps, as `longtail.text.bag.BagTokenizer.fit` does."""
        return min(float(MOST_FEATURES), _KEPT * distinct_features((self.documents + self.labels) * self.features))

    @property
    def tokens(self) -> float:
        """Tokens of a text that a transformer reads."""
        return min(float(self.o.max_length), _PIECES * self.words + 2)

    def numbers_of(self, *texts: str) -> float:
        """The numbers of the vectors of ``documents``, ``labels`` or both."""
        return sum(float(getattr(self, name)) for name in texts) * self.width

    @property
    def others(self) -> float:
        """The share of a vector's rows that other processes have: (V - 1) / V."""
        return (self.world - 1) / self.world


def distinct_features(count: float) -> float:
    """Distinct features among so many: at most as many (Heaps' law)."""
    return min(count, _HEAPS * float(count**_POWER))


def distinct(draws: float, of: float) -> float:
    """Distinct ones among so many draws, with replacement, out of ``of``: of (1 - (1 - 1 / of)^draws)."""
    return float(-of * expm1(draws * log1p(-1 / of))) if of > 1 else min(draws, of)
