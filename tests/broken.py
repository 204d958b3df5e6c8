"""Files with wrong bits, and what becomes of who reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from longtail.errors import BadInput


def flipped(content: bytes, at: int, bit: int = 0) -> bytes:
    """A file with one wrong bit, in the byte at some place; a negative one counts from the end."""
    changed = bytearray(content)
    changed[at] ^= 1 << bit
    return bytes(changed)


def outcome(answer: Callable[[], Any], expected: object) -> str:
    """What becomes of a reader: the same answer, or one line."""
    try:
        found = answer()
    except BadInput as error:
        return "refused" if "\n" not in str(error) else str(error)
    return "same" if found == expected else "another answer"
