"""Ray as the engine of a job: its workers read and rank, and this process writes what comes, part by part."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from longtail.bulk.job import Table, naming_row
from longtail.bulk.parts import Part
from longtail.bulk.ranker import Ranker
from longtail.errors import BadInput, LongtailError, MissingExtra


def on_ray(
    ranker: Ranker, parts: Sequence[Part], batch: int, *, workers: int | None = None
) -> Iterator[Iterable[Table]]:
    """The engine that ranks in Ray, on the cluster that ``RAY_ADDRESS`` names, or in processes of this machine.

    A worker that dies is started again, and gets the rows again that it had.

    Args:
        ranker: what ranks; its run and the parts must be there under the same paths for every worker.
        parts: of one schema.
        batch: rows that are ranked at a time.
        workers: processes that rank; by default as many as there are CPUs, without the one that reads.

    Raises:
        MissingExtra: Ray is not installed.
        BadInput: a row has no text that can be read, or the run was changed meanwhile.
        LongtailError: Ray ended with an error of its own.
    """
    if not parts:
        return
    state = ranker.state
    rows = _Rows(_ranked(ranker, parts, batch, workers))
    for part in parts:
        yield _of_part(rows, part, ranker, batch)
        if ranker.state != state:  # workers open the run when they start
            problem = "expected the run as it was when the job began, found it changed"
            raise BadInput(ranker.run, problem, remedy="remove the results, and start the job again")


def _of_part(rows: _Rows, part: Part, ranker: Ranker, batch: int) -> Iterator[Table]:
    exceptions = importlib.import_module("ray.exceptions")
    try:
        yield from rows.take(part.footer()[1])
    except exceptions.RayError as error:
        _say_which_row(ranker, part, batch)
        raise LongtailError(f"Ray: {_cause(error)}; see its log, and give the same command to go on") from error


def _say_which_row(ranker: Ranker, part: Part, batch: int) -> None:
    """Raise the error of a row without a text that can be read, if it is that; a worker knows no parts."""
    for before, rows in part.batches(batch):
        with naming_row(part, before):
            ranker.read(rows)


def _cause(error: BaseException) -> str:
    """What an error of Ray says in the end, below the tracebacks of its processes."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


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
        context = ray.data.DataContext.get_current().copy()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = context.print_on_execution_start = False
        place = parts[0].place
        with ray.data.DataContext.current(context):
            data = ray.data.read_parquet(
                [part.place.path for part in parts],
                filesystem=None if place.is_local else place.system,
                partitioning=None,
            )
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
    try:
        ray = importlib.import_module("ray")
        importlib.import_module("ray.data")
    except ImportError:
        raise MissingExtra("ray", extra="ray", purpose="the engine ray") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    if ray.is_initialized():
        return ray, False
    if "RAY_ADDRESS" in os.environ:
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    else:  # one more, which reads
        cpus = (workers or os.cpu_count() or 1) + 1
        ray.init("local", num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    return ray, True
