"""Random walks with restart on a graph: which nodes lie near a row, by the exact law of the walk and not by chance."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from longtail.data.sparse import CSR, digest, heaviest, load_csr, row_blocks, save_csr, take_entries
from longtail.errors import BadInput
from longtail.files import kept

_TOLERANCE = 1e-3  # of a row's weight may be in the wrong place


def walk(edges: CSR, *, restart: float = 0.8, keep: int = 20, beam: int = 64, hub_degree: int = 500) -> CSR:
    """Where a random walk with restart from each row is found: the expected share of its visits to each node.

    Each hop of the walk leads to a node. With probability ``restart`` it starts at the row itself and takes one of
    its edges; otherwise it starts at the last node, and goes to one of the rows of that node and on to a node of that
    row. Edges are taken in proportion to their weights. So a visit is h hops away with probability p (1 - p)^(h - 1),
    and with A (R, M) and B (M, R) the edges normalised by row and by node, the shares are

        ``W = sum over h of p (1 - p)^(h - 1) A (B A)^(h - 1)``, which is ``W = p A + (1 - p) W (B A)``.

    The second form is iterated until less than 0.001 of a row's weight can be in another place (four times for
    p = 0.8). This is the law of the walk that RAMEN simulates (Mittal et al., 2025, appendix A: 400 hops, restart
    0.8): the same on every machine, without a seed. Entries beyond ``beam`` a row are dropped between rounds, which
    moves weight only where a row reaches more nodes than that.

    Memory beside the two matrices: about 0.6 GB for a block's product, and 8 bytes for each of at most ``M beam``
    entries of B A.

    Args:
        edges: (R, M) weights, none of them negative.
        restart: p in (0, 1], the probability that a hop starts at the row.
        keep: the heaviest nodes that are kept of a row.
        beam: the heaviest nodes that are kept of a row between rounds.
        hub_degree: a node with more rows than this is cut off first: a walk that comes there may go anywhere.

    Returns:
        (R, M) float32, at most ``keep`` entries a row, columns ascending; a row without edges stays empty.
    """
    if not 0 < restart <= 1:
        raise BadInput("restart", f"expected a probability above 0, found {restart}", remedy="the papers take 0.8")
    edges = without_hubs(edges, hub_degree)
    forward, back = _by_row(edges), _by_row(edges.T.tocsr())  # A (R, M), B (M, R)
    degrees = np.diff(forward.indptr)
    hops = [heaviest(back[rows] @ forward, beam) for rows in row_blocks((back != 0) @ degrees)]
    step = sparse.vstack([*hops, CSR((0, edges.shape[1]), dtype=np.float32)], format="csr")  # B A (M, M)
    rounds = 0 if restart == 1 else max(0, math.ceil(math.log(_TOLERANCE) / math.log(1 - restart)) - 1)
    parts = []
    for rows in row_blocks(np.maximum(degrees, beam) * min(beam, edges.shape[1])):
        first = forward[rows]
        visits = first
        for _ in range(rounds):
            visits = heaviest(restart * first + (1 - restart) * (visits @ step), beam)
        parts.append(heaviest(visits, keep))
    found = sparse.vstack([*parts, CSR((0, edges.shape[1]), dtype=np.float32)], format="csr")
    found.sort_indices()
    return CSR((found.data, found.indices.astype(np.int64), found.indptr.astype(np.int64)), shape=edges.shape)


def cached_walk(edges: CSR, cache: Path | None, **settings: Any) -> CSR:
    """`walk`, done once for the same edges and settings, and read from a file from then on.

    Args:
        edges: (R, M).
        cache: a folder that keeps walks, keyed by the hash of edges and settings; None keeps nothing.
        settings: of `walk`.
    """
    if cache is None:
        return walk(edges, **settings)
    key = hashlib.sha256(f"{digest(edges)} {sorted(settings.items())}".encode()).hexdigest()
    folder = cache / f"walk-{key[:32]}"
    return kept(folder, lambda: save_csr(walk(edges, **settings), folder), load_csr)


def without_hubs(edges: CSR, hub_degree: int) -> CSR:
    """The edges without those of nodes that more than ``hub_degree`` rows have."""
    kept = np.bincount(edges.indices, minlength=edges.shape[1])[edges.indices] <= hub_degree
    return take_entries(edges, kept)


def _by_row(edges: CSR) -> CSR:
    """Rows that sum to 1, or are empty."""
    shares = edges.data / np.repeat(edges.sum(1), np.diff(edges.indptr))
    ids = (edges.indices.astype(np.int32), edges.indptr.astype(np.int32))  # a third less memory, and faster
    return CSR((shares.astype(np.float32), *ids), shape=edges.shape)
