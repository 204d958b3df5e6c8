"""The layers of a transformer, for an optimiser."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn

_LAYER = re.compile(r"\.(\d+)\.")  # the first number in a parameter's name
_FEWEST = 4096  # numbers of a matrix whose moments are worth 8 bits


def groups_by_layer(
    parameters: Sequence[tuple[str, nn.Parameter]],
    layers: int,
    rate: float,
    *,
    tables: Iterable[Tensor],
    layer_decay: float,
    weight_decay: float,
    in_eight_bits: bool,
) -> list[dict[str, Any]]:
    """Groups for an optimiser: parameters of one learning rate, weight decay and kind of moments, in their order.

    Source: discriminative fine-tuning (Howard and Ruder, 2018), section 3.2, layer by layer.

    Args:
        parameters: of a transformer of numbered layers, with their names, in its order.
        layers: how many it runs through; where it has fewer, the last of them is the highest all the same.
        rate: of the highest layer, and of what is above it.
        tables: its embeddings, of words and of all else.
        layer_decay: what a layer's rate is times that of the layer above; embeddings that are in no layer are the
            lowest, with all that stands before the layers.
        weight_decay: of weights, but not of biases and normalisations.
        in_eight_bits: whether moments of matrices have 8 bits, but for those of embeddings, whose gradients are uneven
            (Dettmers et al., 2022, section 2.3), and of a few numbers.
    """
    embeddings = {*map(id, tables)}
    found = [_LAYER.search(name) for name, _ in parameters]
    numbers = [None if layer is None else int(layer[1]) for layer in found]
    highest = max((number for number in numbers if number is not None), default=0)
    first = next((place for place, layer in enumerate(found) if layer), 0)  # all before it is below the layers
    groups: dict[tuple[int, float, bool], list[nn.Parameter]] = {}
    for place, ((_, parameter), number) in enumerate(zip(parameters, numbers, strict=True)):
        embeds = id(parameter) in embeddings
        below = highest - number if number is not None else layers * (embeds or place < first)
        small = in_eight_bits and parameter.ndim > 1 and not embeds and parameter.numel() >= _FEWEST
        key = below if layer_decay < 1 else 0, weight_decay * (parameter.ndim > 1), small
        groups.setdefault(key, []).append(parameter)
    return [
        {"params": params, "lr": rate * layer_decay**below, "weight_decay": decay, "eight_bits": small}
        for (below, decay, small), params in groups.items()
    ]
