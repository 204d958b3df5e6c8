"""Files that are there whole or not at all, and the state of a training run in them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its place once the block has ended well.

    The content reaches the disk before the name does (fsync, rename, fsync of the folder), so that after a crash at any
    moment ``path`` holds the old content or the new one, whole.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make sure that what was written to a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def save_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write a state dict, whole or not at all, without pickle.

    Args:
        path: of a safetensors file; what is not a tensor stands in its header as JSON.
        state: nested dicts and lists of tensors, numbers, strings and None.
    """
    tensors: dict[str, torch.Tensor] = {}
    storages: set[int] = set()

    def plain(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            tensor = value.detach().cpu().contiguous()
            if tensor.untyped_storage().data_ptr() in storages:  # the file format refuses two names of one memory
                tensor = tensor.clone()
            storages.add(tensor.untyped_storage().data_ptr())
            tensors[f"t{len(tensors)}"] = tensor
            return {"tensor": f"t{len(tensors) - 1}"}
        if isinstance(value, Mapping):
            return {"items": [[key, plain(item)] for key, item in value.items()]}
        if isinstance(value, (list, tuple)):
            return {"list": [plain(item) for item in value]}
        return {"value": value}

    structure = json.dumps(plain(state))
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={"state": structure})


def load_state(path: Path) -> dict[str, Any]:
    """Read what `save_state` wrote; tuples come back as lists."""
    with safe_open(path, "pt") as file:
        structure = json.loads(file.metadata()["state"])

        def value(node: dict[str, Any]) -> Any:
            if "tensor" in node:
                return file.get_tensor(node["tensor"])
            if "items" in node:
                return {key: value(item) for key, item in node["items"]}
            if "list" in node:
                return [value(item) for item in node["list"]]
            return node["value"]

        state: dict[str, Any] = value(structure)
    return state
