"""The layers of a transformer, for an optimiser."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from torch import nn

_LAYER = re.compile(r"\.(\d+)\.")  # the first number in a parameter's name
_FEWEST = 4096  # numbers of a matrix whose moments are worth 8 bits


def groups_by_layer(
    parameters: Iterable[tuple[str, nn.Parameter]],
    layers: int,
    rate: float,
    *,
    layer_decay: float,
    weight_decay: float,
    in_eight_bits: bool,
) -> list[dict[str, Any]]:
    """Groups for an optimiser: parameters of one learning rate, weight decay and kind of moments, in their order.

    Source: discriminative fine-tuning (Howard and Ruder, 2018), section 3.2, layer by layer.

    Args:
        parameters: of a transformer of numbered layers, with their names.
        layers: how many.
        rate: of the highest layer, and of what is above it.
        layer_decay: what a layer's rate is times that of the layer above; word embeddings are the lowest.
        weight_decay: of weights, but not of biases and normalisations.
        in_eight_bits: whether moments of matrices have 8 bits, but for those of embeddings, whose gradients are uneven
            (Dettmers et al., 2022, section 2.3), and of a few numbers.
    """
    groups: dict[tuple[int, float, bool], list[nn.Parameter]] = {}
    for name, parameter in parameters:
        found = _LAYER.search(name)
        below = layers - 1 - int(found[1]) if found else layers * ("embed" in name)
        small = in_eight_bits and parameter.ndim > 1 and "embed" not in name and parameter.numel() >= _FEWEST
        key = below if layer_decay < 1 else 0, weight_decay * (parameter.ndim > 1), small
        groups.setdefault(key, []).append(parameter)
    return [
        {"params": params, "lr": rate * layer_decay**below, "weight_decay": decay, "eight_bits": small}
        for (below, decay, small), params in groups.items()
    ]
