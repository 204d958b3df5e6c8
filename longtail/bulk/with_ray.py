"""Ray as the engine of a job: its workers read and rank, and this process writes what comes, part by part."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from longtail.bulk.job import Engine, Table, naming_row
from longtail.bulk.parts import Part
from longtail.bulk.ranker import Ranker, State
from longtail.errors import BadInput, LongtailError, MissingExtra


def on_ray(workers: int | None = None) -> Engine:
    """The engine that ranks in Ray, on the cluster that ``RAY_ADDRESS`` names, or in processes of this machine.

    Workers read and rank, and send the rows here, where they are written. One that dies is started again, and gets the
    rows that it had once more. The run and the parts must be there under the same paths for every worker, and the parts
    must be of one schema.

    Args:
        workers: processes that rank; by default as many as there are CPUs, without one that reads.

    Raises:
        MissingExtra: Ray is not installed.
    """
    _ray()
    return partial(_parts, workers=workers)


def _ray() -> Any:
    try:
        importlib.import_module("ray.data")
        return importlib.import_module("ray")
    except ImportError:
        raise MissingExtra("ray", extra="ray", purpose="the engine ray") from None


def _parts(ranker: Ranker, parts: Sequence[Part], batch: int, workers: int | None) -> Iterator[Iterable[Table]]:
    """The ranked rows of each part.

    Raises:
        BadInput: a row has no text that can be read, or the run was changed meanwhile.
        LongtailError: Ray ended with an error of its own.
    """
    if not parts:
        return
    state = ranker.state
    rows = _Rows(_ranked(ranker, parts, batch, workers))
    for i, part in enumerate(parts):
        yield _of_part(rows, part, ranker, state, partial(_say_which_row, ranker, parts[i:], batch))


def _of_part(
    rows: _Rows, part: Part, ranker: Ranker, state: State, say_which_row: Callable[[], None]
) -> Iterator[Table]:
    try:
        yield from rows.take(part.footer()[1])
    except _ray().exceptions.RayError as error:
        say_which_row()
        raise LongtailError(f"Ray: {_cause(error)}; see its log, and give the same command to go on") from error
    if ranker.state != state:  # workers open the run when they start
        problem = "expected the run as it was when the job began, found it changed"
        raise BadInput(ranker.run, problem, remedy="choose another folder for the results, and start again")


def _say_which_row(ranker: Ranker, parts: Sequence[Part], batch: int) -> None:
    """Raise the error of a row without a text that can be read, if there is one; a worker knows no parts."""
    for part in parts:
        for before, rows in part.batches(batch):
            with naming_row(part, before):
                ranker.read(rows)


def _cause(error: BaseException) -> str:
    """What an error of Ray says of the first that went wrong, which is the last line of the first of its tracebacks."""
    first = str(error).partition("\nThe above exception")[0].strip()
    return first.rpartition("\n")[2] or type(error).__name__


class _Rows:
    """Rows that come as tables, to be taken so many at a time."""

    def __init__(self, tables: Iterator[Table]) -> None:
        self._tables, self._left = tables, iter(())

    def take(self, rows: int) -> Iterator[Table]:
        """The next rows, or those that there are."""
        while rows:
            table = next(chain(self._left, self._tables), None)
            if table is None:
                return
            self._left = iter([table.slice(rows)] if len(table) > rows else [])
            yield table.slice(0, rows)
            rows -= min(rows, len(table))


def _ranked(ranker: Ranker, parts: Sequence[Part], batch: int, workers: int | None) -> Iterator[Table]:
    """The rows of all parts, ranked, in order."""
    ray, started = _connected(workers)
    try:
        count = workers or max(1, int(ray.cluster_resources().get("CPU", 1)) - 1)
        place = parts[0].place
        data = ray.data.read_parquet(
            [part.place.path for part in parts],
            filesystem=None if place.is_local else place.system,
            partitioning=None,
        )
        data.context.execution_options.preserve_order = True
        data.context.enable_progress_bars = data.context.print_on_execution_start = False
        data = data.repartition(target_num_rows_per_block=batch).map_batches(
            Ranker,
            fn_constructor_args=[ranker.run],
            fn_constructor_kwargs={name: value for name, value in vars(replace(ranker)).items() if name != "run"},
            compute=ray.data.ActorPoolStrategy(size=count),
            num_gpus=1 if ranker.device.startswith("cuda") else None,
            batch_size=batch,
            batch_format="pyarrow",
        )
        yield from data.iter_batches(batch_size=None, batch_format="pyarrow")
    finally:
        if started:
            ray.shutdown()


def _connected(workers: int | None) -> tuple[Any, bool]:
    """Ray, and whether it was started here."""
    ray = _ray()
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    if ray.is_initialized():
        return ray, False
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if "RAY_ADDRESS" in os.environ:
        ray.init(**quiet)
    else:  # one CPU more, which reads
        ray.init("local", num_cpus=(workers or os.cpu_count() or 1) + 1, include_dashboard=False, **quiet)
    return ray, True
