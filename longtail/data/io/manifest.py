"""``dataset.json``: what a data set folder says of itself, and which of its files are graphs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtail.data.io.formats import Report, excerpt, raw_lines, stop
from longtail.data.io.graphs import GraphFiles, check_name, is_path_below
from longtail.data.texts import MEND_TEXT, STORABLE, storable
from longtail.errors import BadInput

NAME = "dataset.json"
FIELDS = ("title", "content")  # that a text may have; what else a document has is a further column
_FILES = ("nodes", "train", "label")  # of a graph


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of ``dataset.json``; a folder without one has its defaults.

    Attributes:
        name: of the data set; the folder's name where none is given.
        description: one sentence.
        licence: of the data.
        A: constant of the propensity model, or None: never defaulted.
        B: the other one; both are given or neither.
        encoding: of every text file of the folder.
        one_way: whether no test pair is the way back of a training pair.
        fields: those of a text that are read where no others are asked for; () where it does not say.
        graphs: the files of each graph by its name.
    """

    name: str
    description: str = ""
    licence: str = ""
    A: float | None = None
    B: float | None = None
    encoding: str = "utf-8"
    one_way: bool = False
    fields: tuple[str, ...] = ()
    graphs: Mapping[str, GraphFiles] = field(default_factory=dict)


def part(folder: Path, *names: str) -> Path | None:
    """The file of the first name that is there, plain or with ``.gz``; None where there is none.

    Raises:
        BadInput: it is there both plain and gzipped.
    """
    for name in names:
        found = [path for path in (folder / name, folder / f"{name}.gz") if path.exists()]
        if len(found) == 2:
            raise BadInput(found[0], f"is there twice, also as {found[1].name}", remedy="remove one of the two")
        if found:
            return found[0]
    return None


def read_manifest(folder: Path, report: Report = stop) -> Manifest:
    """Read ``dataset.json``; without a ``graphs`` key, graphs are found by the names of their files.

    Args:
        folder: of the data set.
        report: gets the problems that reading can go on after.

    Raises:
        BadInput: the file is not JSON, or a value is not what it must be.
    """
    path = folder / NAME
    content = _content(path, report) if path.exists() else {}
    A, B = _propensity(path, content.get("propensity"), report)
    return Manifest(
        name=_text(path, content, "name", os.fsencode(folder.resolve().name).decode(errors="replace"), report),
        description=_text(path, content, "description", "", report),
        licence=_text(path, content, "licence", "", report),
        A=A,
        B=B,
        encoding=_encoding(path, _text(path, content, "encoding", "utf-8", report), report),
        one_way=_flag(path, content, "one_way", report),
        fields=_fields(path, content.get("fields", []), report),
        graphs=_graphs(path, content["graphs"], report) if "graphs" in content else _found_graphs(folder, report),
    )


def _content(path: Path, report: Report) -> dict[str, Any]:
    """The object in the file, or an empty one where a problem was reported."""
    try:
        content = json.loads(b"".join(raw_lines(path)).decode())
    except json.JSONDecodeError as error:
        report(BadInput(path, f"is not JSON ({error.msg})", line=error.lineno, remedy="mend the line"))
        return {}
    except UnicodeDecodeError as error:
        report(BadInput(path, f"is not UTF-8 ({error})", remedy="save it as UTF-8"))
        return {}
    except (ValueError, RecursionError) as error:  # a number of too many digits, or too deep
        report(BadInput(path, f"is not JSON that can be read ({error})", remedy="mend or remove the file"))
        return {}
    if not isinstance(content, dict):
        report(BadInput(path, f"expected a JSON object, found {excerpt(content)}", remedy='write {"name": ...}'))
        return {}
    return content


def _text(path: Path, content: dict[str, Any], key: str, default: str, report: Report) -> str:
    value = content.get(key, default)
    if not isinstance(value, str):
        report(BadInput(path, f'expected a string as "{key}", found {excerpt(value)}', remedy="put it into quotes"))
        return default
    if not storable(value):
        report(BadInput(path, f'{STORABLE}, found {excerpt(value)} as "{key}"', remedy=MEND_TEXT))
        return default
    return value


