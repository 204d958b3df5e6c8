"""Build the Debian packages data set from the package index of a Debian system.

    apt-cache dumpavail | python build.py --out DIR

A document is a package, its labels are the packages that it recommends, suggests or enhances (``--relation depends``:
those that it depends on). The folder written is an XMC data set: texts and targets, filter files, metadata graphs and
``dataset.json``. The same input and seed give the same bytes. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path

RELATIONS = {"recommends": ("Recommends", "Suggests", "Enhances"), "depends": ("Pre-Depends", "Depends")}
TEST_SHARE = 0.2
LICENCE = (
    "Metadata of packages in Debian main. Names, relations, sections and tags are facts of the archive's index; each "
    "short description comes from its source package's debian/control, under the free licence (as the Debian Free "
    "Software Guidelines define it) that this package's debian/copyright states. There is no single licence."
)
# The name that opens each alternative; version constraints, architectures and build profiles follow it.
NAME = re.compile(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]*)")

Stanza = Mapping[str, str]
Named = Mapping[str, frozenset[str]]  # package or row -> names


@dataclass(frozen=True, slots=True)
class Packages:
    """The archive: what is kept of each package, by name.

    Attributes:
        texts: "name: short description".
        relations: for each relation of `RELATIONS`, the packages of the archive that a package names.
        tags: debtags.
        sections: one section a package.
        sources: one source package a package.
    """

    texts: Mapping[str, str]
    relations: Mapping[str, Named]
    tags: Named
    sections: Named
    sources: Named


@dataclass(frozen=True, slots=True)
class Rows:
    """Documents of one side of the split, by name: their labels, and the pairs that neither count for nor against."""

    targets: Named
    filtered: Named


@dataclass(frozen=True, slots=True)
class Split:
    """Both sides, the labels in order, and every test package, also those that no label was left for."""

    train: Rows
    test: Rows
    labels: list[str]
    held_out: frozenset[str]


def stanzas(lines: Iterable[str]) -> Iterator[Stanza]:
    """The paragraphs of a control file as fields by name; a continued value keeps its lines."""
    for blank, block in groupby(lines, key=lambda line: not line.strip()):
        if blank:
            continue
        fields: dict[str, str] = {}
        name = ""
        for line in block:
            if line[0].isspace():
                fields[name] = f"{fields.get(name, '')}\n{line.strip()}"
            else:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        yield fields


def names(stanza: Stanza, fields: Iterable[str]) -> frozenset[str]:
    """The packages named in some relation fields: all alternatives, bare."""
    return frozenset(chain.from_iterable(NAME.findall(stanza.get(field, "")) for field in fields))


def text(name: str, description: str) -> str:
    """What an encoder reads of a package: its name and its short description, the first line of the long one."""
    first, _, _ = description.partition("\n")
    return f"{name}: {' '.join(first.split())}"


def read_packages(lines: Iterable[str]) -> Packages:
    """Read a package index.

    Packages that are installed but in no archive (they have no Filename) are skipped, and of several versions the
    first is kept. Names that no package bears (virtual packages, other releases) and a package's own are dropped.
    """
    found: dict[str, Stanza] = {}
    for stanza in stanzas(lines):
        if "Filename" in stanza:
            found.setdefault(stanza["Package"], stanza)
    known = dict(sorted(found.items()))
    return Packages(
        texts={name: text(name, each["Description"]) for name, each in known.items()},
        relations={
            relation: {name: (names(each, fields) & known.keys()) - {name} for name, each in known.items()}
            for relation, fields in RELATIONS.items()
        },
        tags={name: frozenset(each.get("Tag", "").replace(",", " ").split()) for name, each in known.items()},
        sections={name: frozenset(each.get("Section", "").split()) for name, each in known.items()},
        sources={name: frozenset([each.get("Source", name).split()[0]]) for name, each in known.items()},
    )


def on_test_side(name: str, seed: int) -> bool:
    """Whether a package is tested on: a function of its name, so that it stays there in later snapshots."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < TEST_SHARE * 2**64


def transpose(named: Named) -> Named:
    """From name -> names to the other direction."""
    turned: dict[str, set[str]] = {}
    for name, others in named.items():
        for other in others:
            turned.setdefault(other, set()).add(name)
    return {name: frozenset(others) for name, others in turned.items()}


def split_packages(points: Named, seed: int) -> Split:
    """Split packages and find the pairs to filter.

    A pair (i, l) is filtered where l is i itself, or where a training document l has the label i: the reverse of a
    training pair says little. Such a pair is taken out of the test truth, and a test document that has no other label
    is dropped; where training has both directions, both stay labels. No filtered pair is in the truth.
    """
    train = {name: labels for name, labels in points.items() if labels and not on_test_side(name, seed)}
    held_out = frozenset(name for name, labels in points.items() if labels) - train.keys()
    reverse = transpose(train)
    test = {name: points[name] - reverse.get(name, frozenset()) for name in sorted(held_out)}
    test = {name: labels for name, labels in test.items() if labels}
    labels = frozenset().union(*train.values(), *test.values())

    def rows(targets: Named) -> Rows:
        reversed_or_same = {name: (reverse.get(name, frozenset()) | {name}) & labels for name in targets}
        return Rows(targets, {name: reversed_or_same[name] - targets[name] for name in targets})

    return Split(rows(train), rows(test), sorted(labels), held_out)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines of UTF-8, compressed where the name ends in .gz, without a time stamp."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(f"{line}\n" for line in lines).encode()
    if path.suffix != ".gz":
        path.write_bytes(data)
        return
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(data)


