"""What a run reads beside its data set: other runs, transformers and files, known again by what is in them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from longtail.hashes import sha256
from longtail.model.saved import CARD
from longtail.modules.encoders.named import TRANSFORMER, encoder_named
from longtail.modules.exported import FOLDER
from longtail.stages.refit import place_before_refit
from longtail.text.huggingface import files_of_model
from longtail.transforms import file_read_by, run_read_by


def inputs_of(arguments: Mapping[str, Any]) -> dict[str, str]:
    """A SHA-256 of what the arguments of a run name on the disk, by argument.

    That of another run is of the cards of its models, which have those of all their files. What is not there has none:
    who reads it refuses it.

    Args:
        arguments: of a recipe, or of what makes a run of other runs, or of a peer, by name.
    """
    files = {name: read(str(arguments[name])) for name, read in _READ.items() if arguments.get(name)}
    there = {name: [path for path in paths if path.is_file()] for name, paths in files.items()}
    return {name: _digest(paths) for name, paths in there.items() if paths}


def _of_run(folder: str | Path) -> Iterable[Path]:
    model, before = Path(folder) / "model" / CARD, place_before_refit(Path(folder)) / CARD
    return (model, before) if model.is_file() else ()


def _of_transformer(name: str) -> Iterable[Path]:
    """None of one that is no folder: a package and Hugging Face have versions of their own; and none of an export."""
    folder = Path(name)
    if encoder_named(name) is not TRANSFORMER or not folder.is_dir():
        return ()
    return [path for path in files_of_model(folder) if FOLDER not in path.relative_to(folder).parts]


def _of_vectors(path: str) -> Iterable[Path]:
    return Path(path), Path(path).with_suffix(".txt")


def _of_augment(augment: str) -> Iterable[Path]:
    run, file = run_read_by(augment), file_read_by(augment)
    return (*(_of_run(run) if run else ()), *((file,) if file else ()))


def _digest(paths: Iterable[Path]) -> str:
    return hashlib.sha256("\n".join(f"{path.name} {sha256(path)}" for path in paths).encode()).hexdigest()


_READ: Mapping[str, Callable[[str], Iterable[Path]]] = {
    **dict.fromkeys(("start", "teacher", "first_stage", "trained", "first", "second"), _of_run),
    **dict.fromkeys(("encoder", "knowledge", "model"), _of_transformer),
    "static_vectors": _of_vectors,
    "augment": _of_augment,
}
"""By argument: the files that it names, in an order that is always the same."""
