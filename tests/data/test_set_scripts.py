"""Each script of `benchmarks/sets/`, on packages of a few rows that the tests make: exact texts and pairs."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from packages import debian, packed, script, wheel

from longtail.data.dataset import Dataset
from longtail.data.graph import Graph
from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Strings

Tidy: TypeAlias = dict[str, tuple[str, str]]


def tidy(texts: Mapping[str, tuple[str, str]]) -> Tidy:
    """Title and content of each text, as they are written."""
    return {uid: (" ".join(title.split()), " ".join(content.split())) for uid, (title, content) in texts.items()}


def read(name: str, *packages: Path) -> tuple[Tidy, Tidy, dict[str, set[str]]]:
    """Documents, labels and pairs of a set: of pairs those with a known label."""
    material = script(name).SOURCE.read(*packages)
    known = {uid: set(labels) & material.labels.keys() for uid, labels in material.pairs.items()}
    return tidy(material.documents), tidy(material.labels), {uid: labels for uid, labels in known.items() if labels}


def test_phenotypes(tmp_path: Path) -> None:
    obo = r"""format-version: 1.2

[Term]
id: HP:1
name: Seizure
alt_id: HP:9
def: "A \"fit\"." [X:1]
synonym: "Epileptic seizure" EXACT []
synonym: "Fits" RELATED layperson []

[Term]
id: HP:2
name: Short stature

[Term]
id: HP:3
name: obsolete Tall
is_obsolete: true

