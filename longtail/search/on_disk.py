"""IVF-PQ whose lists lie on the disk: for codes that do not fit in memory, either.

Cells and codes are learned once. Labels are added shard by shard, with their ids, each to a copy that is then written,
and the lists of all shards are merged on the disk (`faiss.contrib.ondisk`). What comes out is what one index of all
labels would be.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

from longtail.search.base import Rows
from longtail.search.faiss import IVFPQ, LISTS, blocks, load_faiss, padded

_SHARD = 2**24  # labels of a shard, whose codes are held in memory


def _fill_shard_by_shard(index: Any, rows: Rows, labels: int) -> None:
    """Add the rows of L labels; their lists are in the folder for temporary files for as long as the index is there."""
    faiss, folder = load_faiss(), Path(tempfile.mkdtemp(prefix="longtail-index-"))
    weakref.finalize(index, shutil.rmtree, folder, ignore_errors=True)
    from faiss.contrib.ondisk import merge_ondisk  # noqa: PLC0415  (an extra)

    shards = []
    for start in range(0, labels, _SHARD):
        shard = faiss.clone_index(index)
        for ids in blocks(start, min(start + _SHARD, labels)):
            shard.add_with_ids(padded(rows(ids)), ids)
        shards.append(str(folder / f"{start}.faiss"))
        faiss.write_index(shard, shards[-1])
    merge_ondisk(index, shards, str(folder / LISTS))
    for path in shards:
        Path(path).unlink()


IVFPQ_ON_DISK = replace(IVFPQ, name="ivfpq-disk", fill=_fill_shard_by_shard)
