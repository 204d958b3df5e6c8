"""Low-rank adapters of a transformer (LoRA), by the package peft."""

from __future__ import annotations

import logging
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from longtail.errors import MissingExtra
from longtail.files import write_json
from longtail.text.huggingface import read_if_there

_SCALE = 2  # alpha / r


def add_lora(backbone: nn.Module, rank: int, *, name: str, seed: int) -> Any:
    """Put adapters on all linear layers of a transformer, in place; they alone are trained from then on.

    A layer W (M, H) becomes W + 2 B A, with A (r, H) drawn at random and B (M, r) of zeros, so that nothing changes at
    first. Source: LoRA (Hu et al., 2022), section 4.1; on all layers as in QLoRA (Dettmers et al., 2023), section 4.

    Args:
        backbone: a model of transformers.
        rank: r.
        name: of the model that the adapters are for.
        seed: draws A.

    Returns:
        The configuration of the adapters, for `save_lora`.

    Raises:
        MissingExtra: peft is not installed.
    """
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # peft imports it, and it tells of kernels it would like
    try:
        peft = import_module("peft")
    except ModuleNotFoundError as error:
        raise MissingExtra("peft", extra="lora", purpose="an adapter") from error
    config = peft.LoraConfig(
        r=rank,
        lora_alpha=_SCALE * rank,
        target_modules="all-linear",
        exclude_modules=[name for name, _ in backbone.named_modules() if name.startswith("pooler.")] or None,  # unread
        base_model_name_or_path=name,
        task_type="FEATURE_EXTRACTION",
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of transformers, at what peft asks it
        torch.manual_seed(seed)
        peft.inject_adapter_in_model(config, backbone)
    for of, parameter in backbone.named_parameters():
        if ".lora_" in of:
            parameter.data = parameter.data.float()  # beside weights of bfloat16, too
    return config


def save_merged(folder: Path, backbone: Any) -> None:
    """Write a transformer with its adapters added to its weights, as one without adapters.

    It is written in float32, whatever its weights are held in: bfloat16 cannot hold small updates of them.
    """
    state = {
        name.replace(".base_layer.", "."): tensor.cpu().float() if tensor.is_floating_point() else tensor
        for name, tensor in backbone.state_dict().items()
        if ".lora_" not in name
    }
    with torch.no_grad():
        for name, layer in backbone.named_modules():
            if hasattr(layer, "get_delta_weight"):
                state[f"{name}.weight"] = state[f"{name}.weight"] + layer.get_delta_weight("default").cpu()
    backbone.save_pretrained(folder, state_dict=state)
    config = folder / "config.json"
    said = read_if_there(config, dict)
    kinds = said.keys() & {"dtype", "torch_dtype"}  # as versions of transformers call it: that of the weights as held
    write_json(config, said | dict.fromkeys(kinds, "float32"))


def save_lora(folder: Path, backbone: nn.Module, config: Any) -> None:
    """Write the adapters alone, so that ``peft.PeftModel.from_pretrained`` puts them onto the model they are for."""
    state = import_module("peft").get_peft_model_state_dict(backbone)
    folder.mkdir(exist_ok=True)
    config.save_pretrained(folder)
    weights = {f"base_model.model.{name}": tensor.cpu().contiguous() for name, tensor in state.items()}
    save_file(weights, folder / "adapter_model.safetensors")
