"""The command line: every verb is a thin call of the library, and every error that a user can mend is one line."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from longtail.cli.compare import compare
from longtail.cli.data import data_app
from longtail.cli.evaluate import evaluate
from longtail.cli.labels import labels_app
from longtail.cli.predict import predict
from longtail.cli.serve import bench_app, index, serve
from longtail.cli.train import resume, train_app
from longtail.errors import LongtailError

app = typer.Typer(
    help="Rank the few relevant labels of a text out of very many.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data_app, name="data")
app.add_typer(train_app, name="train")
app.command()(resume)
app.command()(evaluate)
app.command()(predict)
app.add_typer(labels_app, name="labels")
app.command()(index)
app.command()(serve)
app.add_typer(bench_app, name="bench")
app.command()(compare)


def main() -> None:
    """Run the command line; exit status 1 with one clear line where a user can mend what is wrong."""
    try:
        app()
    except LongtailError as error:
        Console(stderr=True).print(f"longtail: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(1)
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        sys.exit(0)
