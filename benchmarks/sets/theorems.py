"""Theorems and what their proofs refer to: the Metamath database set.mm.

    apt-get download metamath-databases
    python benchmarks/sets/theorems.py metamath-databases_*.deb DIR

A document is a theorem, its title the name and the first sentence of its description ("sylan: A syllogism inference."),
its content the rest of the description. Its labels are the theorems, axioms and definitions that its proof refers to
(the choice of premises); the rules that only build formulas are left out. Many labels a document, and a proof refers to
what was proved before it, so that no pair has a way back; labels are documents, so there is a filter.

Formulas (between backquotes) and the credits at the end of a description are left out of the texts, and so is every
statement that a description names by `~`, since these are often among the labels.

Licence: public domain (CC0 1.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from making import Material, Source, Text, file, main

TOKENS = re.compile(
    r"""\$\( (?P<comment>.*?) \$\)
    | (?<!\S)(?P<name>\S+) \s+ \$[ap] \s+ (?P<code>\S+) \s [^$]* (?:\$= \s* (?:\((?P<proof>[^)$]*)\))? [^$]*)? \$\.""",
    re.DOTALL | re.VERBOSE,
)
CREDIT = r"Contributed|Revised|Proof|New usage|Unnecessary|Moved"
LEFT_OUT = re.compile(rf"`[^`]*`|~\s+\S+|_|\((?:{CREDIT})\b[^()]*(?:\([^()]*\)[^()]*)*\)")
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def statements(database: str) -> Iterator[tuple[str, str, set[str]]]:
    """Name, description and references of each axiom, definition and theorem that says something (``|-``).

    A description is the comment before a statement; the references of a compressed proof stand in parentheses
    (N. Megill, D. A. Wheeler, Metamath, 2019, section 4.4.1 and appendix B).
    """
    described = ""
    for found in TOKENS.finditer(database):
        if found["comment"] is not None:
            described = found["comment"]
        else:
            if found["code"] == "|-":
                yield found["name"], described, set((found["proof"] or "").split())
            described = ""


def text(name: str, description: str) -> Text:
    """Name and first sentence, and the rest, of a description without formulas, names and credits."""
    first, *rest = SENTENCE.split(" ".join(LEFT_OUT.sub(" ", description).split()), maxsplit=1)
    return Text(f"{name}: {first}" if first else name, " ".join(rest))


def read(package: Path) -> Material:
    """Statements of the package metamath-databases."""
    texts, pairs = dict[str, Text](), dict[str, set[str]]()
    for name, description, references in statements(file(package, "*databases/set.mm").decode()):
        texts[name], pairs[name] = text(name, description), references
    return Material(texts, texts, pairs)


SOURCE = Source(
    name="theorems",
    description="Theorems of set.mm by name and description; the labels of a theorem are the statements that its proof "
    "refers to.",
    licence="CC0 1.0 (Metamath, set.mm)",
    packages=("metamath",),
    read=read,
)

if __name__ == "__main__":
    main(SOURCE, __doc__)
