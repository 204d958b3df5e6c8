"""Several vectors of a text, of its fields or of windows of it, as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from longtail.errors import BadInput
from longtail.text.huggingface import GET_AGAIN

_RATE = 4e-3  # at least, of what starts at zeros, whatever suits a language model below it


class Mix(nn.Module):
    """A weighted mean of the parts of a text, whose weights are learned: v = sum over parts s of w_s x_s.

    The weights are a softmax, over the parts that the text has, of q . x_s / |x_s| + b[kind of s]. Query and biases
    start at zeros, so that v starts as the mean. Source: attention with a learned query (Yang et al., 2016), without
    its hidden layer.

    Args:
        kinds: K of parts, each with a bias: fields, or places of windows.
        width: D of the vectors.
    """

    def __init__(self, kinds: int, width: int) -> None:
        super().__init__()
        self.query, self.bias = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(kinds))

    def forward(self, x: Tensor, of: Tensor, kind: Tensor, count: int) -> Tensor:
        """Mix the parts of B texts.

        Args:
            x: (S, D) float32 vectors of the parts.
            of: (S,) int64 in [0, B), whose each is; every text has one at least.
            kind: (S,) int64 in [0, K).
            count: B.

        Returns:
            (B, D).
        """
        scores = F.normalize(x) @ self.query + self.bias[kind]  # (S,)
        highest = scores.detach().new_zeros(count).scatter_reduce(0, of, scores.detach(), "amax", include_self=False)
        powers = (scores - highest[of]).exp()
        weights = powers / powers.new_zeros(count).index_add(0, of, powers)[of]
        return x.new_zeros(count, x.shape[1]).index_add(0, of, weights[:, None] * x)

    def save(self, path: Path) -> None:
        """Write query and biases into a file of safetensors."""
        save_file({name: tensor.cpu() for name, tensor in self.state_dict().items()}, path)

    def read(self, path: Path) -> None:
        """Read what `save` wrote; of wider vectors, what it says of their first numbers.

        Raises:
            BadInput: it is not there, or of other parts.
        """
        try:
            found = load_file(path)
            self.load_state_dict(found | {"query": found["query"][: len(self.query)]})
        except (SafetensorError, OSError, KeyError, RuntimeError) as error:
            problem = f"expected the weights of a mix, found {' '.join(str(error).split())[:80]}"
            raise BadInput(path, problem, remedy=GET_AGAIN) from error

    def group(self, rate: float) -> dict[str, Any]:
        """The group of an optimiser for it, where what it mixes learns at a rate."""
        return {"params": list(self.parameters()), "lr": max(rate, _RATE)}
