"""What the sets share: files of a package, a split that stays, filters, and the folder that is written.

A script of this folder reads packages into a `Material`; `main` makes a data set folder of it (docs/reference/data.md).
Nothing is downloaded: a package is given as the file that it came in (a wheel or another zip archive, or a .deb), or as
the folder that it was unpacked to. The same packages give the same bytes.

- **Split.** 75 / 25, by a hash of the title: documents of the same title are on the same side, and stay there in later
  versions of a package.
- **Labels.** Those that a document has. One that only test documents have is kept: it has a text.
- **Filter.** Where labels are documents too (they have uids of one name space), as docs/guides/filters.md says: a
  document is not its own label; a test pair that is the way back of a training pair leaves the truth; identity and
  reciprocal pairs that are not in the truth are in the filter files. A test document that has no other label is left
  out.
- **Propensity.** A = 0.55, B = 1.5, as most published sets have it.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from longtail.data.dataset import Dataset, Propensity
from longtail.data.filters import proposed_filter
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.errors import BadInput

TEST_SHARE = 0.25


class Text(NamedTuple):
    """What is read of a document or a label: a short title, and a longer content that may be empty."""

    title: str
    content: str = ""


@dataclass(frozen=True, slots=True)
class Material:
    """What packages hold.

    Attributes:
        documents: texts by uid.
        labels: texts by uid; a label and a document of one uid are one thing.
        pairs: of each document, the uids of its labels; those that no label has are passed over.
    """

    documents: Mapping[str, Text]
    labels: Mapping[str, Text]
    pairs: Mapping[str, Iterable[str]]


@dataclass(frozen=True, slots=True)
class Source:
    """A set that can be made.

    Attributes:
        name: of the set.
        description: what documents and labels are, in a sentence.
        licence: of the data.
        packages: what is to be given, in this order; one word each.
        read: the packages to what they hold.
    """

    name: str
    description: str
    licence: str
    packages: tuple[str, ...]
    read: Callable[..., Material]


def files(package: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Paths, and contents, of the files of a package whose path matches, in the order of their paths.

    Args:
        package: a zip archive (a wheel), a .deb, or a folder.
        pattern: as of a shell, of the path from the root of the package on; ``*`` spans folders too.

    Raises:
        BadInput: the package is not there, or none of these.
    """
    if package.is_dir():
        paths = sorted((path.relative_to(package).as_posix(), path) for path in package.rglob("*") if path.is_file())
        yield from ((name, path.read_bytes()) for name, path in paths if fnmatchcase(name, pattern))
    elif not package.is_file():
        raise BadInput(package, "there is no such file or folder", remedy="fetch the package first")
    elif zipfile.is_zipfile(package):
        with zipfile.ZipFile(package) as archive:
            yield from ((name, archive.read(name)) for name in sorted(archive.namelist()) if fnmatchcase(name, pattern))
    else:
        with tarfile.open(fileobj=io.BytesIO(_data_of_deb(package))) as archive:
            members = {member.name.removeprefix("./"): member for member in archive if member.isfile()}
            for name in sorted(members):
                if fnmatchcase(name, pattern) and (file := archive.extractfile(members[name])) is not None:
                    yield name, file.read()


def _data_of_deb(package: Path) -> bytes:
    """The archive of the files of a .deb, which is itself an ar archive: headers of 60 bytes before each member."""
    raw = package.read_bytes()
    at = 8
    while raw.startswith(b"!<arch>\n") and at + 60 <= len(raw):
        name, size = raw[at : at + 16].decode("ascii", "replace").strip(), int(raw[at + 48 : at + 58])
        if name.startswith("data.tar"):
            return raw[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    raise BadInput(package, "is neither a zip archive nor a .deb", remedy="give the package as it was fetched")


def file(package: Path, pattern: str) -> bytes:
    """The content of the only file of a package whose path matches.

    Raises:
        BadInput: there is none, or there are more.
    """
    found = dict(files(package, pattern))
    if len(found) != 1:
        problem = f"expected one file {pattern!r}, found {', '.join(list(found)[:4]) or 'none'}"
        raise BadInput(package, problem, remedy="give the package that the script names")
    return next(iter(found.values()))


def on_test_side(title: str) -> bool:
    """Whether a document is tested on: a function of its title, whatever its letters' case."""
    digest = hashlib.sha256(title.casefold().encode()).digest()
    return int.from_bytes(digest[:8], "big") < TEST_SHARE * 2**64


def made(source: Source, material: Material) -> Dataset:
    """The data set of what packages hold: split, labels, filters.

    Args:
        source: whose name, description and licence it has.
        material: of which documents without a title or a known label are left out.

    Raises:
        BadInput: no document is left on one of the sides.
    """
    pairs = {
        uid: (set(material.pairs.get(uid, ())) & material.labels.keys()) - {uid}
        for uid, text in sorted(material.documents.items())
        if text.title
    }
    tested = {uid for uid in pairs if on_test_side(material.documents[uid].title)}
    train = {uid: labels for uid, labels in pairs.items() if labels and uid not in tested}
    back: dict[str, set[str]] = {}
    for uid, labels in train.items():
        for label in labels:
            back.setdefault(label, set()).add(uid)
    test = {uid: left for uid, labels in pairs.items() if uid in tested and (left := labels - back.get(uid, set()))}
    if not (train and test):
        problem = f"found {len(train)} training and {len(test)} test documents, expected some of both"
        raise BadInput(source.name, problem, remedy="give the packages that the script names")
    used = sorted(set().union(*train.values(), *test.values()))
    number = {uid: i for i, uid in enumerate(used)}

    def split(rows: Mapping[str, set[str]]) -> Split:
        targets = csr_of_lists([sorted(number[label] for label in labels) for labels in rows.values()], len(used))
        return Split(_texts(rows, material.documents), targets)

    sides, known = (split(train), split(test)), _texts(used, material.labels)
    filters = proposed_filter(*sides, known)
    has_filter = any(pairs is not None and pairs.nnz for pairs in filters)
    rows = [replace(side, filtered=pairs if has_filter else None) for side, pairs in zip(sides, filters, strict=True)]
    return Dataset(
        source.name,
        rows[0],
        known,
        rows[1],
        propensity=Propensity(0.55, 1.5),
        licence=source.licence,
        description=source.description,
        one_way=has_filter,
        fields=("title",),
    )


def _texts(uids: Iterable[str], texts: Mapping[str, Text]) -> Texts:
    """Texts in the order of their uids, with white space made single spaces."""

    def tidy(text: str) -> str:
        return " ".join(text.split())

    given = [{"uid": uid, "title": tidy(texts[uid].title), "content": tidy(texts[uid].content)} for uid in uids]
    return Texts.given(given, "texts")


def main(source: Source, about: str | None) -> None:
    """The command line of a script: packages, then the folder to write."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for package in source.packages:
        parser.add_argument(package, type=Path, help="the package, as it was fetched or unpacked")
    parser.add_argument("out", type=Path, help="the data set folder to write")
    given = vars(parser.parse_args())
    try:
        data = made(source, source.read(*(given[package] for package in source.packages)))
        data.write(given["out"])
    except BadInput as error:
        sys.exit(f"{source.name}: {error}")
    sides = f"{len(data.train):,} training and {len(data.test or ()):,} test documents"
    print(f"{given['out']}: {sides}, {len(data.labels):,} labels")
