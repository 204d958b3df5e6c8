"""Files and folders that are there whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from longtail.errors import BadInput

PARTIAL = ".partial"  # ends the name of whatever is not whole yet


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its place once the block has ended well.

    The content reaches the disk before the name does (fsync, rename, fsync of the folder), so that after a crash at any
    moment ``path`` holds the old content or the new one, whole.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``folder`` once the block has ended well; like `replacing`, for a new folder.

    Raises:
        BadInput: the folder is there already, and is not empty.
    """
    must_be_free(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}{PARTIAL}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for path in (*temporary.rglob("*"), temporary):
            _sync(path)
        if folder.exists():
            remove_partial(folder)
        temporary.replace(folder)
        _sync(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def must_be_free(folder: Path) -> None:
    """Refuse a folder that holds something already, other than what a crash left half-written."""
    if not folder.exists():
        return
    if not folder.is_dir() or any(islice((path for path in folder.iterdir() if path.suffix != PARTIAL), 1)):
        raise BadInput(folder, "is there already, and is not empty", remedy="choose another folder or remove it")


def remove_partial(folder: Path) -> None:
    """Remove what a crash left half-written in a folder and below it."""
    for path in folder.rglob(f".*{PARTIAL}"):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _sync(path: Path) -> None:
    """Make sure that what was written to a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
