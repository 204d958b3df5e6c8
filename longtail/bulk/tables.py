"""Labels for the rows of a CSV or TSV table: the same table, with the columns that a ranker adds."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TextIO

from longtail.bulk.ranker import BadRow, Ranker
from longtail.data.io.tables import csv_rows
from longtail.errors import BadInput
from longtail.files import replacing


def predict_table(ranker: Ranker, table: Path, output: Path, *, batch: int) -> int:
    """Rank labels for each row of a table, and write its columns, as they are, with those of the ranker behind them.

    A cell that is added is a JSON list, as `longtail.data.io.imports.import_tables` reads it: of labels, of scores.

    Args:
        ranker: says which column holds the texts, and what is added.
        table: a ``.csv`` or ``.tsv`` file in UTF-8, whose first line names the columns; ``.gz`` behind that is read.
        output: a ``.csv`` or ``.tsv`` file, which is there whole or not at all.
        batch: rows that are read and ranked at a time.

    Returns:
        The number of rows.

    Raises:
        BadInput: the table is malformed, lacks the column of the texts, or has one of those that are added.
    """
    cells = csv_rows(table)
    _, names = next(cells)
    block = list(islice(cells, batch))
    if not block:
        raise BadInput(table, "holds no record, expected at least 1", remedy="write one text a row")
    ranker.must_fit(names, str(table))
    rows = 0
    with replacing(output) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(_Lines(file), delimiter="\t" if output.suffix.lower() == ".tsv" else ",")
        writer.writerow([*names, *ranker.added])
        while block:
            writer.writerows(_with_answers(ranker, table, names, block))
            rows += len(block)
            block = list(islice(cells, batch))
    return rows


class _Lines(NamedTuple):
    """Ends each row in a line feed alone; as the writer ends them in a return, too, it quotes a cell that has one."""

    file: TextIO

    def write(self, row: str) -> None:
        self.file.write(row.removesuffix("\r\n") + "\n")


def _with_answers(
    ranker: Ranker, table: Path, names: Sequence[str], block: Sequence[tuple[int, list[str]]]
) -> Iterator[list[str]]:
    """The cells of rows, with the lists that are added."""
    columns = dict(zip(names, zip(*(cells for _, cells in block), strict=True), strict=True))
    try:
        added = ranker.columns(columns)
    except BadRow as error:
        raise BadInput(table, error.problem, line=block[error.row][0], remedy=error.remedy) from None
    for (_, cells), *lists in zip(block, *added.values(), strict=True):
        yield [*cells, *(json.dumps(one, ensure_ascii=False) for one in lists)]
