"""Calls that fail, writes that are not what was asked for, and processes that die, at every call of every verb."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from faults.lab import NOT_HAPPENED, Lab, Verb, ill
from faults.layer import Fault, Mode


def faults(verb: Verb, calls: int) -> Iterator[tuple[str, Fault]]:
    """Every fault of every call that a verb makes, by what it is; a wrong bit where a reader can know of it."""
    for n in range(1, calls + 1):
        yield "killed", Fault(Mode.SIGNAL, n, signal.SIGKILL)
        yield "killed in a write", Fault(Mode.TEAR, n)
        yield "no room, from here on", Fault(Mode.FAIL, n, errno.ENOSPC, lasting=True)
        yield "an error of the disk", Fault(Mode.FAIL, n, errno.EIO)
        yield "a short write", Fault(Mode.SHORT, n)
        if verb.reads:
            yield "a wrong bit", Fault(Mode.FLIP, n)
        yield "SIGTERM", Fault(Mode.SIGNAL, n, signal.SIGTERM)
        yield "SIGINT", Fault(Mode.SIGNAL, n, signal.SIGINT)


@dataclass(frozen=True)
class Baseline:
    """What a verb does without a fault.

    Attributes:
        calls: that change a file.
        before: the answer before it, of an atomic one.
        answer: after it.
        read: what is then read, see `Verb.reads`.
        names: of all files.
    """

    calls: int
    before: Any
    answer: Any
    read: str
    names: set[str]


def baseline(lab: Lab, verb: Verb) -> Baseline:
    """Run a verb without a fault."""
    lab.begin(verb.start)
    before = verb.answer(lab) if verb.atomic else None
    lab.begin(verb.start)
    ended = lab.run(*verb.arguments, fault=Fault(Mode.COUNT))
    assert not ill(ended), (verb.name, ended)
    assert ended.status == 0, (verb.name, ended)
    names = lab.names()
    answer, read = verb.answer(lab), verb.reads(lab).output if verb.reads else ""
    return Baseline(ended.calls, before, answer, read, names)


def judged(lab: Lab, verb: Verb, fault: Fault, expected: Baseline) -> str:
    """What is wrong with what comes of a verb under a fault, or nothing."""
    lab.begin(verb.start)
    ended = lab.run(*verb.arguments, fault=fault)
    if not ended.fired:
        return NOT_HAPPENED
    if wrong := ill(ended, signalled=fault.mode in {Mode.SIGNAL, Mode.TEAR}):
        return wrong
    if fault.mode == Mode.FLIP:
        return _read(lab, verb, expected) if ended.status == 0 else ""
    if ended.status == 0 and verb.answer(lab) != expected.answer:
        return "silently accepted: status 0, and another answer"
    return mended(lab, verb, expected)


def mended(lab: Lab, verb: Verb, expected: Baseline) -> str:
    """What is wrong with what a user finds after a fault, and after giving the command again, or nothing."""
    if verb.atomic:
        found = verb.answer(lab)
        if found == expected.answer:
            return ""
        if found != expected.before:
            return "silently lost: the answer is neither the one before nor the one after"
    again = lab.repeat(verb)
    if again.status != 0 or ill(again):
        return f"given again: {ill(again) or again.errors.strip()}"
    left, missing = lab.names() - expected.names, expected.names - lab.names()
    if left or missing:
        return f"left over: {sorted(left)}, missing: {sorted(missing)}"
    return "" if verb.answer(lab) == expected.answer else "silently lost: given again, and another answer"


def _read(lab: Lab, verb: Verb, expected: Baseline) -> str:
    """Where there is a wrong bit by now: what is read is the same, or refused."""
    assert verb.reads
    read = verb.reads(lab)
    if wrong := ill(read):
        return f"read: {wrong}"
    return "silently accepted" if read.status == 0 and read.output != expected.read else ""
