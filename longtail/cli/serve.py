"""``longtail serve``, ``longtail index`` and ``longtail bench serve``."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from longtail.cli.json_file import JsonFile, console_beside, keep_json
from longtail.cli.run_folder import Device, RunFolder
from longtail.data.io.formats import lines
from longtail.errors import MissingExtra
from longtail.model.label_set import LabelSet
from longtail.model.saved import must_be_trained
from longtail.search import INDEXES
from longtail.search.faiss import EXACT_BELOW

_METHODS = "; ".join(f"{name}: {kind.about}" for name, kind in INDEXES.items() if kind.load is not None)
bench_app = typer.Typer(help="Measure a server.", no_args_is_help=True)


def serve(
    run: RunFolder,
    host: Annotated[str, typer.Option(help="The address to bind to; 0.0.0.0 is every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(help="Processes; they share the model's memory.", min=1)] = 1,
    threads: Annotated[int | None, typer.Option(help="Of the model, in each process.", min=1)] = None,
    queue: Annotated[int, typer.Option(help="Texts that may wait; then 429.", min=1)] = 1024,
    deadline: Annotated[float, typer.Option(help="Seconds that a request may wait; then 503.")] = 2.0,
    head_timeout: Annotated[
        float, typer.Option(help="Seconds in which the head of a request must arrive; then it is closed.", min=0.1)
    ] = 10.0,
    client_connections: Annotated[int, typer.Option(help="Connections of one address, in each process.", min=1)] = 1000,
    exact: Annotated[bool, typer.Option("--exact", help="Leave approximate searches aside.")] = False,
    log_level: Annotated[str, typer.Option(help="debug logs every request.")] = "info",
    device: Device = "auto",
) -> None:
    """Serve a run's model over HTTP (docs/guides/serving.md), with a page at /.

    Labels can be changed with the token that the environment variable LONGTAIL_TOKEN holds.
    """
    if importlib.util.find_spec("fastapi") is None or importlib.util.find_spec("uvicorn") is None:
        raise MissingExtra("fastapi", extra="serve", purpose="longtail serve")
    from longtail.serve.service import Settings  # noqa: PLC0415  (an extra)
    from longtail.serve.start import serve as start  # noqa: PLC0415
    from longtail.serve.start import threads_of  # noqa: PLC0415

    must_be_trained(run)
    settings = Settings(
        run.absolute(),
        device=device,
        threads=threads or threads_of(workers),
        exact=exact,
        queue=queue,
        deadline=deadline,
        client_connections=client_connections,
        head_timeout=head_timeout,
    )
    start(settings, host=host, port=port, workers=workers, level=log_level)


def index(
    run: RunFolder,
    recall: Annotated[float, typer.Option(help="At 10, against exact search.", min=0.01, max=1.0)] = 0.95,
    method: Annotated[str | None, typer.Option(help=f"{_METHODS}. By default the first that fits in --memory.")] = None,
    memory: Annotated[float | None, typer.Option(help="GiB that the index may take.")] = None,
    kind: Annotated[str | None, typer.Option(help="The score kind; the best if left out.")] = None,
    device: Device = "auto",
) -> None:
    """Build an approximate index, which serve and predict then use: for 300,000 labels and more.

    Its recall is measured against exact search, with texts of labels as queries, and kept with it.
    """
    console = Console(highlight=False)
    label_set = LabelSet(run, device=device, exact=True)
    base = label_set.snapshot.base
    labels, kind = len(base.labels), kind or base.scorer().name
    if labels < EXACT_BELOW:
        console.print(f"{labels:,} labels: exact search is as good below {EXACT_BELOW:,}, and needs no index.")
    made = label_set.index(kind, target=recall, method=method, memory=memory)
    label_set.close()
    console.print(
        f"{made.method} over {made.labels:,} labels, {kind} score, in {made.seconds:,.0f} s: recall@{made.k} "
        f"{made.recall:.3f} on {made.queries:,} queries, looking at {made.effort} candidates or cells"
    )


@bench_app.command("serve")
def bench_serve(
    url: Annotated[str, typer.Argument(help="Of a server on this machine.")] = "http://127.0.0.1:8000",
    rate: Annotated[float, typer.Option(help="Requests a second, whether or not they are answered.")] = 100.0,
    seconds: Annotated[float, typer.Option(help="How long.", max=3600)] = 60.0,
    changes: Annotated[float, typer.Option(help="Labels added a second, and as many removed; needs the token.")] = 0.0,
    texts: Annotated[
        Path | None, typer.Option(help="One text a line; by default texts of the server's labels.")
    ] = None,
    k: Annotated[int, typer.Option(help="Labels a text.", min=1)] = 5,
    batch: Annotated[int, typer.Option(help="Texts a request.", min=1)] = 1,
    json_file: JsonFile = None,
) -> None:
    """Send requests at a steady rate and print how long answers take: an open loop, loopback addresses only."""
    from longtail.serve.load_test import LoadTest, figures, report, run  # noqa: PLC0415  (only where it is needed)

    asked = () if texts is None else tuple(lines(texts))
    results = asyncio.run(
        run(LoadTest(url, rate=rate, seconds=seconds, changes=changes, texts=asked, k=k, batch=batch))
    )
    found = figures(results, seconds)
    console_beside(json_file, highlight=False, soft_wrap=True).print(report(found))
    keep_json(json_file, found)
    if any(result.error for result in results):
        raise typer.Exit(1)
