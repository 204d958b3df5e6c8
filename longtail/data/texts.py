"""Many strings in one block of bytes: the text of documents, labels and graph nodes."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise, repeat
from typing import TypeAlias
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from longtail.data.sparse import gather, offsets_of, row_blocks
from longtail.errors import BadInput
from longtail.topk import IntArray

_BYTES = 2**20  # that are copied at a time: their places fit the cache
_UNFIT = re.compile(rb"\0"), re.compile(rb"\xed[\xa0-\xbf]")  # NUL; surrogates. One pattern of both is far slower

STORABLE = "expected text that UTF-8 can hold, without NUL"
MEND_TEXT = "take out NUL and lone surrogates, which are halves of a character"


def _unfit(encoded: bytes | memoryview) -> list[int]:
    """The places in UTF-8 of what no text may hold, wherever it comes from: NUL and lone surrogates."""
    return [found.start() for pattern in _UNFIT for found in pattern.finditer(encoded)]


def storable(text: str) -> bool:
    """Whether a text may come in: UTF-8 can hold it, and it has no NUL."""
    return not _unfit(text.encode("utf-8", "surrogatepass"))


def canonical(text: str) -> str:
    """A text in Unicode NFC: texts that are the same to a reader, as é in one character or in two, are equal in it."""
    return text if text.isascii() else normalize("NFC", text)


def caseless(text: str) -> str:
    """A text without case and without what Unicode NFKC takes for another form of a character, as a wide letter."""
    return normalize("NFKC", text).casefold()


@dataclass(frozen=True, slots=True)
class Strings:
    """An immutable sequence of n strings, kept as UTF-8 in one array: 2 million titles are 2 arrays.

    Attributes:
        blob: (bytes,) uint8, all strings one after the other; may be memory-mapped.
        offsets: (n + 1,) int64; string i is ``blob[offsets[i]:offsets[i + 1]]``.
    """

    blob: npt.NDArray[np.uint8]
    offsets: IntArray

    @classmethod
    def of(cls, strings: Iterable[str]) -> Strings:
        """Collect strings from an iterable, which is read once."""
        collector = Collector()
        for text in strings:
            collector.add(text)
        return collector.strings()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> str:
        if not -len(self) <= i < len(self):
            raise IndexError(f"string {i} of {len(self)}")
        i %= len(self)
        return self.blob[self.offsets[i] : self.offsets[i + 1]].tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        raw, offsets = self.blob.data, self.offsets.tolist()
        for start, end in pairwise(offsets):
            yield str(raw[start:end], "utf-8", "surrogatepass")

    def unfit(self) -> tuple[int, str] | None:
        """The first string that may not come in (`storable`) and what is wrong, or None where all may."""
        places = np.asarray(_unfit(self.blob.data), np.int64)
        if not len(places):
            return None
        first, *others = np.unique(np.searchsorted(self.offsets, places, "right") - 1).tolist()
        more = f" (and {len(others)} more like it)" if others else ""
        return first, f"{STORABLE}, found {self[first][:40]!r}{more}"

    def encoded(self) -> list[bytes]:
        """Each string in UTF-8."""
        raw = self.blob.tobytes()
        return [raw[start:end] for start, end in pairwise(self.offsets.tolist())]

    def canonical(self) -> Strings:
        """The same strings in Unicode NFC."""
        return self if not len(self.blob) or self.blob.max() < 128 else Strings.of(map(canonical, self))

    def take(self, rows: IntArray) -> Strings:
        """The strings at ``rows`` (any order, repeats allowed)."""
        places = np.arange(len(self))[rows]
        sizes = np.diff(self.offsets)[places]
        offsets = offsets_of(sizes)
        blob = np.empty(int(offsets[-1]), np.uint8)
        for block in row_blocks(sizes, _BYTES):
            positions, _ = gather(self.offsets, places[block])
            blob[offsets[block.start] : offsets[block.stop]] = self.blob[positions]
        return Strings(blob, offsets)

    def followed_by(self, other: Strings) -> Strings:
        """The strings of both, one after the other."""
        offsets = np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]])
        return Strings(np.concatenate([self.blob, other.blob]), offsets)

    def digest(self) -> str:
        """SHA-256 of the content, in hexadecimal."""
        state = hashlib.sha256(np.ascontiguousarray(self.offsets).data)
        state.update(np.ascontiguousarray(self.blob).data)
        return state.hexdigest()


class Collector:
    """Grows a `Strings` one text at a time; no text is held twice."""

    def __init__(self) -> None:
        self._blob = bytearray()
        self._ends = array("q", [0])

    def add(self, text: str) -> None:
        """Append one string."""
        self.extend([text.encode("utf-8", "surrogatepass")])

    def extend(self, encoded: Sequence[bytes]) -> None:
        """Append strings that are UTF-8 already."""
        ends = accumulate(map(len, encoded), initial=len(self._blob))
        self._ends.extend(islice(ends, 1, None))
        self._blob += b"".join(encoded)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def strings(self) -> Strings:
        """What was collected, without a copy; nothing can be added any more."""
        return Strings(np.frombuffer(self._blob, np.uint8), np.frombuffer(self._ends, np.int64))


GivenText: TypeAlias = str | Mapping[str, str]
"""A text in Python: its title, or a mapping with ``title``, ``content`` and ``uid``."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts with names: n documents or n labels, one column a field.

    Attributes:
        uids: n identifiers; unique within a set of documents or labels, empty strings where the data has none.
        fields: columns of n strings by name: ``title`` always, ``content`` where the data has it, and what else was
            asked for: a market, say, or a count.
    """

    uids: Strings
    fields: Mapping[str, Strings]

    def __post_init__(self) -> None:
        for name, column in self.fields.items():
            if len(column) != len(self.uids):
                raise ValueError(f"field {name} has {len(column)} strings for {len(self.uids)} uids")

    @classmethod
    def of(cls, titles: Sequence[str], *, uids: Sequence[str] | None = None) -> Texts:
        """Texts of one field, ``title``."""
        return cls(Strings.of(uids if uids is not None else [""] * len(titles)), {"title": Strings.of(titles)})

    @classmethod
    def of_columns(cls, fields: Mapping[str, Strings]) -> Texts:
        """Texts without uids, of at least one field."""
        return cls(Strings.of([""] * len(next(iter(fields.values())))), fields)

    @classmethod
    def given(cls, texts: Iterable[GivenText], what: str) -> Texts:
        """Texts as a Python caller gives them.

        Args:
            texts: read once; each a title, or a mapping with a ``title`` and, where there are such, a longer
                ``content`` and a ``uid``. Other keys are passed over.
            what: name of the argument, for messages.

        Raises:
            BadInput: it is one text, or none of them; a text is neither, lacks a title, holds something else than
                strings or what is not `storable`, or has the uid of another.
        """
        if isinstance(texts, (str, Mapping)) or not isinstance(texts, Iterable):
            found = "one" if isinstance(texts, (str, Mapping)) else type(texts).__name__
            raise BadInput(what, f"expected several texts, found {found}", remedy="put them into a list")
        collector, places = TextsCollector(), dict[str, int]()
        for i, text in enumerate(texts):
            record = {"title": text} if isinstance(text, str) else text if isinstance(text, Mapping) else {}
            values = [record.get(key, "") for key in collector.keys]
            if "title" not in record or not all(isinstance(value, str) for value in values):
                problem = f"expected a string or a dict of strings with a title, found {str(text)[:40]!r} at {i}"
                raise BadInput(what, problem, remedy='give "..." or {"title": "...", "content": "...", "uid": "..."}')
            if (uid := record.get("uid")) and (first := places.setdefault(uid, i)) != i:
                problem = f"uid {uid!r} is given at {first} and at {i}"
                raise BadInput(what, problem, remedy="give each text its own, or none")
            collector.add(values)
        given = collector.texts()
        for i, problem in given.unfit():
            raise BadInput(what, f"{problem} at {i}", remedy=MEND_TEXT)
        return given

    @classmethod
    def by_field(cls, given: Sequence[Mapping[str, str]], fields: Sequence[str]) -> Texts:
        """Texts without uids, of some fields; one that a text lacks is empty there."""
        columns = {name: Strings.of(text.get(name, "") for text in given) for name in fields}
        return cls(Strings.of([""] * len(given)), columns)

    def __len__(self) -> int:
        return len(self.uids)

    def take(self, rows: IntArray) -> Texts:
        """The texts at ``rows``."""
        return Texts(self.uids.take(rows), {name: column.take(rows) for name, column in self.fields.items()})

    def followed_by(self, other: Texts) -> Texts:
        """The texts of both, one after the other; a field that one side lacks is empty there."""

        def column(texts: Texts, name: str) -> Strings:
            return texts.fields[name] if name in texts.fields else Strings.of([""] * len(texts))

        names = dict.fromkeys([*self.fields, *other.fields])
        fields = {name: column(self, name).followed_by(column(other, name)) for name in names}
        return Texts(self.uids.followed_by(other.uids), fields)

    def unfit(self) -> list[tuple[int, str]]:
        """The first text of each column that may not come in, and what is wrong."""
        found = [column.unfit() for column in (self.uids, *self.fields.values())]
        return [problem for problem in found if problem is not None]

    def joined(self, fields: Sequence[str]) -> Iterator[str]:
        """Each text's chosen fields in NFC, joined by a space: what an encoder reads. Fields that lack are skipped."""
        columns = [self.fields[name] for name in self._present(fields)]
        if len(columns) == 1:
            return map(canonical, columns[0])
        return (canonical(" ".join(filter(None, parts))) for parts in zip(*columns, strict=True))

    def in_places(self, fields: Sequence[str], between: str) -> Iterator[str]:
        """The same with a text between all of them: a field that lacks is empty, and has its place."""
        present = self._present(fields)
        columns = [self.fields[name] if name in present else repeat("", len(self)) for name in fields]
        return (canonical(between.join(parts)) for parts in zip(*columns, strict=True))

    def _present(self, fields: Sequence[str]) -> list[str]:
        """Those fields that there are, at least one."""
        present = [name for name in fields if name in self.fields]
        if not present:
            problem = f"none of the fields {', '.join(fields)} is in the data"
            raise BadInput("fields", problem, remedy=f"there are {', '.join(self.fields)}")
        return present

    def digest(self) -> str:
        """SHA-256 of uids and fields, in hexadecimal."""
        parts = [self.uids.digest(), *(f"{name}:{column.digest()}" for name, column in sorted(self.fields.items()))]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()