def write_rows(out: Path, split: Split, texts: Mapping[str, str]) -> None:
    """Write documents, labels and filter files."""
    number = {name: i for i, name in enumerate(split.labels)}

    def named(name: str) -> dict[str, object]:
        return {"uid": name, "title": texts[name], "content": ""}

    for stem, side, rows in (("trn", "train", split.train), ("tst", "test", split.test)):
        ids = {name: sorted(number[label] for label in labels) for name, labels in rows.targets.items()}
        full = (named(name) | {"target_ind": row, "target_rel": [1.0] * len(row)} for name, row in ids.items())
        write_lines(out / f"{stem}.json.gz", (json.dumps(each, ensure_ascii=False) for each in full))
        pairs = (sorted(number[label] for label in labels) for labels in rows.filtered.values())
        write_lines(out / f"filter_labels_{side}.txt", (f"{i} {label}" for i, row in enumerate(pairs) for label in row))
    write_lines(out / "lbl.json.gz", (json.dumps(named(name), ensure_ascii=False) for name in split.labels))


def write_graph(out: Path, graph: str, edges: Named, split: Split, texts: Mapping[str, str]) -> dict[str, str]:
    """Write the edges of training documents and of labels that are no test package; returns the names of the files."""
    sides = {
        "trn": [edges[name] for name in split.train.targets],
        "lbl": [edges[name] if name not in split.held_out else frozenset() for name in split.labels],
    }
    nodes = sorted(frozenset().union(*chain.from_iterable(sides.values())))
    number = {node: i for i, node in enumerate(nodes)}
    files = {"nodes": f"raw_data/{graph}.raw.txt.gz"}
    write_lines(out / files["nodes"], (texts.get(node, node) for node in nodes))
    for key, side in (("train", "trn"), ("label", "lbl")):
        files[key] = f"{graph}_{side}_X_Y.txt.gz"
        rows = (" ".join(f"{node}:1" for node in sorted(number[node] for node in row)) for row in sides[side])
        write_lines(out / files[key], chain([f"{len(sides[side])} {len(nodes)}"], rows))
    return files


def build(lines: Iterable[str], out: Path, *, relation: str = "recommends", seed: int = 0, archive: str = "") -> Split:
    """Build the data set folder ``out`` from the lines of a package index.

    Args:
        lines: as ``apt-cache dumpavail`` prints them.
        out: the folder, made if need be.
        relation: what a label is, a key of `RELATIONS`; the others become graphs.
        seed: of the split.
        archive: which archive the lines are from, for the description.
    """
    packages = read_packages(lines)
    split = split_packages(packages.relations[relation], seed)
    if not (split.train.targets and split.test.targets):
        sys.exit(f"build.py: {len(packages.texts)} packages give no two sides of a split; is this a package index?")
    write_rows(out, split, packages.texts)
    related = {name: edges for name, edges in packages.relations.items() if name != relation}
    graphs = related | {"tag": packages.tags, "section": packages.sections, "source": packages.sources}
    about = {
        "name": "Debian-Packages" if relation == "recommends" else f"Debian-Packages-{relation.capitalize()}",
        "description": f"Packages of {archive or 'a Debian archive'}; the labels of a package are the packages "
        f"in its fields {', '.join(RELATIONS[relation])}.",
        "licence": LICENCE,
        "propensity": {"A": 0.55, "B": 1.5},
        "one_way": True,
        "encoding": "utf-8",
        "graphs": {
            graph: write_graph(out, graph, edges, split, packages.texts if graph in related else {})
            for graph, edges in graphs.items()
        },
    }
    write_lines(out / "dataset.json", [json.dumps(about, indent=1)])
    return split


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", nargs="?", type=Path, help="a package index; standard input if left out")
    parser.add_argument("--out", type=Path, required=True, help="the data set folder to write")
    parser.add_argument("--relation", choices=RELATIONS, default="recommends", help="what a label is")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    parser.add_argument("--archive", default="", help="which archive this is, for the description")
    given = parser.parse_args()
    raw = given.index.read_bytes() if given.index else sys.stdin.buffer.read()
    lines = raw.decode().splitlines()
    split = build(lines, given.out, relation=given.relation, seed=given.seed, archive=given.archive)
    sides = f"{len(split.train.targets)} training and {len(split.test.targets)} test documents"
    print(f"{given.out}: {sides}, {len(split.labels)} labels")


if __name__ == "__main__":
    main()
