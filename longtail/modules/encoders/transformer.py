"""The transformer encoder: any Hugging Face or sentence-transformers model, saved so that both open it again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from longtail.errors import BadInput
from longtail.files import write_json
from longtail.modules.encoders.base import Encoder
from longtail.text.huggingface import TransformerTokenizer, model_folder, open_pretrained, quiet, read_if_there
from longtail.text.tokens import PaddedTokens, Tokens
from longtail.topk import IntArray

_PATH = re.compile(r"[\w-]*")  # of a module: a folder, or the model's own
_POOLING = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
_LAYERS = "joined_layers.json"
_IDENTITY = "torch.nn.modules.linear.Identity"
# What one more sub-batch costs, in tokens: with MiniLM-L6 on one core, 8 to 128 are equally good; more cores want more.
_OVERHEAD = {"cpu": 128}
_OVERHEAD_ELSEWHERE = 16_384  # a GPU takes as long for one token as for thousands


class TransformerEncoder(Encoder):
    """x = normalise(P pool(h_1 .. h_T)), with h the last hidden states of a transformer and P an optional projection.

    Rows are sorted by length and run in a few sub-batches of similar length, so that short texts do not pay for long
    ones. Neither padding nor the rest of a batch changes a row's vector.

    With ``texts_at_once``, activations are held of so many texts: a sub-batch of at most that many is encoded once for
    the loss, and once more for its gradients when their turn comes, with the same random numbers. So a batch of any
    size needs the memory of a few texts and of a vector a token, for a third more work. Source: gradient caching (Gao
    et al., 2021), here by checkpoints (Chen et al., 2016), so that losses need not know.

    Several layers can be joined (`join`): x is then that of each of them, side by side, before its length is made 1.

    Args:
        name: the transformer, as in `longtail.text.huggingface.model_folder`.
        max_length: tokens a text may have; None takes what the folder says.
        pooling: ``mean`` of the hidden states of a text's tokens, or ``cls``, the first of them. None takes what a
            sentence-transformers folder says, else the mean.
        projection: D, the width of a linear layer on top. None takes what a sentence-transformers folder has, else no
            such layer.
        seed: draws the start of a new projection.

    Attributes:
        texts_at_once: whose activations are held in training; None for all of a batch.
        layers: whose hidden states are joined, counted from 1; none for those of the last one, and the projection.

    Raises:
        LongtailError: there is no such model, or its folder asks for a layer that this encoder does not have.
        MissingExtra: a package that it needs is not installed.
    """

    tokenizer: TransformerTokenizer
    texts_at_once: int | None = None
    layers: tuple[int, ...] = ()

    def __init__(
        self,
        name: str | Path,
        *,
        max_length: int | None = None,
        pooling: str | None = None,
        projection: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        folder = model_folder(name)
        stated, dense = _modules(folder)
        self.pooling = pooling or stated
        if self.pooling not in _POOLING:
            raise BadInput("pooling", f"expected mean or cls, found {self.pooling}", remedy="change the pooling")
        self.tokenizer = TransformerTokenizer(folder, max_length)
        self.backbone = open_pretrained("AutoModel", folder).float()
        if getattr(self.backbone, "pooler", None) is not None:
            self.backbone.pooler.requires_grad_(requires_grad=False)  # its output is not read
        hidden, rows = int(self.backbone.config.hidden_size), len(self.backbone.get_input_embeddings().weight)
        if len(self.tokenizer) > rows:
            problem = f"expected token ids below {rows}, the rows of the model, found {len(self.tokenizer) - 1}"
            raise BadInput(folder, problem, remedy="get model and tokeniser of one version")
        self.projection: nn.Linear | None = None
        if projection is not None:
            start = torch.randn(projection, hidden, generator=torch.Generator().manual_seed(seed)) * hidden**-0.5
            self.projection = _linear({"linear.weight": start})
        elif dense is not None:
            self.projection = _dense(dense, hidden)
        self.width = hidden if self.projection is None else self.projection.out_features
        if joined := read_if_there(folder / _LAYERS, list):
            self.join(joined)

    @property
    def depth(self) -> int:
        """How many layers it has."""
        return int(self.backbone.config.num_hidden_layers)

    def join(self, layers: Sequence[int]) -> None:
        """Read these layers, in [1, depth], in place of the last one; a projection, which is of that, is let go."""
        self.layers, self.projection = tuple(layers), None
        self.width = len(layers) * int(self.backbone.config.hidden_size)

    @classmethod
    def make(cls, *, name: str, max_length: int, **_: object) -> TransformerEncoder:
        """An encoder by its name or folder; see `longtail.modules.encoders.named.make_encoder`."""
        return cls(name, max_length=max_length)

    def forward(self, text: Tokens) -> Tensor:
        """Encode B texts as (B, D) float32 rows of unit length."""
        assert isinstance(text, PaddedTokens)
        lengths = text.mask.sum(1)
        order = lengths.argsort(stable=True)
        in_order = lengths[order].cpu().numpy()
        ends = cuts(in_order, _OVERHEAD.get(text.ids.device.type, _OVERHEAD_ELSEWHERE))
        held = self.texts_at_once if torch.is_grad_enabled() else None
        if held is not None:
            ends = np.unique(np.concatenate([ends, *(np.arange(*span, held) for span in pairwise(ends))]))
        counts = np.diff(ends).tolist()
        words = self.backbone.get_input_embeddings()(text.ids[order])  # (B, T, H), once: its gradient is a whole table
        parts = [
            self._pooled(some_words[:, :width], some_mask[:, :width])
            if held is None
            else checkpoint(self._pooled, some_words[:, :width], some_mask[:, :width], use_reentrant=False)
            for some_words, some_mask, width in zip(
                torch.split(words, counts),
                torch.split(text.mask[order], counts),
                in_order[ends[1:] - 1].tolist(),
                strict=True,
            )
        ]
        pooled = torch.cat(parts)[order.argsort()]  # (B, H)
        return F.normalize(pooled if self.projection is None else self.projection(pooled))  # (B, D)

    def _pooled(self, words: Tensor, mask: Tensor) -> Tensor:
        """One (B, H) float32 vector a row of (B, T, H) word embeddings."""
        with torch.autocast(words.device.type, torch.bfloat16, enabled=words.device.type == "cuda"):
            found = self.backbone(
                inputs_embeds=words, attention_mask=mask.long(), output_hidden_states=bool(self.layers)
            )
        states = [found.hidden_states[layer] for layer in self.layers] or [found.last_hidden_state]
        hidden = torch.cat(states, 2).float()  # (B, T, H), or (B, T, H) of each layer side by side
        if self.pooling == "cls":
            return hidden[:, 0]  # (B, H)
        return (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)  # (B, H)

    def save(self, folder: Path) -> None:
        """Write a folder that ``SentenceTransformer`` and ``transformers.AutoModel.from_pretrained`` open.

        The former then encodes as this encoder does, if it does not join layers; the latter gives the hidden states.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with quiet():
            self.backbone.save_pretrained(folder)
        self.tokenizer.save(folder)
        if self.layers:
            write_json(folder / _LAYERS, list(self.layers))
        write_json(folder / "sentence_bert_config.json", {"max_seq_length": self.tokenizer.max_length})
        hidden = int(self.backbone.config.hidden_size)
        modes = {key: mode == self.pooling for mode, key in _POOLING.items()}
        write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": hidden, **modes})
        layers = ["", "1_Pooling"]
        if self.projection is not None:
            layers.append("2_Dense")
            _write_dense(folder / "2_Dense", self.projection)
        layers.append(f"{len(layers)}_Normalize")
        kinds = [layer.partition("_")[2] or "Transformer" for layer in layers]
        write_json(
            folder / "modules.json",
            [
                {"idx": i, "name": str(i), "path": layer, "type": f"sentence_transformers.models.{kind}"}
                for i, (layer, kind) in enumerate(zip(layers, kinds, strict=True))
            ],
        )

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> TransformerEncoder:
        """Read what `save` wrote, or any other folder that the class takes, in eval mode."""
        return cls(folder).to(device).eval()


