"""The state of a training run in a file, without pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from longtail.files import replacing


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
                return file.get_tensor(node["tensor"]).clone()  # aligned: a product's last bit can depend on it
            if "items" in node:
                return {key: value(item) for key, item in node["items"]}
            if "list" in node:
                return [value(item) for item in node["list"]]
            return node["value"]

        state: dict[str, Any] = value(structure)
    return state