class TextsCollector:
    """Grows `Texts` one at a time; a column that no text has is left out.

    Args:
        fields: columns to keep; the title always is.
    """

    def __init__(self, fields: Collection[str] = ("title", "content")) -> None:
        self._columns = {key: Collector() for key in dict.fromkeys(("uid", "title", *fields))}

    @property
    def keys(self) -> tuple[str, ...]:
        """What `add` wants: ``uid``, ``title``, and the other columns that are kept."""
        return tuple(self._columns)

    def __len__(self) -> int:
        return len(self._columns["uid"])

    def add(self, values: Iterable[str]) -> None:
        """Append one text, its values in the order of `keys`."""
        for column, value in zip(self._columns.values(), values, strict=True):
            column.add(value)

    def extend(self, columns: Iterable[Sequence[bytes]]) -> None:
        """Append texts that are UTF-8 already: a column for each of `keys`, all of one length."""
        for column, values in zip(self._columns.values(), columns, strict=True):
            column.extend(values)

    def texts(self) -> Texts:
        """What was collected, without a copy; nothing can be added any more."""
        columns = {key: column.strings() for key, column in self._columns.items()}
        uids = columns.pop("uid")
        return Texts(uids, {key: column for key, column in columns.items() if key == "title" or len(column.blob)})


def appended(texts: Texts, links: IntArray, nodes: Strings) -> Texts:
    """Texts with those of the nodes that they are linked to behind their titles.

    Args:
        texts: n texts.
        links: (n, K) ids in [0, M), padded with -1.
        nodes: M texts.
    """
    found = {i: nodes[i] for i in np.unique(links).tolist() if i >= 0}
    titles = (
        " ".join([title, *(found[i] for i in row if i >= 0)])
        for title, row in zip(texts.fields["title"], links.tolist(), strict=True)
    )
    return Texts(texts.uids, {**texts.fields, "title": Strings.of(titles)})
