"""Files of a run as an answer shows them: what cannot be read is left out, and logged."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

_log = logging.getLogger("longtail.serve")


def read(path: Path) -> dict[str, Any]:
    """The object in a file of a run; an empty one where there is none."""
    return _object(path, path.read_bytes()) if path.is_file() else {}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects in the lines of a file of a run; a crash may have cut the last."""
    lines = path.read_bytes().splitlines() if path.is_file() else []
    return [found for line in lines if (found := _object(path, line))]


def _object(path: Path, content: bytes) -> dict[str, Any]:
    """An object that an answer can hold, or an empty one where the content is none, which is logged."""
    try:
        found = json.loads(content)
        json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
        return dict(found)
    except (ValueError, TypeError, RecursionError) as error:
        _log.warning("a file of the run cannot be read", extra={"with": {"file": str(path), "problem": str(error)}})
        return {}
