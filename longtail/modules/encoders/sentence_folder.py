"""The folder of a sentence-transformers model, beside its transformer: pooling, a dense layer, and prefixes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from longtail.errors import BadInput
from longtail.files import write_json
from longtail.text.huggingface import GET_AGAIN, read_if_there

POOLING = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "last": "pooling_mode_lasttoken"}
_CALLED = {key: mode for mode, key in POOLING.items()} | {"lasttoken": "last"}
_PATH = re.compile(r"[\w-]*")  # of a module: a folder, or the model's own
_IDENTITY = "torch.nn.modules.linear.Identity"
_PROMPTS = "config_sentence_transformers.json"
_SIDES = (("query",), ("document", "passage", "corpus"))  # what prefixes of documents and of labels are called
_LAYERS = "joined_layers.json"


class SentenceFolder(NamedTuple):
    """What a folder says besides its transformer.

    Attributes:
        pooling: a key of `POOLING`, or what else it states; None where it states none.
        projection: the weights of its dense layer, if it has one.
        prefixes: of documents and of labels. They are what the package calls the prompts of queries and of documents,
            or its default prompt for both; empty where it has none.
    """

    pooling: str | None
    projection: nn.Linear | None
    prefixes: tuple[str, str]

    @classmethod
    def read(cls, folder: Path, width: int) -> SentenceFolder:
        """Read a folder.

        Args:
            folder: of a transformer, with the files of sentence-transformers or without.
            width: of its hidden states.

        Raises:
            BadInput: it asks for a layer that a transformer encoder does not have, or a file is broken.
        """
        paths = _modules(folder)
        config = read_if_there(paths.get("Pooling", folder / "1_Pooling") / "config.json", dict)
        flags = [_CALLED.get(key, key) for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
        stated = config.get("pooling_mode", flags or None)
        modes = [str(mode) for mode in (stated if isinstance(stated, list) else [stated])]
        pooling = None if stated is None else "+".join(_CALLED.get(mode, mode) for mode in modes)
        prefixes = _prefixes(folder / _PROMPTS)
        if any(prefixes) and config.get("include_prompt") is False:
            problem = "expected a pooling that takes prefixes in, found include_prompt false"
            raise BadInput(folder, problem, remedy="choose another model, or give empty prefixes a folder of their own")
        return cls(pooling, _dense(paths["Dense"], width) if "Dense" in paths else None, prefixes)


def write_sentence_folder(
    folder: Path,
    *,
    pooling: str,
    width: int,
    texts: Mapping[str, int],
    projection: nn.Linear | None,
    prefixes: tuple[str, str],
) -> None:
    """Write what makes the folder of a transformer one of sentence-transformers.

    Args:
        folder: has the transformer.
        pooling: a key of `POOLING`.
        width: of the hidden states.
        texts: how many tokens they have at most, and whether they are put into lower case, as the package says it.
        projection: on top of the pooling.
        prefixes: of documents and of labels.
    """
    write_json(folder / "sentence_bert_config.json", texts)
    modes = {key: mode == pooling for mode, key in POOLING.items()}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": width, **modes})
    if any(prefixes):
        prompts = {names[0]: prefix for names, prefix in zip(_SIDES, prefixes, strict=True)}
        write_json(folder / _PROMPTS, {"prompts": prompts, "default_prompt_name": None})
    layers = ["", "1_Pooling"]
    if projection is not None:
        layers.append("2_Dense")
        _write_dense(folder / "2_Dense", projection)
    layers.append(f"{len(layers)}_Normalize")
    kinds = [layer.partition("_")[2] or "Transformer" for layer in layers]
    write_json(
        folder / "modules.json",
        [
            {"idx": i, "name": str(i), "path": layer, "type": f"sentence_transformers.models.{kind}"}
            for i, (layer, kind) in enumerate(zip(layers, kinds, strict=True))
        ],
    )


def read_layers(folder: Path) -> list[int]:
    """What `write_layers` wrote, if anything."""
    return [int(layer) for layer in read_if_there(folder / _LAYERS, list)]


def write_layers(folder: Path, layers: Sequence[int]) -> None:
    """Note which layers are joined, where some are; sentence-transformers has no place for it."""
    if layers:
        write_json(folder / _LAYERS, list(layers))


def linear(state: Mapping[str, Tensor]) -> nn.Linear:
    """A linear layer of given weights, with a bias where there is one."""
    out_features, in_features = state["linear.weight"].shape
    layer = nn.Linear(in_features, out_features, bias="linear.bias" in state, device="meta")
    layer.load_state_dict({name.removeprefix("linear."): tensor for name, tensor in state.items()}, assign=True)
    return layer


def first_numbers(layer: nn.Linear | None, given: int, width: int) -> nn.Linear:
    """A layer that gives the first numbers of what another one does, or of the vectors themselves.

    Args:
        layer: on vectors; None for none.
        given: the width of the vectors.
        width: how many numbers.
    """
    if layer is None:
        return linear({"linear.weight": torch.eye(width, given)})
    state = {f"linear.{name}": tensor[:width].clone() for name, tensor in layer.state_dict().items()}
    return linear(state)


def _modules(folder: Path) -> dict[str, Path]:
    """The folders of a model's modules, by their kind; of a transformer alone, none."""
    file = folder / "modules.json"
    entries = read_if_there(file, list)
    for entry in entries:
        named = isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in ("type", "path"))
        if not named or not _PATH.fullmatch(entry["path"]):
            problem = f"expected modules with a type and a folder below this one, found {str(entry)[:60]!r}"
            raise BadInput(file, problem, remedy=GET_AGAIN)
    paths = {entry["type"].rpartition(".")[2]: folder / entry["path"] for entry in entries}
    if len(paths) < len(entries) or paths.keys() - {"Transformer", "Pooling", "Dense", "Normalize"}:
        found = ", ".join(entry["type"].rpartition(".")[2] for entry in entries)
        problem = f"expected at most one each of Transformer, Pooling, Dense and Normalize, found {found}"
        raise BadInput(file, problem, remedy="choose a model of these layers")
    return paths


