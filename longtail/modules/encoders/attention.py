"""How a transformer computes its attention: the same numbers, in more or less time and memory."""

from __future__ import annotations

from typing import Any

from longtail.errors import BadInput
from longtail.text.huggingface import quiet


def attend(backbone: Any, name: str) -> None:
    """Let a transformer compute attention by an implementation of ``transformers``.

    Args:
        backbone: a model of ``transformers``.
        name: ``sdpa``, PyTorch's fused kernels; ``eager``, matrix products; ``flash_attention_2``, which asks for the
            package flash-attn, a GPU and bfloat16, and computes nothing of padding; or another that it knows.

    Raises:
        BadInput: the installed version of transformers has none of this name for the model, or it does not run here.
    """
    why: Exception | None = None
    try:
        with quiet():
            backbone.set_attn_implementation(name)
    except (AttributeError, ImportError, OSError, ValueError) as error:
        why = error
    kept = backbone.config._attn_implementation  # noqa: SLF001  (it has no other name)
    if why is not None or kept != name:  # some models keep theirs, without a word
        problem = f"expected an attention that {type(backbone).__name__} can have here, found {name}"
        raise BadInput("attention", problem, remedy="leave it out, or give eager or sdpa") from why
