"""What has parameters of a trained model, in its folder: an encoder, and what stands on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from longtail.errors import BadInput
from longtail.modules.attended import Attended
from longtail.modules.encoders.base import Encoder
from longtail.modules.encoders.named import ENCODERS, load_encoder, row_of
from longtail.modules.enrichment import Enrichment
from longtail.modules.heads import TwoHeads
from longtail.modules.hops import Hops


class Modules(NamedTuple):
    """The modules of a model.

    Attributes:
        encoder: text to unit rows.
        heads: a second view of a document, or its states, where labels read one of these.
        enrichment: what makes an enriched vector of a document's own and its nodes, where there is one.
    """

    encoder: Encoder
    heads: TwoHeads | Attended | None
    enrichment: Enrichment | Hops | None

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
        return {
            "encoder": row_of(self.encoder).name if encoder else None,
            "width": self.encoder.width,
            "projection": self.heads.projection if isinstance(self.heads, TwoHeads) else None,
            "attended": self.heads.settings() if isinstance(self.heads, Attended) else None,
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

        Raises:
            BadInput: no encoder of this installation has the name that the card says.
        """
        if (name := card["encoder"]) is not None:
            if name not in ENCODERS:
                problem = f"expected one of the encoders {', '.join(ENCODERS)}, found {name}"
                raise BadInput(folder, problem, remedy="open it with the version of longtail that wrote it")
            encoder = load_encoder(name, folder / "encoder").to(device).eval()
        assert encoder is not None
        heads: TwoHeads | Attended | None = None
        if card["projection"] is not None:
            heads = TwoHeads.load(folder, encoder, card["projection"]).to(device)
        elif (attended := card.get("attended")) is not None:  # no model had it before
            heads = Attended.load(folder, encoder, attended).to(device)
        known = card.get("enrichment")
        if known is None:
            return cls(encoder, heads, None)
        enrichment = Hops.load(folder, known) if "hops" in known else Enrichment.load(folder, known)
        return cls(encoder, heads, enrichment.to(device))
