"""What a step is made of: operations, bytes and memory of one of V processes.

Each process has B / V documents of a batch, encodes P / V labels of its pool for all, and owns a V-th of the rows of
each table (docs/guides/cluster.md). All vectors are float32, 4 bytes a number. Letters: docs/reference/shapes.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from longtail.on_paper.scale import IDS, NUMBER, Scale, distinct_features
from longtail.on_paper.work import Work

_SMALL = 50  # operations of a part of a step, or of a layer
_PASSES = 12  # over the scores of a pool, of a loss and its slopes
_HELD = 6  # numbers that are held for each score, as the plan of a run counts them
_UPDATED = 7  # rows of a table's gradient, itself and two moments that AdamW reads and writes


class Step(NamedTuple):
    """One step: its task, the documents of its batch, B, and the labels of its pool, P."""

    scale: Scale
    batch: float
    pool: float


class Trained(NamedTuple):
    """Numbers that are trained.

    Attributes:
        name: of the table, or of what else they are.
        numbers: how many.
        cut: whether they are a table, whose rows processes share out during an epoch.
        moments: of each that the optimiser keeps.
        size: bytes of a number.
    """

    name: str
    numbers: float
    cut: bool = True
    moments: int = 2
    size: int = NUMBER


class Part(NamedTuple):
    """A part of a step.

    Attributes:
        name: of it.
        work: of one process.
        trained: what it trains.
        held: bytes of the device that it takes until the step ends.
    """

    name: str
    work: Callable[[Step], Work]
    trained: Callable[[Scale], tuple[Trained, ...]] = lambda _: ()
    held: Callable[[Step], float] = lambda _: 0.0


def exchanged(rows: float, width: float, s: Scale) -> float:
    """Bytes that a process sends of vectors that all need: 2 (V - 1) / V rows width numbers.

    It makes a V-th of them, which all others get, and has gradients for those of all others.
    """
    return 2 * s.others * rows * width * NUMBER


def meetings(count: int, s: Scale) -> Work:
    """So many times that processes send each other something: a message to each other one, and one more of sizes."""
    return Work(messages=(count + 1) * (s.world - 1))


def bag_sums(texts: float, s: Scale) -> Work:
    """Sums of the rows of a table over the features of texts, forwards and backwards, and AdamW of these rows.

    F features of all texts: each process gathers F / V rows of D numbers twice, and updates the rows that they are of,
    seven times D numbers each. Sent are the features and weights of its texts to all others, 4 bytes each, and the
    texts' sums and gradients (`exchanged`).
    """
    F = texts * s.features
    row, packed = s.encoder_width * NUMBER, (2 * F + texts + s.world) / s.world * NUMBER * (s.world > 1)
    touched = min(distinct_features(F), s.known_features)
    gathered = (2 * F + _UPDATED * touched) * row / s.world
    sent = packed * (s.world - 1) + exchanged(texts, s.encoder_width, s)
    return Work(gathered=gathered, sent=sent, started=_SMALL) + meetings(3, s)


def transformer(texts: float, s: Scale, passes: float) -> Work:
    """So many passes of texts through a transformer, a backward pass being two; of one process.

    A pass of T tokens of n texts: 2 T (4 H^2 + 2 H I) a layer of width H and inner width I, and 4 T H (T / n) for its
    attention.
    """
    e, T = s.encoder, texts * s.tokens
    a_layer = 2 * T * (4 * e.hidden**2 + 2 * e.hidden * e.inner) + 4 * T * e.hidden * s.tokens
    return Work(transformer=passes * e.layers * a_layer, started=passes * e.layers * _SMALL)


def dense_update(numbers: float, s: Scale) -> Work:
    """AdamW of numbers that all processes have: 7 n numbers are read or written, and 2 (V - 1) / V n are sent."""
    return Work(streamed=_UPDATED * numbers * NUMBER, sent=exchanged(numbers, 1, s)) + meetings(2, s)


def _trains(texts: float, s: Scale, again: float = 0) -> Work:
    """One forward and one backward pass of texts; some others are encoded by a transformer once before that."""
    if not s.encoder.layers:
        return bag_sums(texts + again, s)
    once = 3 + (getattr(s.o, "texts_at_once", None) is not None) + getattr(s.o, "recompute", False)
    passes = transformer(texts / s.world, s, once) + transformer(again / s.world, s, 4)
    return passes + dense_update(s.encoder.parameters, s)


def _encoding(t: Step) -> Work:
    """Documents and labels of a pool: one forward and one backward pass, and the labels' vectors for all."""
    s = t.scale
    return _trains(t.batch + t.pool, s) + Work(sent=exchanged(t.pool, s.encoder_width, s)) + meetings(2, s)


def _of_documents(t: Step) -> Work:
    return _trains(t.batch, t.scale)


def _of_every_label(t: Step) -> Work:
    """Documents, and all labels: each process encodes those that it scores, for the loss and again for gradients."""
    return _trains(t.batch, t.scale, again=t.scale.labels)


def _second_view(t: Step) -> Work:
    """A second table of a bag encoder; an (E, E) product behind a transformer; with projections, two (E, D) ones.

    The first of these is of documents and labels, which each process projects for itself; both go back, too.
    """
    s, own = t.scale, t.batch / t.scale.world
    if not s.encoder.layers and not s.projection:
        return bag_sums(t.batch, s)
    rows = 2 * own + t.pool if s.projection else own
    return Work(products=6 * rows * s.encoder_width * s.width, started=_SMALL) + dense_update(_of_heads(s), s)


