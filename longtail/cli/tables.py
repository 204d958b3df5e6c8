"""``longtail list``: what there is of each kind, from the tables that the code reads itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from longtail.batches.samplers import SAMPLERS
from longtail.cli.json_file import JsonFile, console_beside, keep_json
from longtail.compare.peers import PEERS
from longtail.compare.peers import about as about_peer
from longtail.errors import BadInput
from longtail.losses import LOSSES
from longtail.metrics.ranking import METRICS
from longtail.modules.encoders.named import ENCODERS
from longtail.recipes import RECIPES
from longtail.search import INDEXES
from longtail.train.trackers import TRACKERS
from longtail.transforms import TRANSFORMS

TABLES: dict[str, Callable[[], Mapping[str, str]]] = {
    "recipes": lambda: {name: (recipe.__doc__ or "").partition("\n")[0] for name, recipe in RECIPES.items()},
    "encoders": lambda: {name: kind.about for name, kind in ENCODERS.items()},
    "losses": lambda: {name: kind.about for name, kind in LOSSES.items()},
    "transforms": lambda: {name: kind.about for name, kind in TRANSFORMS.items()},
    "samplers": lambda: {name: kind.about for name, kind in SAMPLERS.items()},
    "indexes": lambda: {name: kind.about for name, kind in INDEXES.items()},
    "metrics": lambda: {name: metric.about for name, metric in METRICS.items()},
    "trackers": lambda: {name: kind.about for name, kind in TRACKERS.items()},
    "peers": lambda: {name: about_peer(name) for name in PEERS},
}


def tables(
    kind: Annotated[str | None, typer.Argument(help=f"One of {', '.join(TABLES)}; all if left out.")] = None,
    json_file: JsonFile = None,
) -> None:
    """List recipes, encoders, losses, transforms, samplers, indexes, metrics, trackers and peers, a line each."""
    if kind is not None and kind not in TABLES:
        raise BadInput("list", f"expected one of {', '.join(TABLES)}, found {kind}", remedy="choose one of those")
    console = console_beside(json_file, highlight=False)
    shown = {title: dict(rows()) for title, rows in TABLES.items() if kind in (None, title)}
    for title, rows in shown.items():
        table = Table(title, "", box=SIMPLE_HEAD, pad_edge=False)
        for name, about in rows.items():
            table.add_row(escape(name), escape(about))
        console.print(table)
    keep_json(json_file, shown)