def cuts(lengths: IntArray, overhead: int) -> IntArray:
    """Where to cut rows into sub-batches so that the padded tokens, plus a fixed cost a sub-batch, are fewest.

    The sum over sub-batches of (rows x longest row + overhead) is minimised exactly, by dynamic programming over the
    U distinct lengths, in O(U^2).

    Args:
        lengths: (B,) tokens a row, ascending, at least one row.
        overhead: what a sub-batch costs besides its tokens, in tokens.

    Returns:
        (S + 1,) ascending row numbers from 0 to B; sub-batch s holds the rows from the s-th to the next.
    """
    widths, counts = np.unique(lengths, return_counts=True)
    ends = np.concatenate([[0], np.cumsum(counts)])
    best, before = np.zeros(len(ends)), np.zeros(len(ends), np.int64)
    for last in range(1, len(ends)):
        costs = best[:last] + (ends[last] - ends[:last]) * widths[last - 1] + overhead
        before[last] = costs.argmin()
        best[last] = costs[before[last]]
    chosen = [len(ends) - 1]
    while chosen[-1]:
        chosen.append(int(before[chosen[-1]]))
    return ends[chosen[::-1]]


def _modules(folder: Path) -> tuple[str, Path | None]:
    """The pooling that a folder states (``mean`` where it states none), and the folder of its dense layer, if any."""
    file = folder / "modules.json"
    entries = read_if_there(file, list)
    for entry in entries:
        named = isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in ("type", "path"))
        if not named or not _PATH.fullmatch(entry["path"]):
            problem = f"expected modules with a type and a folder below this one, found {str(entry)[:60]!r}"
            raise BadInput(file, problem, remedy="get the model again")
    paths = {entry["type"].rpartition(".")[2]: folder / entry["path"] for entry in entries}
    if len(paths) < len(entries) or paths.keys() - {"Transformer", "Pooling", "Dense", "Normalize"}:
        found = ", ".join(entry["type"].rpartition(".")[2] for entry in entries)
        problem = f"expected at most one each of Transformer, Pooling, Dense and Normalize, found {found}"
        raise BadInput(file, problem, remedy="choose a model of these layers")
    config = read_if_there(paths.get("Pooling", folder / "1_Pooling") / "config.json", dict)
    names = {key: mode for mode, key in _POOLING.items()}
    flags = [names.get(key, key) for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
    stated = config.get("pooling_mode", flags or "mean")
    return ("+".join(map(str, stated)) if isinstance(stated, list) else str(stated)), paths.get("Dense")


def _dense(folder: Path, width: int) -> nn.Linear:
    """The linear layer in the folder of a sentence-transformers ``Dense`` module without an activation."""
    config, weights = read_if_there(folder / "config.json", dict), folder / "model.safetensors"
    activation = config.get("activation_function", "Tanh")
    if activation != _IDENTITY or not weights.is_file():
        problem = f"expected a dense layer of activation Identity in safetensors, found {activation}"
        raise BadInput(folder, problem, remedy="choose another model, or one without this layer")
    try:
        layer = _linear(load_file(weights))
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
        problem = f"expected the weights of a dense layer, found {' '.join(str(error).split())[:80]}"
        raise BadInput(weights, problem, remedy="get the model again") from error
    if layer.in_features != width:
        problem = f"expected a layer on vectors {width} wide, found one on {layer.in_features}"
        raise BadInput(weights, problem, remedy="get the model again")
    return layer


def _linear(state: Mapping[str, Tensor]) -> nn.Linear:
    """A linear layer of given weights, with a bias where there is one."""
    out_features, in_features = state["linear.weight"].shape
    layer = nn.Linear(in_features, out_features, bias="linear.bias" in state, device="meta")
    layer.load_state_dict({name.removeprefix("linear."): tensor for name, tensor in state.items()}, assign=True)
    return layer


def _write_dense(folder: Path, layer: nn.Linear) -> None:
    shape = {"in_features": layer.in_features, "out_features": layer.out_features, "bias": layer.bias is not None}
    write_json(folder / "config.json", {**shape, "activation_function": _IDENTITY})
    save_file(
        {f"linear.{k}": v.cpu().contiguous() for k, v in layer.state_dict().items()}, folder / "model.safetensors"
    )
