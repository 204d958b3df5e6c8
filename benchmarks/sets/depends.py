"""Debian packages and the packages that they depend on, from the graph `depends` of the example data.

    python benchmarks/sets/depends.py examples/debian-packages DIR

A document is a package, its title name and short description. Its labels are the packages of its fields Depends and
Pre-Depends. Documents are the packages of the example whose dependencies it has: its training documents, and those of
its labels that are not among its test documents. Labels are documents, so there is a filter; one of them (libc6) is a
label of two fifths of the documents. The set of the whole archive is four times as large, and made by the script of the
example itself: `apt-cache dumpavail | python examples/debian-packages/build.py --relation depends --out DIR`.

Licence: facts of Debian's package index; short descriptions under the free licence of each package.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from making import Material, Source, Text, main

from longtail.data.dataset import Dataset

GRAPH = "depends"


def read(example: Path) -> Material:
    """Packages of the example data."""
    data = Dataset.read(example, test=False, graphs=(GRAPH,))
    graph = data.graphs[GRAPH]
    nodes = {_name(title): Text(title) for title in graph.nodes}
    names = list(nodes)
    documents, pairs = dict[str, Text](), dict[str, list[str]]()
    for texts, edges in ((data.train.documents, graph.train), (data.labels, graph.label)):
        if edges is not None:
            for title, (start, end) in zip(texts.fields["title"], pairwise(edges.indptr.tolist()), strict=True):
                documents[_name(title)] = Text(title)
                pairs[_name(title)] = [names[node] for node in edges.indices[start:end].tolist()]
    return Material(documents, nodes, pairs)


def _name(title: str) -> str:
    """The package of a title, "name: short description"."""
    return title.partition(": ")[0]


SOURCE = Source(
    name="depends",
    description="Packages of Debian by name and short description; the labels of a package are the packages that it "
    "depends on.",
    licence="Metadata of packages in Debian main; each short description is under the free licence of its package",
    packages=("example",),
    read=read,
)

if __name__ == "__main__":
    main(SOURCE, __doc__)
