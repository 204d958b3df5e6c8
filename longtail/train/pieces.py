"""A stage that is solved piece by piece, and not trained in steps: what is done of it is kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from longtail.data.sparse import CSR, load_csr, row_blocks, save_csr, stacked
from longtail.memory import resident_bytes
from longtail.topk import FloatArray, IntArray
from longtail.train.plan import timed
from longtail.train.run import Run

_PIECE = 2**23  # operations of a piece, in the units that a stage counts its work in: some seconds
_SAMPLE = 128  # rows that a plan measures
_WEIGHT = 12  # bytes of a number and its column


def piecewise(run: Run, stage: str, make: Callable[[IntArray], CSR], work: FloatArray, columns: int) -> CSR:
    """Rows that are made some at a time, (R, columns). A run that is killed goes on with the first piece that it lacks.

    Of several processes each makes all pieces, and the first one keeps them.

    Args:
        run: keeps the pieces, and says how far it is.
        stage: its name, unique in the run.
        make: the rows of some numbers out of [0, R), which ascend.
        work: (R,) what each row takes, in any unit.
        columns: of a row.
    """
    if run.plan is not None:
        return _planned(run, stage, make, work, columns)
    parts = [np.arange(part.start, part.stop) for part in row_blocks(work, _PIECE)]
    found = [CSR((0, columns), dtype=np.float32)]
    with run.log.parts(stage):
        run.log.start(stage, steps=len(parts), done=0)
        for number, rows in enumerate(parts):
            folder = run.folder / "stages" / stage / f"{number:05d}" if run.folder and run.ranks.first else None
            found.append(_kept(folder, partial(make, rows)))
            run.log.step({}, len(rows), 0, 0.0)
            run.progress.account()
        run.log.stop()
    whole = stacked(found)
    run.log.say(f"{stage}: {whole.shape[0]:,} separators with {whole.nnz:,} weights")
    return whole


def _kept(folder: Path | None, make: Callable[[], CSR]) -> CSR:
    """A piece: that of a folder, where it is there."""
    if folder is not None and folder.is_dir():
        return load_csr(folder)
    piece = make()
    if folder is not None:
        save_csr(piece, folder)
    return piece


def _planned(run: Run, stage: str, make: Callable[[IntArray], CSR], work: FloatArray, columns: int) -> CSR:
    """Rows without an entry, with the time and the memory of all in the plan, by those of some."""
    assert run.plan is not None
    if len(work):
        usual = np.flatnonzero(work <= np.median(work))  # few rows, of nodes near a root, take far more
        some = usual[max(0, (len(usual) - _SAMPLE) // 2) :][:_SAMPLE]  # next to each other, as in a piece
        weights: list[int] = []
        share = work.sum(dtype=np.float64) / work[some].sum(dtype=np.float64)
        seconds = run.plan.once(("pieces", stage), lambda: timed(lambda: weights.append(make(some).nnz)))
        size = int(_WEIGHT * len(work) / len(some) * run.plan.once(("weights", stage), lambda: weights[0]))
        run.plan.kept += size
        run.plan.add(stage, share * seconds, held=resident_bytes() + run.plan.kept + size)  # the pieces, and the whole
    return CSR((len(work), columns), dtype=np.float32)
