"""``longtail export``: the transformers of a run as ONNX."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from longtail.cli.run_folder import OtherData, RunFolder
from longtail.model.exporting import K
from longtail.model.exporting import export as exported


def export(
    run: RunFolder,
    int8: Annotated[bool, typer.Option("--int8", help="Round weights and activations to 8 bits.")] = False,
    tolerance: Annotated[float, typer.Option(help=f"How much lower recall@{K} may be.", min=0.0, max=1.0)] = 0.001,
    data: OtherData = None,
) -> None:
    """Write the transformers of a run as ONNX, which predict, serve and evaluate then use on a CPU.

    Labels are ranked for up to 1,000 test documents, or texts of labels where there are none, with and without; an
    export that ranks less well is not kept. To take one back, remove its folder (docs/guides/export.md).
    """
    found, console = exported(run, int8=int8, tolerance=tolerance, data=data), Console(highlight=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("encoder", f"recall@{K}", "MB", "texts a second"):
        table.add_column(name, justify="left" if name == "encoder" else "right")
    for name, side in (("PyTorch", found.before), (f"ONNX, {found.numbers}", found.after)):
        table.add_row(name, f"{side.recall:.4f}", f"{side.megabytes:,.1f}", f"{side.rate:,.0f}")
    console.print(table)
    texts = "texts of labels, each with itself as its true label" if found.of_labels else "test documents"
    console.print(
        f"{found.asked:,} {texts}: {found.same:.1%} of the first {K} labels are the same, and no number of a vector "
        f"differs by more than {found.difference:.2g}.",
        soft_wrap=True,
    )
    for folder in found.folders:
        console.print(f"In {folder}, which predict, serve and evaluate use on a CPU from now on.", soft_wrap=True)