def _prefixes(file: Path) -> tuple[str, str]:
    """The prefixes of documents and of labels."""
    said = read_if_there(file, dict)
    prompts = said.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise BadInput(file, f"expected prompts by name, found {str(prompts)[:60]!r}", remedy=GET_AGAIN)
    usual = prompts.get(str(said.get("default_prompt_name")), "")
    document, label = (next((prompts[name] for name in names if name in prompts), usual) for names in _SIDES)
    return document, label


def _dense(folder: Path, width: int) -> nn.Linear:
    """The linear layer in the folder of a sentence-transformers ``Dense`` module without an activation."""
    config, weights = read_if_there(folder / "config.json", dict), folder / "model.safetensors"
    activation = config.get("activation_function", "Tanh")
    if activation != _IDENTITY or not weights.is_file():
        problem = f"expected a dense layer of activation Identity in safetensors, found {activation}"
        raise BadInput(folder, problem, remedy="choose another model, or one without this layer")
    try:
        layer = linear(load_file(weights))
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
        problem = f"expected the weights of a dense layer, found {' '.join(str(error).split())[:80]}"
        raise BadInput(weights, problem, remedy=GET_AGAIN) from error
    if layer.in_features != width:
        problem = f"expected a layer on vectors {width} wide, found one on {layer.in_features}"
        raise BadInput(weights, problem, remedy=GET_AGAIN)
    return layer


def _write_dense(folder: Path, layer: nn.Linear) -> None:
    shape = {"in_features": layer.in_features, "out_features": layer.out_features, "bias": layer.bias is not None}
    write_json(folder / "config.json", {**shape, "activation_function": _IDENTITY})
    save_file(
        {f"linear.{k}": v.cpu().contiguous() for k, v in layer.state_dict().items()}, folder / "model.safetensors"
    )
