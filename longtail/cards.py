"""Cards: JSON files that say what the files beside them are, and vouch for them and for themselves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from longtail.errors import BadInput
from longtail.files import Kinds, read_json, write_json
from longtail.hashes import check_hashes, hashes, sha256

_DIGEST = "digest"  # the key of what a card says of itself


def write_card(path: Path, said: Mapping[str, Any], *, files: Collection[str] | None = None) -> None:
    """Write a card: what is said, the hashes of files beside it, and a digest of all that.

    Args:
        path: of the card.
        said: what it says.
        files: that it vouches for, by path from its folder; by default all in its folder and below it.
    """
    folder = path.parent
    sums = hashes(folder, card=path.name) if files is None else {name: sha256(folder / name) for name in files}
    card = {**said, "sha256": sums}
    write_json(path, card | {_DIGEST: _digest(card)})


def read_card(path: Path, *, remedy: str, keys: Collection[str] | Mapping[str, Kinds] = ()) -> dict[str, Any]:
    """What a card says, once it is known that it and the files that it vouches for are those that were written.

    Args:
        path: of the card. One that an earlier version wrote, without a digest, is taken as it is.
        remedy: what to do where it is not as it must be.
        keys: that it must have, and their types where they are given.

    Raises:
        BadInput: there is no card, or it or a file is not what was written.
    """
    kinds = keys if isinstance(keys, Mapping) else dict.fromkeys(keys, object)
    card = read_json(path, remedy=remedy, keys={"sha256": dict, **kinds})
    said = card.pop(_DIGEST, None)
    if said is not None and said != (found := _digest(card)):
        problem = f"expected the digest {str(said)[:12]}..., found {found[:12]}: it is not as it was written"
        raise BadInput(path, problem, remedy=remedy)
    check_hashes(path.parent, card["sha256"], remedy=remedy)
    return card


def is_card(said: Mapping[str, Any]) -> bool:
    """Whether a JSON object has a digest or hashes, which what an earlier version wrote in a card's place may lack."""
    return _DIGEST in said or "sha256" in said


def _digest(card: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()
