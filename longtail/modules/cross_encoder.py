"""A cross-encoder: a transformer that reads a document and the text of a label together, and gives one number."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from longtail.errors import BadInput
from longtail.modules.encoders.sub_batches import by_length
from longtail.modules.modes import evaluating
from longtail.text.huggingface import model_folder, open_pretrained, quiet, read_if_there
from longtail.text.pairs import PairTokenizer, PairTokens
from longtail.text.ragged import Ragged
from longtail.topk import FloatArray

_PAIRS = 1024  # whose logits are asked for at a time


class CrossEncoder(nn.Module):
    """s(x, l): the one output of a transformer with a head, which reads the tokens of x and l as one sequence.

    Every layer compares each word of the document with each word of the label, which an inner product of two vectors
    cannot: so it tells more, and costs a pass of the transformer for each pair. Sources: monoBERT (Nogueira and Cho,
    2019, arXiv 1901.04085); sentence-transformers calls such models cross-encoders, too.

    Args:
        name: a transformer, as in `longtail.text.huggingface.model_folder`: one with a head of one output, or any other
            one, which gets a new head.
        max_length: tokens of a pair; None takes what the tokeniser says, and at most 64.
        seed: draws a new head.

    Attributes:
        name: as above; of one that `load` opened, its folder.
        tokenizer: makes the tokens of a pair.
        has_new_head: whether its head was drawn, and so has to be trained.
        reads_types: whether it is told which tokens are of the label.

    Raises:
        LongtailError: there is no such model, or its head has several outputs.
        MissingExtra: a package that it needs is not installed.
    """

    __call__: Callable[..., Tensor]

    def __init__(self, name: str | Path, *, max_length: int | None = None, seed: int = 0) -> None:
        super().__init__()
        folder, self.name = model_folder(name), str(name)
        _must_give_one_number(folder)
        self.tokenizer = PairTokenizer(folder, max_length)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.backbone = open_pretrained("AutoModelForSequenceClassification", folder).float()
        self.has_new_head: bool = self.backbone.has_new_head
        self.backbone.config.pad_token_id = self.tokenizer.padding  # by which decoders find the last token
        self.backbone.config.use_cache = False
        self.tokenizer.must_suit(self.backbone, folder)
        self.reads_types = getattr(self.backbone.config, "type_vocab_size", 0) > 1

    def forward(self, pairs: PairTokens) -> Tensor:
        """The (E,) float32 logits of E pairs; neither padding nor other pairs change one by more than rounding."""
        order, lengths, ends = by_length(pairs.mask)
        parts = [
            self._logits(pairs.rows(order[start:end], int(lengths[end - 1]))) for start, end in pairwise(ends.tolist())
        ]
        return torch.cat(parts)[order.argsort()]

    def _logits(self, pairs: PairTokens) -> Tensor:
        more = {"token_type_ids": pairs.types} if self.reads_types else {}
        with torch.autocast(pairs.ids.device.type, torch.bfloat16, enabled=pairs.ids.is_cuda):
            found = self.backbone(input_ids=pairs.ids, attention_mask=pairs.mask.long(), **more)
        logits: Tensor = found.logits[:, 0].float()
        return logits

    def save(self, folder: Path) -> None:
        """Write a folder that ``transformers.AutoModelForSequenceClassification`` opens."""
        folder.mkdir(parents=True, exist_ok=True)
        with quiet():
            self.backbone.save_pretrained(folder)
        self.tokenizer.save(folder)

    @classmethod
    def load(cls, folder: Path, *, max_length: int) -> CrossEncoder:
        """Read what `save` wrote, with pairs as long as they were, in eval mode."""
        return cls(folder, max_length=max_length).eval()


def logits_of(encoder: CrossEncoder, documents: Ragged, labels: Ragged, *, device: torch.device) -> FloatArray:
    """The (E,) float32 logits of E pairs, without gradients.

    Args:
        encoder: left in the mode (train or eval) that it was in; several threads may ask one in eval mode.
        documents: E rows of tokens, of its tokeniser.
        labels: E rows of tokens.
        device: where the encoder is.
    """
    found = np.empty(len(documents), np.float32)
    lengths = np.diff(documents.offsets) + np.diff(labels.offsets)
    by_length = np.argsort(lengths, kind="stable")
    with evaluating(encoder), torch.inference_mode():
        for start in range(0, len(found), _PAIRS):
            some = by_length[start : start + _PAIRS]
            pairs = encoder.tokenizer.pairs(documents.take(some), labels.take(some))
            found[some] = encoder(pairs.to(device)).cpu().numpy()
    return found


def _must_give_one_number(folder: Path) -> None:
    """Refuse a classifier of several classes: it is no model of pairs."""
    config = read_if_there(folder / "config.json", dict)
    has_head = any(str(name).endswith("ForSequenceClassification") for name in config.get("architectures") or ())
    outputs = len(config["id2label"]) if isinstance(config.get("id2label"), dict) else config.get("num_labels", 2)
    if has_head and outputs != 1:
        problem = f"expected a cross-encoder, which gives one number, found a classifier of {outputs} classes"
        raise BadInput(folder, problem, remedy="choose another model")
