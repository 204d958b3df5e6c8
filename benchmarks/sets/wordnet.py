"""Words and what they are a kind of: synsets of WordNet and their hypernyms.

    apt-get download wordnet-base
    python benchmarks/sets/wordnet.py wordnet-base_*.deb DIR

A document is a synset of nouns or verbs, its title the words ("poodle, poodle dog"), its content the gloss. Its labels
are its direct hypernyms ("dog, domestic dog, Canis familiaris"), for a name the class that it is an instance of. One
label for nearly every document, and titles of few words. Labels are documents, so there is a filter.

A gloss often opens with a word of the hypernym ("an intelligent dog with a heavy curly coat"), which is what a gloss
is; titles alone do not have it.

Licence: WordNet 3.0, Copyright 2006 by Princeton University; free to use, copy, modify and distribute with its notice.
"""

from __future__ import annotations

from pathlib import Path

from making import Material, Source, Text, file, main

PARTS = {"n": "*wordnet/data.noun", "v": "*wordnet/data.verb"}
HYPERNYM = frozenset({"@", "@i"})


def synset(line: str) -> tuple[str, Text, list[str]]:
    """Place, text and places of the hypernyms of a synset, from its line in a data file (see wndb(5WN))."""
    fields, _, gloss = line.partition(" | ")
    place, _, _, words, *rest = fields.split()
    end = 2 * int(words, 16)
    title = ", ".join(word.replace("_", " ") for word in rest[:end:2])
    pointers = rest[end + 1 : end + 1 + 4 * int(rest[end])]
    above = [to for symbol, to in zip(pointers[::4], pointers[1::4], strict=True) if symbol in HYPERNYM]
    return place, Text(title, gloss), above


def read(package: Path) -> Material:
    """Synsets of the package wordnet-base."""
    texts, pairs = dict[str, Text](), dict[str, list[str]]()
    for part, pattern in PARTS.items():
        for line in file(package, pattern).decode().splitlines():
            if not line.startswith("  "):
                place, text, above = synset(line)
                texts[part + place] = text
                pairs[part + place] = [part + to for to in above]
    return Material(texts, texts, pairs)


SOURCE = Source(
    name="wordnet",
    description="Synsets of nouns and verbs by their words; the labels of a synset are its direct hypernyms.",
    licence="WordNet 3.0 licence, Copyright 2006 by Princeton University",
    packages=("wordnet",),
    read=read,
)

if __name__ == "__main__":
    main(SOURCE, __doc__)
