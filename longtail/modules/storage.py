"""What has parameters of a trained model, in its folder: an encoder, and what stands on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch

from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.base import Encoder
from longtail.modules.encoders.convolution import ConvolutionEncoder
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.modules.enrichment import Enrichment
from longtail.modules.heads import TwoHeads

_Encoders: TypeAlias = Mapping[str, type[BagEncoder | ConvolutionEncoder | TransformerEncoder]]
_ENCODERS: _Encoders = {"bag": BagEncoder, "convolution": ConvolutionEncoder, "transformer": TransformerEncoder}


class Modules(NamedTuple):
    """The modules of a model.

    Attributes:
        encoder: text to unit rows.
        heads: a second view of a document, where there is one.
        enrichment: what makes an enriched vector of a document's own and its nodes, where there is one.
    """

    encoder: Encoder
    heads: TwoHeads | None
    enrichment: Enrichment | None

    def save(self, folder: Path, *, encoder: bool = True) -> dict[str, Any]:
        """Write the modules into an existing folder.

        Args:
            folder: of the model.
            encoder: whether to write the encoder; `load` is given one where not.

        Returns:
            What the card of the model says of them.
        """
        if encoder:
            (folder / "encoder").mkdir()
            self.encoder.save(folder / "encoder")
        for part in (self.heads, self.enrichment):
            if part is not None:
                part.save(folder)
        names = (name for name, kind in _ENCODERS.items() if isinstance(self.encoder, kind))
        return {
            "encoder": next(names) if encoder else None,
            "width": self.encoder.width,
            "projection": None if self.heads is None else self.heads.projection,
            "enrichment": None if self.enrichment is None else self.enrichment.settings(),
        }

    @classmethod
    def load(cls, folder: Path, card: Mapping[str, Any], encoder: Encoder | None, device: torch.device) -> Modules:
        """Read what `save` wrote, and put it on a device.

        Args:
            folder: of the model.
            card: what `save` returned.
            encoder: where none was written.
            device: where they are to run.
        """
        if card["encoder"] is not None:
            encoder = _ENCODERS[card["encoder"]].load(folder / "encoder").to(device).eval()
        assert isinstance(encoder, (BagEncoder, ConvolutionEncoder, TransformerEncoder))
        heads = None if card["projection"] is None else TwoHeads.load(folder, encoder, card["projection"]).to(device)
        known = card.get("enrichment")
        return cls(encoder, heads, None if known is None else Enrichment.load(folder, known).to(device))