[Typedef]
id: part_of
name: part of
"""
    head = ["database_id", "disease_name", "qualifier", "hpo_id", "reference"]
    lines = [["OMIM:1", 'Dwarf "A"', "", "HP:2", "x"], ["OMIM:1", "other name", "", "HP:9", "x"]]
    lines += [["OMIM:1", "Dwarf", "NOT", "HP:1", "x"], ["ORPHA:2", "Tallness", "", "HP:3", "x"]]
    hpoa = "".join("\t".join(line) + "\n" for line in [["#version: 1"], head, *lines])
    package = wheel(tmp_path / "w.whl", {"p/data/hp.obo": obo.encode(), "p/data/phenotype.hpoa": hpoa.encode()})
    documents, labels, pairs = read("phenotypes", package)
    assert documents == {"OMIM:1": ('Dwarf "A"', ""), "ORPHA:2": ("Tallness", "")}
    assert labels == {"HP:1": ("Seizure", 'A "fit". Epileptic seizure; Fits'), "HP:2": ("Short stature", "")}
    assert pairs == {"OMIM:1": {"HP:1", "HP:2"}}


def database(path: Path, tables: Mapping[str, list[tuple[object, ...]]]) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        for table, found in tables.items():
            connection.execute(f"CREATE TABLE {table}")
            connection.executemany(f"INSERT INTO {table.split('(')[0]} VALUES ({','.join('?' * len(found[0]))})", found)
        connection.commit()
    return path.read_bytes()


def test_genes(tmp_path: Path) -> None:
    tables = {
        "genes(_id, gene_id)": [(1, "10"), (2, "20")],
        "gene_info(_id, gene_name, symbol)": [(1, "DNA repair", "BR1"), (2, "ribosomal", "RP")],
        "alias(_id, alias_symbol)": [(1, "ZZ"), (1, "BR1"), (1, "AA"), (2, "RP")],
        "go_bp(_id, go_id, evidence)": [(1, "GO:1", "IEA"), (1, "GO:2", "ND"), (1, "GO:1", "IDA")],
        "go_mf(_id, go_id, evidence)": [(1, "GO:3", "TAS"), (2, "GO:7", "TAS")],
        "go_cc(_id, go_id, evidence)": [(2, "GO:2", "IDA")],
    }
    terms = {
        "go_term(go_id, term, definition)": [("GO:1", "repair", "Mends."), ("GO:2", "cell", None), ("GO:3", "x", "")]
    }
    genes = debian(tmp_path / "g.deb", {"./a/extdata/org.Hs.eg.sqlite": database(tmp_path / "g", tables)})
    known = debian(tmp_path / "t.deb", {"./a/extdata/GO.sqlite": database(tmp_path / "t", terms)})
    documents, labels, pairs = read("genes", genes, known)
    assert documents == {"10": ("BR1: DNA repair", "AA, ZZ"), "20": ("RP: ribosomal", "")}
    assert labels == {"GO:1": ("repair", "Mends."), "GO:2": ("cell", ""), "GO:3": ("x", "")}
    assert pairs == {"10": {"GO:1", "GO:3"}, "20": {"GO:2"}}


def test_foldoc(tmp_path: Path) -> None:
    entries = [
        "00-database-short\n\n     A dictionary\n\n",
        "Broken As Designed\nBAD\n\n <joke> {a site\n   (http://a.b/)}, {as\n   designed}, {IBMs}.\n\n [{ibm (2)}]\n",
        "IBM\n\n   See {bad}, {ibm}, {nothing}.\n\n",
        "as designed\n\n   No é.\n\n   (2020-05-17)\n\n",
        "ibm\n\n   Another, {(http://c.d/)}, f({IBM}).\n\n",
        "Jargon File\n\n   A file.\n\n",
    ]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    def digits(value: int) -> str:
        return (digits(value // 64) if value >= 64 else "") + letters[value % 64]

    index, at = [], 0
    for entry in entries:
        size = len(entry.encode())
        index += [f"{word.lower()}\t{digits(at)}\t{digits(size)}\n" for word in entry.partition("\n\n")[0].split("\n")]
        at += size
    text = gzip.compress("".join(entries).encode())
    files = {"usr/share/dictd/f.dict.dz": text, "usr/share/dictd/f.index": "".join(sorted(index)).encode()}
    documents, labels, pairs = read("foldoc", debian(tmp_path / "f.deb", files))
    assert documents == labels
    assert documents["broken as designed"] == (
        "Broken As Designed, BAD",
        "<joke> a site , as designed, IBMs.",
    )
    assert documents["ibm"] == ("IBM", "See bad, ibm, nothing.")
    assert documents["as designed"] == ("as designed", "No é.")
    assert documents["ibm (2)"] == ("ibm", "Another, , f(IBM).")
    assert set(documents) == {"broken as designed", "ibm", "ibm (2)", "as designed", "jargon file"}
    assert pairs == {
        "broken as designed": {"as designed", "ibm"},
        "ibm": {"broken as designed", "ibm"},
        "ibm (2)": {"ibm"},
    }


def test_depends(tmp_path: Path) -> None:
    data = Dataset.from_texts(
        [{"uid": "gimp", "title": "gimp: images: edited"}, {"uid": "vim", "title": "vim: editor"}],
        [[0], [1]],
        [{"uid": "vim", "title": "vim: editor"}, {"uid": "tst", "title": "tst: tested"}, {"uid": "x", "title": "x: y"}],
    )
    nodes = Strings.of(["libc: C", "x: y"])
    graph = Graph(nodes, csr_of_lists([[0, 1], [0]], 2), csr_of_lists([[0], [], [0]], 2))
    Dataset("e", data.train, data.labels, graphs={"depends": graph}).write(tmp_path / "e")
    documents, labels, pairs = read("depends", tmp_path / "e")
    assert labels == {"libc": ("libc: C", ""), "x": ("x: y", "")}
    assert documents["gimp"] == ("gimp: images: edited", "")
    assert pairs == {"gimp": {"libc", "x"}, "vim": {"libc"}, "x": {"libc"}}


def test_wordnet(tmp_path: Path) -> None:
    noun = """\
  1 A licence, two spaces before each line.
00000100 05 n 02 dog 0 domestic_dog 0 003 @ 00000200 n 0000 ~ 00000300 n 0000 @ 00000400 n 0000 | a beast; "a dog"
00000200 05 n 01 canine 0 000 | with teeth
00000300 05 n 01 Rex 0 002 @i 00000100 n 0000 + 00000100 v 0101 | a king
"""
    verb = (
        "00000100 38 v 0a "
        + "go 0 " * 10
        + "001 @ 00000200 v 0000 01 + 08 00 | move\n00000200 38 v 01 move 0 000 | x\n"
    )
    files = {"usr/share/wordnet/data.noun": noun.encode(), "usr/share/wordnet/data.verb": verb.encode()}
    documents, labels, pairs = read("wordnet", debian(tmp_path / "w.deb", files))
    assert documents == labels
    assert documents["n00000100"] == ("dog, domestic dog", 'a beast; "a dog"')
    assert documents["v00000100"] == (", ".join(["go"] * 10), "move")
    assert pairs == {"n00000100": {"n00000200"}, "n00000300": {"n00000100"}, "v00000100": {"v00000200"}}


def tabbed(kconfig: str) -> bytes:
    """A file of the kernel, whose tabs are written as ``>``."""
    return kconfig.replace(">", "\t").encode()


NET = r"""
menu "Networks"
>depends on MENU
config E1
>tristate "The \"E1\" card" if PCI
>depends on PCI && (!SPARC || BROKEN) # and HIDDEN
>select CRC if BROKEN
>imply \
>>PTP
>help
>  A card.

