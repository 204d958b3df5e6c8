"""What a power loss leaves of a folder: what was synced, and of the rest anything that a file system may keep.

The layer notes each file and folder that is made, renamed or removed, and keeps a copy of each file that is synced.
Names are in a folder for good once the folder was synced, contents once the file was; before that, any of them may be
there and any may not, in any order, and a content may be the old one, empty, torn, or zeros.
"""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from faults.calls import Baseline, mended
from faults.lab import Lab, Verb, ill
from faults.layer import Fault, Mode


@dataclass(eq=False)
class _Node:
    """A file or folder, whatever its name is.

    Attributes:
        entries: of a folder, what is in it now; None of a file.
        synced: of a file, what is on the disk for good.
    """

    entries: dict[str, _Node] | None = None
    synced: bytes = b""


@dataclass
class _Change:
    """Of the entries of folders.

    Attributes:
        gone: a folder and the name that leaves it, or None.
        come: a folder and the name that it gets, or None.
        node: what has the name.
        synced: whether it is on the disk for good.
    """

    gone: tuple[_Node, str] | None
    come: tuple[_Node, str] | None
    node: _Node
    synced: bool = False


@dataclass
class Disk:
    """A folder as it was when all of it was on the disk, and what was done since.

    Args:
        folder: as it was.
    """

    folder: Path
    root: _Node = field(init=False)
    changes: list[_Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root = _read(self.folder)
        self.first = _copy_of_entries(self.root)

    def replay(self, journal: Path, at: Path) -> None:
        """Do again what was noted, of a folder that was at a path."""
        if not (journal / "journal").exists():
            return
        made: dict[str, tuple[_Node, str]] = {}  # by inode, where a file was seen last
        for line in (journal / "journal").read_text().splitlines():
            kind, inode, path, other = line.split("\t")
            place = parent, name = self._place(Path(path).relative_to(at))
            if kind in {"made", "folder"}:
                self._change(_Change(None, place, _Node({} if kind == "folder" else None)))
                made[inode] = place
                continue
            if name and name not in _entries(parent):  # renamed without the C library
                self._change(_Change(made[inode], place, _entries(made[inode][0])[made[inode][1]]))
            node = _entries(parent)[name] if name else self.root
            if kind == "seen":
                continue
            if kind == "removed":
                self._change(_Change(place, None, node))
            elif kind == "renamed":
                made[inode] = self._place(Path(other).relative_to(at))
                self._change(_Change(place, made[inode], node))
            else:
                self._synced(node, journal / kind)

    def _place(self, path: Path) -> tuple[_Node, str]:
        """The folder of a path, and the name in it; the root has none."""
        node = self.root
        for name in path.parts[:-1]:
            node = _entries(node)[name]
        return node, path.name

    def _change(self, change: _Change) -> None:
        self.changes.append(change)
        _apply(change, _entries)

    def _synced(self, node: _Node, copy: Path) -> None:
        if node.entries is None:
            node.synced = copy.read_bytes()
        for change in self.changes:
            if node in {place[0] for place in (change.gone, change.come) if place}:
                change.synced = True

    def lose_power(self, now: Path, draw: random.Random, policy: str) -> None:
        """Make of a folder what may be left of it.

        Args:
            now: the folder, as a process that was killed left it.
            draw: random numbers.
            policy: ``nothing`` of what was not synced is kept, ``names`` only are, ``all`` of it is, or ``some``.
        """
        contents: dict[_Node, bytes] = {}
        _contents(self.root, now, contents)
        left = {node: dict(entries) for node, entries in self.first.items()}
        for change in self.changes:
            if change.synced or policy in {"names", "all"} or (policy == "some" and draw.random() < 0.5):
                _apply(change, lambda node: left.setdefault(node, {}))
        shutil.rmtree(now)
        _write(self.root, now, left, lambda node: _content(node, contents.get(node, node.synced), draw, policy))


def _entries(node: _Node) -> dict[str, _Node]:
    assert node.entries is not None
    return node.entries


def _apply(change: _Change, entries: Callable[[_Node], dict[str, _Node]]) -> None:
    if change.gone and entries(change.gone[0]).get(change.gone[1]) is change.node:
        del entries(change.gone[0])[change.gone[1]]
    if change.come:
        entries(change.come[0])[change.come[1]] = change.node


def _read(path: Path) -> _Node:
    if path.is_dir():
        return _Node({child.name: _read(child) for child in path.iterdir()})
    return _Node(None, path.read_bytes())


def _copy_of_entries(node: _Node) -> dict[_Node, dict[str, _Node]]:
    if node.entries is None:
        return {}
    found = {node: dict(node.entries)}
    for child in node.entries.values():
        found |= _copy_of_entries(child)
    return found


def _contents(node: _Node, path: Path, found: dict[_Node, bytes]) -> None:
    """What files hold now."""
    for name, child in _entries(node).items():
        if child.entries is not None:
            _contents(child, path / name, found)
        elif (path / name).is_file():
            found[child] = (path / name).read_bytes()


def _content(node: _Node, now: bytes, draw: random.Random, policy: str) -> bytes:
    if policy == "all" or now == node.synced:
        return now
    if policy in {"nothing", "names"}:
        return node.synced
    old = node.synced if draw.random() < 0.5 else bytes(len(now))  # where it has grown there may be zeros
    old = node.synced[: len(now)] + old[len(node.synced) :]
    torn = b"".join(draw.choice((now, old))[at : at + 512] for at in range(0, len(now), 512))
    return draw.choice((node.synced, now, torn, now[: max(len(now) // 2, len(node.synced))]))


def _write(node: _Node, path: Path, left: dict[_Node, dict[str, _Node]], content: Callable[[_Node], bytes]) -> None:
    path.mkdir()
    for name, child in left.get(node, {}).items():
        if child.entries is None:
            (path / name).write_bytes(content(child))
        else:
            _write(child, path / name, left, content)


POLICIES = ("nothing", "names", "some", "all")


def judged_after_power_loss(lab: Lab, verb: Verb, call: int, policy: str, expected: Baseline) -> str:
    """What is wrong with what comes of a verb whose machine loses its power before a call, or at its end, or nothing.

    Args:
        lab: to work in.
        verb: that is under way.
        call: its number; one more than the last for a verb that is done.
        policy: what is left of what was not synced, see `Disk.lose_power`.
        expected: what the verb does without a fault.
    """
    journal = lab.folder / "journal"
    shutil.rmtree(journal, ignore_errors=True)
    journal.mkdir()
    lab.begin(verb.start)
    ended = lab.run(*verb.arguments, fault=Fault(Mode.SIGNAL, call, -signal.SIGKILL, journal=str(journal)))
    disk = Disk(lab.templates[verb.start])
    disk.replay(journal, lab.work)
    disk.lose_power(lab.work, random.Random(f"{verb.name} {call} {policy}"), policy)
    if ended.status == 0:
        return "" if verb.answer(lab) == expected.answer else "silently lost: it was done, and another answer is left"
    if ended.status != -signal.SIGKILL:
        return f"not killed: {ill(ended) or ended}"
    return mended(lab, verb, expected)
