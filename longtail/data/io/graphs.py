"""Reading and writing metadata graphs: node texts, and edges of training documents and labels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from longtail.data.graph import Graph
from longtail.data.io.formats import Report, excerpt, read_sparse, stop
from longtail.data.io.records import read_lines
from longtail.data.io.writing import write_lines, write_sparse
from longtail.data.sparse import CSR
from longtail.errors import BadInput

_NAME = re.compile(r"\w(?:[\w .-]{0,98}[\w-])?")  # a file, and no way out of its folder


def is_path_below(path: str) -> bool:
    """Whether every part of a path is a name that a file of a data set may have: it leads nowhere out of its folder."""
    return bool(path) and all(map(_NAME.fullmatch, PurePosixPath(path).parts))


def check_name(name: str, where: Path | str, report: Report = stop) -> bool:
    """Whether a graph's name can be part of the names of its files; what is wrong with another is reported.

    Args:
        name: of the graph.
        where: it stands.
        report: gets the problem.
    """
    if _NAME.fullmatch(name):
        return True
    problem = f"expected a name of letters, digits and '_ .-' for a graph, at most 100, found {excerpt(name)}"
    report(BadInput(where, problem, remedy="give it another name"))
    return False


@dataclass(frozen=True, slots=True)
class GraphFiles:
    """Where a graph is kept.

    Attributes:
        nodes: one node text a line.
        train: ``rows nodes`` header, then ``node:weight`` pairs, one line a training document; or None.
        label: the same for the labels; or None.
    """

    nodes: Path
    train: Path | None
    label: Path | None


def read_graph(
    files: GraphFiles, *, documents: int, labels: int, encoding: str = "utf-8", report: Report = stop
) -> Graph:
    """Read a graph and hold it against the data set.

    Args:
        files: where it is.
        documents: N, the training documents.
        labels: L.
        encoding: of the node texts.
        report: gets the problems that reading can go on after.

    Raises:
        BadInput: a file is missing or malformed, a node id is not in [0, M), or N, L and M do not agree.
    """
    nodes = read_lines(files.nodes, encoding, report)
    if not len(nodes):
        report(BadInput(files.nodes, "the file is empty", remedy="write one node text a line"))

    def edges(path: Path | None, rows: int, side: str) -> CSR | None:
        if path is None:
            return None
        matrix = read_sparse(path, what="node id", report=report)
        if matrix.shape != (rows, len(nodes)):
            problem = f"expected {rows} {side} x {len(nodes)} nodes of {files.nodes.name}, found {matrix.shape[0]}"
            remedy = "are the files of one version of the data set?"
            report(BadInput(path, f"{problem} x {matrix.shape[1]}", line=1, remedy=remedy))
            return None
        return matrix

    return Graph(nodes, edges(files.train, documents, "training documents"), edges(files.label, labels, "labels"))


def write_graph(folder: Path, name: str, graph: Graph) -> dict[str, str]:
    """Write a graph into a data set folder.

    Returns:
        What ``dataset.json`` says of it: the names of its files, relative to the folder.

    Raises:
        BadInput: its name is none that files may have (`check_name`).
    """
    check_name(name, "graphs")
    files = {"nodes": f"raw_data/{name}.raw.txt.gz"}
    (folder / "raw_data").mkdir(exist_ok=True)
    write_lines(folder / files["nodes"], (" ".join(text.splitlines()) for text in graph.nodes))
    for side, short, matrix in (("train", "trn", graph.train), ("label", "lbl", graph.label)):
        if matrix is not None:
            files[side] = f"{name}_{short}_X_Y.txt.gz"
            write_sparse(folder / files[side], matrix)
    return files
