"""Packages of a few files, and the scripts of `benchmarks/sets/` that read them."""

from __future__ import annotations

import importlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
SETS = ROOT / "benchmarks" / "sets"


def script(name: str) -> ModuleType:
    """A script of the folder, whose scripts import each other by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SETS)
        return importlib.import_module(name)


def packed(files: Mapping[str, bytes], kind: str = "w:xz") -> bytes:
    """A tar archive."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=kind) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def debian(path: Path, files: Mapping[str, bytes]) -> Path:
    """A .deb: an ar archive, whose first members have an odd size."""
    members = {"debian-binary": b"2.0", "control.tar.xz": b"odd", "data.tar.xz": packed(files)}
    parts = [b"!<arch>\n"]
    for name, content in members.items():
        parts += [f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode(), content]
        parts.append(b"\n" * (len(content) % 2))
    path.write_bytes(b"".join(parts))
    return path


def wheel(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def unpacked(path: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path
