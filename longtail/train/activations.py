"""What a transformer keeps of a batch for its backward pass."""

from __future__ import annotations

from torch import Tensor, nn

from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.text.tokens import PaddedTokens


def activation_bytes(module: nn.Module, tokens: PaddedTokens) -> int:
    """The bytes of a transformer's activations (Korthikanti et al., 2022, eq. 2, 4 bytes each); 0 where there is none.

    Args:
        module: may be, or have, a `TransformerEncoder`.
        tokens: of a batch.
    """
    encoder = next((part for part in module.modules() if isinstance(part, TransformerEncoder)), None)
    if encoder is None:
        return 0
    config, at_once = encoder.backbone.config, encoder.texts_at_once
    # Rows of similar length are padded together, so that padding is little.
    lengths = tokens.windows(encoder.tokenizer.max_length)[0].mask.sum(1).double()
    width, heads, layers = config.hidden_size, config.num_attention_heads, config.num_hidden_layers
    held = lengths if at_once is None else lengths.sort(descending=True).values[:at_once]
    words = 0 if at_once is None else 2 * 4 * width * int(lengths.sum())  # which stay, with their gradients
    again = any(getattr(part, "gradient_checkpointing", False) for part in encoder.modules())
    whole, inputs = (1, 4 * layers * width * int(held.sum())) if again else (layers, 0)
    return words + inputs + layer_bytes(whole, width, heads, held)


def layer_bytes(layers: int, width: int, heads: int, lengths: Tensor) -> int:
    """The bytes that layers of a transformer hold of sequences of (n,) tokens."""
    return int(2 * layers * (lengths * (34 * width + 5 * heads * lengths)).sum())
