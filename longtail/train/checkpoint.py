"""The state of a training run in a file, without pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from longtail.errors import BadInput
from longtail.files import must_be_a_file, replacing

REMEDY = "remove the file, and resume: what it holds is trained again"


def save_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write a state dict with its checksum, whole or not at all, without pickle.

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
        save_file(tensors, temporary, metadata={"state": structure, "sha256": _sha256(structure, tensors)})


def load_state(path: Path) -> dict[str, Any]:
    """Read what `save_state` wrote; tuples come back as lists. The files of earlier versions have no checksum.

    Raises:
        BadInput: the file is not what was written.
    """
    must_be_a_file(path, remedy=REMEDY)
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
            # copied into memory that is aligned: the last bit of a product can depend on it
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not iterable
        if metadata.keys() not in ({"state"}, {"state", "sha256"}):
            raise _refused(path, f"metadata {', '.join(sorted(metadata))}")
        if metadata.get("sha256", expected := _sha256(metadata["state"], tensors)) != expected:
            raise _refused(path, "another content")
        state: dict[str, Any] = _value(json.loads(metadata["state"]), tensors)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _refused(path, str(error) or type(error).__name__) from error
    return state


def _value(node: dict[str, Any], tensors: Mapping[str, torch.Tensor]) -> Any:
    if "tensor" in node:
        return tensors[node["tensor"]]
    if "items" in node:
        return {key: _value(item, tensors) for key, item in node["items"]}
    if "list" in node:
        return [_value(item, tensors) for item in node["list"]]
    return node["value"]


def _refused(path: Path, found: str) -> BadInput:
    return BadInput(path, f"expected the state that was written, found {found}", remedy=REMEDY)


def _sha256(structure: str, tensors: Mapping[str, torch.Tensor]) -> str:
    """Of all that a state is: its structure, and the type, shape and bytes of each tensor."""
    found = hashlib.sha256(structure.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.numel():  # torch has no bytes of an empty one that NumPy made
            found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
