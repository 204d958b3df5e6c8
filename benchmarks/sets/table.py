"""The shape of data sets, as rows of a table for the documentation.

    python benchmarks/sets/table.py DIR ...

Words stand between white space; labels a document, documents a label and words are of the training split, documents a
label over those labels that it has. A test label is unseen where no training document has it: its share of the labels
of the test split, and of the pairs.
"""

from __future__ import annotations

import argparse

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.texts import Strings
from longtail.errors import BadInput

HEAD = (
    "set", "documents", "test", "labels", "labels a document: mean, median", "documents a label: mean, median",
    "unseen: labels of test, pairs", "words of a title: document, label", "words of a content: document, label",
)  # fmt: skip


def words(texts: Strings) -> str:
    """Words a text, on average."""
    return f"{np.mean([len(text.split()) for text in texts]):.1f}"


def row(data: Dataset) -> tuple[str, ...]:
    """One row, as `HEAD` has it.

    Raises:
        BadInput: there is no test split.
    """
    if data.test is None:
        raise BadInput(data.name, "there is no test split", remedy="name a set that a script of this folder made")
    a_document = np.diff(data.train.targets.indptr)
    frequency = np.bincount(data.train.targets.indices, minlength=len(data.labels))
    of_test = data.test.targets.indices
    seen = frequency[frequency > 0]
    unseen = np.mean(frequency[np.unique(of_test)] == 0), np.mean(frequency[of_test] == 0)
    texts = data.train.documents.fields, data.labels.fields
    return (
        f"`{data.name}`",
        *(f"{count:,}" for count in (len(data.train), len(data.test), len(data.labels))),
        *(f"{each.mean():.1f}, {np.median(each):.0f}" for each in (a_document, seen)),
        ", ".join(f"{share:.1%}".replace("%", " %") for share in unseen),
        *(", ".join(words(side[name]) if name in side else "0.0" for side in texts) for name in ("title", "content")),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="DIR")
    lines = [HEAD, ["---"] * len(HEAD), *(row(Dataset.read(folder)) for folder in parser.parse_args().folders)]
    print("\n".join(f"| {' | '.join(line)} |" for line in lines))


if __name__ == "__main__":
    main()
