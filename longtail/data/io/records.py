"""Documents and labels as JSON lines: ``trn.json``, ``tst.json`` and ``lbl.json``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, islice
from json import JSONDecoder
from pathlib import Path
from typing import Any

import numpy as np

from longtail.data.io.formats import Report, Rows, decoded_line, excerpt, json_object, lines, raw_lines, stop
from longtail.data.sparse import CSR
from longtail.data.texts import MEND_TEXT, Strings, Texts, TextsCollector
from longtail.errors import BadInput
from longtail.topk import IntArray

_BLOCK = 256  # lines that are read at a time: what they hold fits the cache
_LISTS = {list, type(None)}
_ENDS = {"\n", "\r\n", ""}
_NOTHING: dict[str, Any] = {"title": "", "target_ind": []}  # stands in for a line that was reported
_decode = JSONDecoder().raw_decode


def read_records(
    path: Path, *, encoding: str, fields: Collection[str], columns: int | None, report: Report = stop
) -> tuple[Texts, CSR]:
    """Read records of ``uid``, ``title``, ``content`` and, for documents, ``target_ind`` and ``target_rel``.

    Any other key is a column, and read where it is asked for: a string, a number (as it is written), true or false.

    Args:
        path: of the file; line i is row i - 1.
        encoding: of the file.
        fields: which columns to keep; the title always is, and one without any text never.
        columns: L; None for a file of labels, which has no targets.
        report: gets the problems that reading can go on after.
    """
    collector, rows = TextsCollector(fields), None if columns is None else Rows()
    example = '{"title": "..."}' if columns is None else '{"title": "...", "target_ind": [3], "target_rel": [1.0]}'
    unread = raw_lines(path)
    while block := list(islice(unread, _BLOCK)):
        if not _added(block, encoding, collector, rows):
            for number, raw in enumerate(block, len(collector) + 1):
                line = decoded_line(raw, path, number, encoding, report)
                found = json_object(line.rstrip("\r\n"), path, number, report)
                for problem in _add(_NOTHING if found is None else found, collector, rows):
                    report(BadInput(path, problem, line=number, remedy=f"write a line like {example}"))
    texts = collector.texts()
    report_texts(path, texts, np.arange(1, len(texts) + 1), report)
    return texts, (rows or Rows()).matrix(path, columns or 0, first_line=1, what="label id", report=report)


def _added(block: Sequence[bytes], encoding: str, collector: TextsCollector, rows: Rows | None) -> bool:
    """Whether a block of lines could be added at one go: where anything is odd about one of them, none is added."""
    try:
        said = [raw.decode(encoding) for raw in block]
        found = [_decode(line) for line in said]
        if not {line[end:] for line, (_, end) in zip(said, found, strict=True)} <= _ENDS:
            return False
        records = [record for record, _ in found]
        columns = [[text.encode("utf-8", "surrogatepass") for text in _column(records, key)] for key in collector.keys]
        if rows is not None:
            ids, weights = _column(records, "target_ind"), [record.get("target_rel") for record in records]
            if not {*map(type, ids), *map(type, weights)} <= _LISTS or not _are_numbers(ids, weights):
                return False
            rows.add_all(ids, weights)
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError, OverflowError):
        return False
    collector.extend(columns)
    return True


def _are_numbers(ids: Iterable[Iterable[object] | None], weights: Iterable[Iterable[object] | None]) -> bool:
    """Whether there are whole numbers in the first and numbers in the second; true and false are none."""
    found, others = ({*map(type, chain.from_iterable(filter(None, lists)))} for lists in (ids, weights))
    return found <= {int} and others <= {int, float}


def _column(records: Sequence[dict[str, Any]], key: str) -> list[Any]:
    """What records hold under a key; only the title and the targets must be there."""
    if key in {"title", "target_ind"}:
        return [record[key] for record in records]
    if key in {"uid", "content"}:
        return [record.get(key, "") for record in records]
    return [plain(record.get(key)) for record in records]


def plain(value: object) -> str:
    """A value of a further column as text; nothing for none.

    Raises:
        TypeError: it is a list, or an object.
    """
    if isinstance(value, (str, bool, int, float)):
        return value if isinstance(value, str) else json.dumps(value)
    if value is None:
        return ""
    raise TypeError(f"expected text or a number, found {excerpt(value)}")


def _add(record: dict[str, Any], collector: TextsCollector, rows: Rows | None) -> list[str]:
    """Add a record, with nothing where something is wrong with it; returns what is."""
    problems: list[str] = []
    collector.add([_string(record, key, problems) for key in collector.keys])
    if rows is not None:
        _add_targets(rows, record, problems)
    return problems


def _string(record: dict[str, Any], key: str, problems: list[str]) -> str:
    """The string of a record; only the title has to be there, and what is no text of ours may be a number."""
    value = record.get(key)
    if key not in {"uid", "title", "content"}:
        try:
            return plain(value)
        except TypeError as error:
            problems.append(f'{error} as "{key}"')
            return ""
    if isinstance(value, str):
        return value
    if value is None and key == "title":
        problems.append('there is no "title"')
    elif key == "uid" and type(value) is int:
        return str(value)
    elif value is not None:
        problems.append(f'expected a string as "{key}", found {excerpt(value)}')
    return ""


def _add_targets(rows: Rows, record: dict[str, Any], problems: list[str]) -> None:
    """Add the targets of a record; none of them where they are malformed."""
    ids, weights = record.get("target_ind"), record.get("target_rel")
    lists = {type(ids), type(weights)} <= _LISTS
    try:
        rows.add(ids if not lists or _are_numbers([ids], [weights]) else None, weights)  # type: ignore[arg-type]
    except ValueError:
        rows.add()
        problems.append(f'"target_ind" has {len(ids)} ids and "target_rel" {len(weights)} weights')  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        rows.add()
        wrong, found = ("target_rel", weights) if _integers(ids) else ("target_ind", ids)
        numbers = "label ids" if wrong == "target_ind" else "weights"
        problems.append(f'expected a list of {numbers} as "{wrong}", found {excerpt(found)}')


def _integers(value: object) -> bool:
    return isinstance(value, list) and all(type(number) is int and abs(number) < 2**63 for number in value)


def report_texts(path: Path, texts: Texts, numbers: IntArray, report: Report = stop) -> None:
    """Report what may not come in (`longtail.data.texts.storable`), and a uid that was given twice.

    Args:
        path: where the texts are from.
        texts: n of them.
        numbers: (n,) int64, the line of each.
        report: gets the problems.
    """
    for i, problem in texts.unfit():
        report(BadInput(path, problem, line=int(numbers[i]), remedy=MEND_TEXT))
    _report_repeats(path, texts.uids, numbers, report)


def read_lines(path: Path, encoding: str = "utf-8", report: Report = stop) -> Strings:
    """The lines of a file as texts; one that may not come in is reported."""
    strings = Strings.of(lines(path, encoding, report))
    if found := strings.unfit():
        report(BadInput(path, found[1], line=found[0] + 1, remedy=MEND_TEXT))
    return strings


def _report_repeats(path: Path, uids: Strings, numbers: IntArray, report: Report) -> None:
    """Report a uid that was given twice.

    Args:
        path: where the uids are from.
        uids: n of them; empty ones do not count.
        numbers: (n,) int64, the line of each.
        report: gets the problem.
    """
    given = np.flatnonzero(np.diff(uids.offsets))
    keys = np.fromiter(map(hash, uids.encoded()), np.int64, len(uids))[given]
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    pairs = given[order[np.stack([same, same + 1], 1)]]  # (n, 2) rows, those of one uid ascending
    repeats = sorted((j, i) for i, j in pairs.tolist() if uids[i] == uids[j])
    if repeats:
        (j, i), more = repeats[0], f" (and {len(repeats) - 1} more repeats)" if len(repeats) > 1 else ""
        problem = f"uid {excerpt(uids[i])} is that of line {numbers[i]} too{more}"
        report(BadInput(path, problem, line=int(numbers[j]), remedy="give every text its own uid, or none"))
