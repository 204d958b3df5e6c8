"""The state of a training run in files, without pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from glob import escape
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from longtail.errors import BadInput
from longtail.files import must_be_a_file, remove_file, replacing
from longtail.train.finite import must_be_finite

_REMEDY = "remove the file, and resume: what it holds is trained again"


class Stateful(Protocol):
    """Anything whose state belongs into a checkpoint: modules, optimisers, samplers."""

    def state_dict(self) -> dict[str, Any]:
        """The state, as nested dicts of tensors and numbers."""

    def load_state_dict(self, state: Any, /) -> Any:
        """Take a state back."""


class Apart(Protocol):
    """What each process holds a part of: it is kept in files of its own, one for each shard, beside the checkpoint."""

    @property
    def own(self) -> Sequence[int]:
        """The shards of this process."""

    def rows(self, shard: int) -> dict[str, Any]:
        """What is kept of one of them, as a state dict."""

    def take(self, shard: int, rows: Mapping[str, Any]) -> None:
        """Take that back."""

    def left_out(self) -> AbstractContextManager[None]:
        """A context within which the state of modules and optimisers is without it."""

    def wait(self) -> None:
        """Go on when all processes have come here."""


class Checkpoint:
    """The checkpoint of a stage: a file of what every process has, and one of the rows of each shard.

    The files of shards are written before the other, which has a position as their names have. So there is a checkpoint
    once that one is there, and what was killed before leaves the last one as it was.

    Args:
        folder: of the run.
        stage: its name.
    """

    def __init__(self, folder: Path, stage: str) -> None:
        self._folder, self._stage = folder / "stages", stage
        self._path = self._folder / f"{stage}.checkpoint.safetensors"

    def write(
        self, position: Mapping[str, int], parts: Mapping[str, Stateful], apart: Apart | None, *, first: bool
    ) -> None:
        """Write it, and remove the rows of shards that belong to an earlier one.

        Args:
            position: the epoch, and the step in it, that comes next.
            parts: by name.
            apart: what of them is in files of shards; all processes call this then.
            first: whether this is the process that writes the rest.

        Raises:
            NotFinite: what it would hold is not; the last one stays.
        """
        where = f"stage {self._stage}, epoch {position['epoch'] + 1}, after step {position['step']}"
        if apart is not None:
            for shard in apart.own:
                rows = apart.rows(shard)
                must_be_finite(where, rows)
                save_state(self._rows(position, shard), rows)
            apart.wait()
        if first:
            with _left_out(apart):
                states = {name: part.state_dict() for name, part in parts.items()}
                must_be_finite(where, states)
                save_state(self._path, {"position": position, "parts": states})
            self._forget_rows(besides=position)

    def read(self, take: Callable[[Mapping[str, Any]], None], apart: Apart | None) -> dict[str, Any]:
        """Read it, where there is one.

        Args:
            take: is given the states of its parts.
            apart: takes the rows of its shards.

        Returns:
            The position; empty where there is none.

        Raises:
            BadInput: it is not what was written, or not of this stage.
        """
        if not self._path.exists():
            return {}
        with _left_out(apart), state_in(self._path) as saved:
            take(saved["parts"])
            position = dict(saved["position"])
        if apart is not None:
            remedy = f"remove {self._path.name} beside it, and resume: what it holds is trained again"
            for shard in apart.own:
                with state_in(self._rows(position, shard), remedy) as rows:
                    apart.take(shard, rows)
        return position

    def forget(self) -> None:
        """Remove it."""
        remove_file(self._path)
        self._forget_rows()

    def _rows(self, position: Mapping[str, int], shard: int) -> Path:
        """The file of a shard's rows."""
        return self._folder / f"{self._stage}.rows-{position['epoch']}-{position['step']}-{shard}.safetensors"

    def _forget_rows(self, besides: Mapping[str, int] | None = None) -> None:
        kept = None if besides is None else self._rows(besides, 0).name.rpartition("-")[0]
        for path in self._folder.glob(f"{escape(self._stage)}.rows-*.safetensors"):
            if path.name.rpartition("-")[0] != kept:
                remove_file(path)


def _left_out(apart: Apart | None) -> AbstractContextManager[None]:
    return nullcontext() if apart is None else apart.left_out()


@contextmanager
def state_in(path: Path, remedy: str = _REMEDY) -> Iterator[dict[str, Any]]:
    """A saved state, for a block that takes it up; what the block cannot take is refused."""
    try:
        yield load_state(path, remedy=remedy)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        found = " ".join(str(error).split())[:200]
        raise BadInput(path, f"expected a state of this stage, found another ({found})", remedy=remedy) from error


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


def load_state(path: Path, *, remedy: str = _REMEDY) -> dict[str, Any]:
    """Read what `save_state` wrote; tuples come back as lists. The files of earlier versions have no checksum.

    Args:
        path: of the file.
        remedy: what to do where it is not as it must be.

    Raises:
        BadInput: the file is not there, or not what was written.
    """
    must_be_a_file(path, remedy=remedy)
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
            # copied into memory that is aligned: the last bit of a product can depend on it
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not iterable
        if metadata.keys() not in ({"state"}, {"state", "sha256"}):
            raise _refused(path, f"metadata {', '.join(sorted(metadata))}", remedy)
        if metadata.get("sha256", expected := _sha256(metadata["state"], tensors)) != expected:
            raise _refused(path, "another content", remedy)
        state: dict[str, Any] = _value(json.loads(metadata["state"]), tensors)
    except FileNotFoundError:
        raise _refused(path, "no such file", remedy) from None
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _refused(path, str(error) or type(error).__name__, remedy) from error
    return state


def _value(node: dict[str, Any], tensors: Mapping[str, torch.Tensor]) -> Any:
    if "tensor" in node:
        return tensors[node["tensor"]]
    if "items" in node:
        return {key: _value(item, tensors) for key, item in node["items"]}
    if "list" in node:
        return [_value(item, tensors) for item in node["list"]]
    return node["value"]


def _refused(path: Path, found: str, remedy: str) -> BadInput:
    return BadInput(path, f"expected the state that was written, found {found}", remedy=remedy)


def _sha256(structure: str, tensors: Mapping[str, torch.Tensor]) -> str:
    """Of all that a state is: its structure, and the type, shape and bytes of each tensor."""
    found = hashlib.sha256(structure.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.numel():  # torch has no bytes of an empty one that NumPy made
            found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