def _of_heads(s: Scale) -> float:
    return float((2 if s.projection else 1) * s.encoder_width * s.width)


def _rows_of_pool(width: int) -> Callable[[Step], Work]:
    def work(t: Step) -> Work:
        """Rows of the labels of a pool: who owns them sends them to all others, and gets gradients back.

        P / V rows are read for each process, and P / V are updated; sent are the pool's ids to each other process, and
        2 (V - 1) / V P (D + w) numbers.
        """
        s, columns = t.scale, t.scale.width + width
        gathered = (t.pool + _UPDATED * t.pool / s.world) * columns * NUMBER
        sent = IDS * t.pool * (s.world - 1) + exchanged(t.pool, columns, s)
        return Work(gathered=gathered, sent=sent, started=_SMALL) + meetings(3, s)

    return work


def _scores(width: int) -> Callable[[Step], Work]:
    def work(t: Step) -> Work:
        """Scores of B / V documents against the pool, forwards and backwards: 6 (B / V) P (D + w) operations.

        The loss passes over the (B / V, P) numbers some times.
        """
        pairs = t.batch / t.scale.world * t.pool
        columns = t.scale.width + width
        return Work(products=6 * pairs * columns, streamed=_PASSES * pairs * NUMBER, started=_SMALL)

    return work


def _all_scores(width: int, *, stepped: bool, compared: bool) -> Callable[[Step], Work]:
    def work(t: Step) -> Work:
        """Scores of the whole batch against L / V labels: 8 B (L / V) (D + w) operations.

        They are made twice (`longtail.losses.full.chunked`), and gradients go both ways. Sent are the documents and
        their gradients, 2 (V - 1) / V B (D + w) numbers, and for a softmax two numbers of each to each other process.
        A table that is stepped meanwhile is read twice and written.
        """
        s, columns = t.scale, t.scale.width + width
        own = s.labels / s.world
        streamed = (_PASSES * t.batch * own + 3 * own * columns * stepped) * NUMBER
        sent = exchanged(t.batch, columns, s) + 2 * t.batch * NUMBER * (s.world - 1) * compared
        work = Work(products=8 * t.batch * own * columns, streamed=streamed, sent=sent, started=_SMALL)
        return work + meetings(3 if compared else 2, s)

    return work


def _activations(texts: float, s: Scale) -> float:
    """What a transformer keeps of texts (Korthikanti et al., 2022, eq. 2, in 2 bytes): see `longtail.train.plan`."""
    e, size = s.encoder, 1 if not s.machine.on_host else 2
    at_once = getattr(s.o, "texts_at_once", None)
    words = 0.0 if at_once is None else 2 * NUMBER * texts * s.tokens * e.hidden / s.world
    texts = texts if at_once is None else min(texts, at_once * s.world)
    again = getattr(s.o, "recompute", False)
    whole, inputs = (1, 2 * e.layers * e.hidden) if again else (e.layers, 0)
    return words + size * texts * s.tokens * (inputs + whole * (34 * e.hidden + 5 * e.heads * s.tokens)) / s.world


def _encoder(s: Scale) -> tuple[Trained, ...]:
    if s.encoder.layers:
        return (Trained("encoder", s.encoder.parameters, cut=False),)
    return (Trained("features", s.known_features * s.encoder_width),)


def _second_table(s: Scale) -> tuple[Trained, ...]:
    if s.encoder.layers or s.projection:
        return (Trained("heads", _of_heads(s), cut=False),)
    return (Trained("features, second view", s.known_features * s.width),)


def _classifiers(width: int, moments: int = 2) -> Callable[[Scale], tuple[Trained, ...]]:
    def trained(s: Scale) -> tuple[Trained, ...]:
        kept = moments or int(getattr(s.o, "momentum", 0) > 0)
        size = 2 if getattr(s.o, "bfloat16", False) else NUMBER
        return (Trained("classifiers", s.labels * (s.width + width), moments=kept, size=size),)

    return trained


def _pairs(t: Step) -> float:
    return _HELD * NUMBER * t.batch / t.scale.world * t.pool


ENCODING = Part("encoding", _encoding, _encoder, lambda t: _activations(t.batch + t.pool, t.scale))
DOCUMENTS = Part("encoding", _of_documents, _encoder, lambda t: _activations(t.batch, t.scale))
EVERY_LABEL = Part(
    "encoding all labels",
    _of_every_label,
    _encoder,
    lambda t: (
        _activations(t.batch + min(t.scale.labels, t.scale.o.labels_at_once * t.scale.world), t.scale)
        + 3 * NUMBER * t.scale.labels * t.scale.width / t.scale.world
    ),
)
SECOND_VIEW = Part("second view", _second_view, _second_table)
CLASSIFIERS = Part("classifiers' rows", _rows_of_pool(1), _classifiers(1))
FROZEN_CLASSIFIERS = Part("classifiers' rows", _rows_of_pool(0), _classifiers(0))
SCORES = Part("scores and loss", _scores(0), held=_pairs)
CLASSIFIER_SCORES = Part("classifiers' scores and loss", _scores(1), held=_pairs)
ALL_CLASSIFIERS = Part("scores of all labels", _all_scores(1, stepped=True, compared=False), _classifiers(1, moments=0))
ALL_LABELS = Part("scores of all labels", _all_scores(0, stepped=False, compared=True))
