"""Other tools that a comparison measures, each with its recommended settings: a file each, and a row of `PEERS`.

A peer runs in a process of its own, under a Python that has its package (``__main__.py``). There its file is read by
its path, and finds `longtail.compare.peers.base`, `longtail.memory` and nothing else of longtail.
"""

from __future__ import annotations

from collections.abc import Callable

from longtail.compare.peers.base import Peer
from longtail.compare.peers.bm25 import BM25
from longtail.compare.peers.napkinxc import NapkinXC
from longtail.compare.peers.nearest_documents import Neighbours
from longtail.compare.peers.pecos import Pecos
from longtail.compare.peers.sentence_transformers import SentenceTransformers
from longtail.compare.peers.xr_transformer import XRTransformer

PEERS: dict[str, Callable[..., Peer]] = {  # the first line of a docstring is what people are told of it
    "pecos": Pecos,
    "napkinxc": NapkinXC,
    "xr-transformer": XRTransformer,
    "sentence-transformers": SentenceTransformers,
    "neighbours": Neighbours,
    "bm25": BM25,
}


def about(name: str) -> str:
    """One line about a peer, without its full stop."""
    return (PEERS[name].__doc__ or "").partition("\n")[0].rstrip(".")