def _flag(path: Path, content: dict[str, Any], key: str, report: Report) -> bool:
    value = content.get(key, False)
    if not isinstance(value, bool):
        report(BadInput(path, f'expected true or false as "{key}", found {excerpt(value)}', remedy="write one of them"))
        return False
    return value


def _fields(path: Path, value: object, report: Report) -> tuple[str, ...]:
    if isinstance(value, list) and all(name in FIELDS for name in value):
        return tuple(value)
    problem = f'expected a list of {" and ".join(FIELDS)} as "fields", found {excerpt(value)}'
    report(BadInput(path, problem, remedy='write it as ["title", "content"]'))
    return ()


def _propensity(path: Path, value: object, report: Report) -> tuple[float | None, float | None]:
    """A and B: both, or neither."""
    if value is None:
        return None, None
    remedy = '"propensity" needs two numbers, {"A": ..., "B": ...}, those that published results of the data set use'
    for key in ("A", "B"):
        if not isinstance(value, dict) or key not in value:
            given = excerpt(value)
            report(
                BadInput(path, f"expected the propensity constants A and B, {key} is missing in {given}", remedy=remedy)
            )
            return None, None
        number = value[key]
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= sys.float_info.max:
            problem = f"expected a number >= 0 as propensity constant {key}, found {excerpt(number)}"
            report(BadInput(path, problem, remedy=remedy))
            return None, None
    assert isinstance(value, dict)
    return float(value["A"]), float(value["B"])


def is_encoding(name: str) -> bool:
    """Whether a text encoding is known in which lines and ASCII are as in ASCII, and which reads on after an error."""
    try:
        return name.isprintable() and b'{"a": 10}\n'.decode(name, "replace") == '{"a": 10}\n'
    except (LookupError, ValueError):
        return False


def _encoding(path: Path, name: str, report: Report) -> str:
    if is_encoding(name):
        return name
    report(BadInput(path, f"unknown encoding {json.dumps(name)}", remedy='use "utf-8" (the default) or "latin-1"'))
    return "utf-8"


def _graphs(path: Path, given: object, report: Report) -> dict[str, GraphFiles]:
    """The graphs as ``dataset.json`` names their files."""
    graphs = {}
    remedy = 'write {"nodes": FILE, "train": FILE, "label": FILE}, with one of train and label at least'
    if not isinstance(given, dict):
        report(BadInput(path, f"graphs do not name their files, found {excerpt(given)}", remedy=remedy))
        return {}
    for name, files in given.items():
        if not check_name(name, path, report):
            continue
        pairs = files.items() if isinstance(files, dict) else ()
        named = {key: file for key, file in pairs if key in _FILES and file is not None}
        if "nodes" not in named or len(named) == 1:
            report(BadInput(path, f'graph "{name}" does not name its files, found {excerpt(files)}', remedy=remedy))
        elif wrong := [file for file in named.values() if not isinstance(file, str) or not is_path_below(file)]:
            problem = f'expected paths of files below the folder for graph "{name}", found {excerpt(wrong[0])}'
            report(BadInput(path, problem, remedy="put the files there, and name them by letters, digits and '_ .-'"))
        else:
            found = {key: path.parent / file for key, file in named.items()}
            graphs[name] = GraphFiles(found["nodes"], found.get("train"), found.get("label"))
    return graphs


def _found_graphs(folder: Path, report: Report) -> dict[str, GraphFiles]:
    """The graphs of a folder whose ``dataset.json`` names none, by their file names; hidden files are none."""
    tails = ("_trn_X_Y.txt", "_lbl_X_Y.txt")
    files = sorted(path.name.removesuffix(".gz") for path in folder.glob("*_X_Y.txt*"))
    graphs = {}
    for name in dict.fromkeys(file.removesuffix(tail) for file in files for tail in tails if file.endswith(tail)):
        nodes = part(folder, f"raw_data/{name}.raw.txt")
        if nodes is not None and not name.startswith(".") and check_name(name, folder, report):
            graphs[name] = GraphFiles(nodes, *(part(folder, f"{name}{tail}") for tail in tails))
    return graphs
