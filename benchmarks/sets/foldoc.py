"""The cross references of the Free On-line Dictionary of Computing.

    apt-get download dict-foldoc
    python benchmarks/sets/foldoc.py dict-foldoc_*.deb DIR

A document is an entry, its title the headwords, its content the definition. Its labels are the entries that the
definition refers to, in {braces}: by a headword as it is, whatever its case, or without the s of a plural; references
to entries that do not exist are passed over, and so are sources in [brackets]. Labels are documents, so there is a
filter.

The definition names what it refers to: the braces are gone from the content, the words remain. So with titles alone the
task is to know what a thing has to do with; with content it is mostly to see which words are headwords.

Licence: Copyright 1993 by Denis Howe; GNU Free Documentation License 1.1 or later.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

from making import Material, Source, Text, file, main

DIGITS = {letter: i for i, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}
REFERENCE = re.compile(r"\{([^{}]*)\}")
ADDRESS = re.compile(r"\((?:[a-z]+:|[^()\s]+\.html)[^()]*\)")
NOTE = re.compile(r"^\s*(?:\[[^\[\]]*\]|\(\d{4}-\d\d-\d\d\))[.,]?", re.MULTILINE)


def entries(package: Path) -> Iterator[tuple[list[str], str]]:
    """The headwords and the definition of each entry of a dictionary of dictd, in the order of its file."""
    text = gzip.decompress(file(package, "*dictd/*.dict.dz"))
    places = set()
    for line in file(package, "*dictd/*.index").decode().splitlines():
        word, *numbers = line.split("\t")
        if not word.startswith("00-database") and len(numbers) == 2:
            places.add((_number(numbers[0]), _number(numbers[1])))
    for start, length in sorted(places):
        head, _, body = text[start : start + length].decode().partition("\n\n")
        yield [word.strip() for word in head.splitlines() if word.strip()], body


def _number(digits: str) -> int:
    """A number of an index of dictd: base 64, the highest digit first."""
    value = 0
    for digit in digits:
        value = value * 64 + DIGITS[digit]
    return value


def known_as(reference: str, uids: dict[str, str]) -> str:
    """The uid of the entry that a reference names; empty where there is none."""
    name = " ".join(reference.split()).casefold()
    return uids.get(name) or uids.get(name.removesuffix("s"), "")


def read(package: Path) -> Material:
    """Entries of the package dict-foldoc, or of another dictionary of dictd that puts references in braces."""
    texts, also, bodies = dict[str, Text](), dict[str, str](), dict[str, str]()
    for words, definition in entries(package):
        if not words:
            continue
        body = NOTE.sub("", definition)
        uid = name = words[0].casefold()
        number = 1
        while uid in texts:
            number += 1
            uid = f"{name} ({number})"
        plain = ADDRESS.sub("", body).replace("{", "").replace("}", "")
        texts[uid], bodies[uid] = Text(", ".join(words), plain), body
        for word in words[1:]:
            also.setdefault(word.casefold(), uid)
    uids = also | {uid: uid for uid in texts}
    referred = {uid: REFERENCE.findall(ADDRESS.sub("", body)) for uid, body in bodies.items()}
    return Material(texts, texts, {uid: {known_as(name, uids) for name in names} for uid, names in referred.items()})


SOURCE = Source(
    name="foldoc",
    description="Entries of the Free On-line Dictionary of Computing; the labels of an entry are the entries that it "
    "refers to.",
    licence="GNU Free Documentation License 1.1 or later, Copyright 1993 by Denis Howe (http://www.foldoc.org/)",
    packages=("dictionary",),
    read=read,
)

if __name__ == "__main__":
    main(SOURCE, __doc__)
