"""Decoders as encoders: which are taken, whether a token sees those behind it, and how it comes to."""

from __future__ import annotations

from typing import Any

import torch

from longtail.errors import BadInput


def is_causal(backbone: Any) -> bool:
    """Whether a token of a transformer sees none of those behind it."""
    turned = getattr(backbone.config, "is_causal", True) is False
    return not turned and any(getattr(part, "is_causal", False) is True for part in backbone.modules())


def must_be_one_stack(backbone: Any) -> None:
    """Refuse a transformer whose decoder writes of what its encoder has read, as T5's does.

    Raises:
        BadInput: it is such a model.
    """
    if backbone.config.is_encoder_decoder:
        problem = f"expected an encoder or a decoder, found {type(backbone).__name__}, which is one of each"
        raise BadInput("encoder", problem, remedy="choose another transformer")


def see_ahead(backbone: Any) -> None:
    """Let each token see those behind it.

    Raises:
        BadInput: the installed version of transformers cannot do so with this model.
    """
    backbone.config.is_causal = False
    with torch.inference_mode():
        one, other = backbone.eval()(input_ids=torch.tensor([[0, 0], [0, 1]])).last_hidden_state[:, 0]
    if torch.equal(one, other):
        problem = f"expected a model whose tokens can see those behind them, found {type(backbone).__name__}"
        raise BadInput("bidirectional", problem, remedy="leave it out, or choose another transformer")
