"""What is done between steps and after them: operations and bytes of one of V processes."""

from __future__ import annotations

import torch

from longtail.batches.clusters import cuts
from longtail.on_paper.parts import meetings, transformer
from longtail.on_paper.scale import IDS, LETTERS, NUMBER, Scale
from longtail.on_paper.work import Bytes, Work
from longtail.search.cells import pays, products

_ROUNDS = 12  # of a cut of clusters in two, each of which reads the vectors four times
_RESCORED = 60  # rows that an exact search scores again, for each place of a ranking
_SELECTED = 16  # passes over the scores of a search for 100 places
_PLACES, _SEARCHES = 20, 2  # of a ranking in evaluation; of a fusion that is learned


def vectors(texts: float, s: Scale) -> Work:
    """Vectors of texts that one process makes: a row gathered for each feature of a bag, or a pass of a transformer."""
    if not s.encoder.layers:
        return Work(gathered=texts * s.features * s.encoder_width * NUMBER)
    return transformer(texts, s, 1)


def encoded(texts: float, s: Scale) -> Work:
    """Vectors of texts, of which each process makes a V-th, and all have all: (V - 1) / V texts D numbers are sent."""
    return vectors(texts / s.world, s) + Work(sent=s.others * texts * s.width * NUMBER)


def joined(tables: float, s: Scale) -> Work:
    """Tables of so many bytes made whole in every process, after an epoch: each sends its V-th to all others."""
    return Work(sent=s.others * tables, streamed=2 * tables) + meetings(1, s)


def mined(length: int, s: Scale) -> Work:
    """The nearest labels of all documents, of which each process searches for a V-th, as `longtail.search.cells.Near`.

    That makes so many inner products of 2 D operations; what is found goes to all others.
    """
    queries, device = s.documents / s.world, torch.device("cpu" if s.machine.on_host else "cuda")
    flops = 2 * s.width * products(round(queries), round(s.labels), device)
    sent = s.others * s.documents * length * (IDS + NUMBER)
    if pays(round(queries), round(s.labels), device):
        return Work(products=flops, sent=sent)
    return Work(search=flops, gathered=queries * _RESCORED * length * s.width * NUMBER, sent=sent)


def clustered(s: Scale) -> Work:
    """Balanced clusters of all documents, by the first process.

    These are log2(N / size) cuts in two, each of some rounds that read the N vectors of D numbers four times.
    """
    return Work(streamed=s.documents * cuts(round(s.documents), s.o.cluster_size) * 4 * _ROUNDS * s.width * NUMBER)


def evaluated(widths: float, s: Scale, *, memory: bool) -> Work:
    """Exact search of T test documents for each score kind, by one process, which has read all texts before.

    2 T L W operations for vectors of W numbers in all, and some rows that are scored again. With a memory, the N
    documents are searched, too: 2 T N D operations.
    """
    numbers = s.labels * widths + memory * s.documents * s.width
    reading = Work(texts=s.documents + s.labels + s.tests) + vectors(s.tests, s)
    again = s.tests * _RESCORED * _PLACES * widths * NUMBER
    return reading + Work(search=2 * s.tests * numbers, gathered=again)


def fused(width: float, s: Scale) -> Work:
    """What is learned on the held-out documents, by the first process, and the keys of a memory of all others.

    Its scores, ``width`` numbers wide together, are searched for 100 labels of each document, and then what is learned
    of them some times.
    """
    pairs, keys = s.held_out * s.labels, vectors(s.documents, s) if s.o.memory else Work()
    passes = (2 + _SEARCHES) * _SELECTED
    return keys + Work(products=2 * pairs * width * (1 + _SEARCHES), streamed=passes * pairs * NUMBER)


def data_of(s: Scale) -> Bytes:
    """Texts and true pairs, all of which each process has; token tables are mapped from disk.

    Bytes of words, 8 of a text, and of each pair 4 for the label and 4 for its value.
    """
    texts = (s.documents + s.labels) * (LETTERS * s.words + IDS)
    return Bytes(host=texts + 2 * NUMBER * s.documents * s.labels_of)