>    config PTP is no line of its own here.

config CRC
>bool
if PCI
menuconfig PCI
>bool 'A bus'
>default y
>---help---
>  A bus.
endif
>depends on BROKEN
"""
OTHER = r"""
config E1
>bool "Other"
>depends on !CRC && PTP=y
>help
>  Other.
config PTP
>def_bool y
config BROKEN
"""


def test_kconfig(tmp_path: Path) -> None:
    source_tree = {"l/net/Kconfig": tabbed(NET), "l/zet/Kconfig.x": tabbed(OTHER), "l/net/kconfig.c": b"config NO\n"}
    package = debian(tmp_path / "l.deb", {"usr/src/linux-source-6.1.tar.xz": packed(source_tree)})
    documents, labels, pairs = read("kconfig", package)
    assert documents == labels
    assert documents == {
        "E1": ('E1: The "E1" card', "A card. config PTP is no line of its own here."),
        "CRC": ("CRC", ""),
        "PCI": ("PCI: A bus", "A bus."),
        "PTP": ("PTP", ""),
        "BROKEN": ("BROKEN", ""),
    }
    assert pairs == {"E1": {"PCI", "BROKEN", "CRC", "PTP"}}


def test_theorems(tmp_path: Path) -> None:
    database = """\
$( A heading. $)
$c |- wff $.
wi $a wff ( ph -> ps ) $.
${
  min $e |- ph $.
  $( Rule of modus ponens. See ~ syl for ` ( ph -> ps ) ` .  (Contributed by N (M.), 5-Aug-1993.)
     (New usage is discouraged.) $)
  ax-mp $a |- ps $.
$}
$( Identity.  Used often. $)
id $p |- ( ph -> ph ) $=
  ( wi ax-mp
    nothing ) AABC $.
bare $p |- ph $= ax-mp id $.
"""
    package = debian(tmp_path / "m.deb", {"usr/share/metamath/databases/set.mm": database.encode()})
    documents, labels, pairs = read("theorems", package)
    assert documents == labels
    assert documents == {
        "ax-mp": ("ax-mp: Rule of modus ponens.", "See for ."),
        "id": ("id: Identity.", "Used often."),
        "bare": ("bare", ""),
    }
    assert pairs == {"id": {"ax-mp"}}


def test_operations(tmp_path: Path) -> None:
    def model(name: str, operations: dict[str, str | None]) -> bytes:
        shapes = {"Put": {"members": {"Key": {"documentation": "<p>The <b>key</b>.</p>"}, "Tags": {}}}, "Empty": {}}
        made = {
            operation: {"documentation": "<p>Puts &lt;it&gt;.</p>"} | ({"input": {"shape": shape}} if shape else {})
            for operation, shape in operations.items()
        }
        return json.dumps({"metadata": {"serviceFullName": name}, "operations": made, "shapes": shapes}).encode()

    files = {
        "botocore/data/s3/2006-03-01/service-2.json.gz": gzip.compress(model("Old", {"Gone": "Put"})),
        "botocore/data/s3/2010-01-01/service-2.json.gz": gzip.compress(model("Store", {"Put": "Put", "List": "Empty"})),
        "botocore/data/sq/2010-01-01/service-2.json": model("Queue", {"Send": None}).replace(b"Key", b"key"),
        "botocore/data/sq/2010-01-01/paginators-1.json": b"{}",
    }
    documents, labels, pairs = read("operations", wheel(tmp_path / "b.whl", files))
    said = "Puts <it>."
    assert documents == {
        "s3.Put": ("Store: Put", said),
        "s3.List": ("Store: List", said),
        "sq.Send": ("Queue: Send", said),
    }
    assert labels == {"parameter key": ("Key", "The key ."), "parameter tags": ("Tags", "")}
    assert pairs == {"s3.Put": {"parameter key", "parameter tags"}}
