"""Decoders as encoders: which are taken, whether a token sees those behind it, and how it comes to."""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch

from longtail.errors import BadInput


def is_causal(backbone: Any) -> bool:
    """Whether a token of a transformer sees none of those behind it."""
    turned = getattr(backbone.config, "is_causal", True) is False
    return not turned and any(getattr(part, "is_causal", False) is True for part in backbone.modules())


def must_read_alone(backbone: Any) -> None:
    """Refuse a transformer whose hidden states of a text are not of that text alone.

    Raises:
        BadInput: its decoder writes of what its encoder has read, as T5's does, or it reads padding, as FNet does.
    """
    problem, name = "", type(backbone).__name__
    if backbone.config.is_encoder_decoder:
        problem = f"expected an encoder or a decoder, found {name}, which is one of each"
    elif "attention_mask" not in signature(backbone.forward).parameters:
        problem = f"expected a transformer that can leave padding unread, found {name}"
    if problem:
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
