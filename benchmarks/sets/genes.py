"""Human genes and what they do: annotations of genes with terms of the Gene Ontology.

    apt-get download r-bioc-org.hs.eg.db r-bioc-go.db
    python benchmarks/sets/genes.py r-bioc-org.hs.eg.db_*.deb r-bioc-go.db_*.deb DIR

A document is a gene, its title symbol and name ("BRCA1: BRCA1 DNA repair associated"), its content the other symbols
that it goes by. Its labels are the terms of all three ontologies that it is annotated with directly, whatever the
evidence but ND (no data). A label's title is the term, its content the definition. Many labels a document, and a title
that says little where the name is only a symbol. Genes and terms are never one thing, so there is no filter. Genes of a
family, which differ by a number, are on both sides of the split.

Licence: both packages Artistic 2.0; the Gene Ontology CC BY 4.0; names and symbols of genes are those of NCBI Gene,
public domain.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from making import Material, Source, Text, file, main

ANNOTATED = "SELECT gene_id, go_id FROM genes JOIN {table} USING (_id) WHERE evidence != 'ND'"


def rows(database: bytes, *queries: str) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of each query of an SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "it.sqlite")
        path.write_bytes(database)
        with closing(sqlite3.connect(path)) as connection:
            yield from (connection.execute(query).fetchall() for query in queries)


def read(genes: Path, terms: Path) -> Material:
    """Genes of the package r-bioc-org.hs.eg.db, terms of r-bioc-go.db."""
    named, also, *annotated = rows(
        file(genes, "*extdata/org.Hs.eg.sqlite"),
        "SELECT gene_id, symbol, gene_name FROM genes JOIN gene_info USING (_id)",
        "SELECT gene_id, alias_symbol FROM genes JOIN alias USING (_id) ORDER BY gene_id, alias_symbol",
        *(ANNOTATED.format(table=table) for table in ("go_bp", "go_mf", "go_cc")),
    )
    (known,) = rows(file(terms, "*extdata/GO.sqlite"), "SELECT go_id, term, definition FROM go_term")
    symbols = {gene: symbol for gene, symbol, _ in named}
    others = dict[str, list[str]]()
    for gene, alias in also:
        if alias != symbols.get(gene):
            others.setdefault(gene, []).append(alias)
    pairs = dict[str, set[str]]()
    for gene, term in (pair for table in annotated for pair in table):
        pairs.setdefault(gene, set()).add(term)
    documents = {gene: Text(f"{symbol}: {name}", ", ".join(others.get(gene, []))) for gene, symbol, name in named}
    return Material(documents, {term: Text(title, definition or "") for term, title, definition in known}, pairs)


SOURCE = Source(
    name="genes",
    description="Human genes by symbol and name; the labels of a gene are the terms of the Gene Ontology that it is "
    "annotated with.",
    licence="Gene Ontology: CC BY 4.0; NCBI Gene: public domain; read from Bioconductor's packages, Artistic 2.0",
    packages=("genes", "terms"),
    read=read,
)

if __name__ == "__main__":
    main(SOURCE, __doc__)
