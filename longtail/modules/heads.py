"""Two views of a text: one to be compared with the texts of labels, one for the labels' classifiers."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from longtail.modules.encoders.base import Encoder, encode_together
from longtail.modules.table import Table, load_module_state, module_state, unit
from longtail.text.tokens import Tokenizer, Tokens

_FILE, _SEPARATORS = "heads.safetensors", "separators"


class TextHead(Encoder):
    """An encoder, and what makes its vectors comparable: nothing, or the projection g1 of the thesis.

    Args:
        encoder: text to (B, E) unit rows.
        projection: D, the width of ``normalise(dropout(tanh(linear(.))))``; 0 for none.
        generator: draws the start of the projection.
    """

    def __init__(self, encoder: Encoder, projection: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder = encoder
        self.tokenizer = encoder.tokenizer
        self.width = projection or encoder.width
        self.project: nn.Module = nn.Identity()
        if projection:
            layers = (_linear(encoder.width, projection, generator), nn.Tanh(), nn.Dropout(0.1))
            self.project = nn.Sequential(*layers)

    @property
    def label_tokenizer(self) -> Tokenizer:
        """That of the encoder."""
        return self.encoder.label_tokenizer

    def head(self, encoded: Tensor) -> Tensor:
        """Vectors (B, D) of unit length, from those of the encoder (B, E)."""
        return encoded if isinstance(self.project, nn.Identity) else unit(self.project(_spread(encoded)))

    def forward(self, text: Tokens) -> Tensor:
        """Encode B texts as (B, D) rows of unit length."""
        return self.head(self.encoder(text))

    def save(self, folder: Path) -> None:
        """Write the encoder; the projection is a part of `TwoHeads.save`."""
        self.encoder.save(folder)


class TwoHeads(Encoder):
    """A document is seen twice: as x, to be compared with the texts of labels, and as u, for their classifiers.

    Source: the thesis, section 2.3, where g1 and g2 project the vector of one shared encoder: with a ``projection``
    that is what this is. Without one, a transformer's vector is x as it is, and u is a linear map of it that starts at
    the identity; a bag encoder has a second table for u: a table is all that it consists of, and one that serves two
    losses serves both less well (docs/explanation/methods/unidec.md).

    For linear separators (`longtail.train.low_rank`) a bag is seen a third time, as s: the sum of the rows of a table
    of their own, of any length, and a 1 for their biases. It is set once they are solved, and is no part of training.

    Args:
        encoder: of documents and labels, E wide.
        projection: D, the width of both projections; 0 for none.
        normalised: False gives `views` a u of any length, as the thesis trains (section 2.3); `forward` gives it unit
            length all the same.
        table: of u, for a bag encoder; a copy of the encoder's own, where it starts, if left out.
        separators: of s, R wide, for a bag encoder; there is no s if left out.
        generator: draws their start.
    """

    def __init__(
        self,
        encoder: Encoder,
        projection: int = 0,
        *,
        normalised: bool = True,
        table: Table | None = None,
        separators: Table | None = None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.text = TextHead(encoder, projection, generator=generator)
        self.projection, self.normalised = projection, normalised
        self.tokenizer = encoder.tokenizer
        self.separators = separators
        self.table: Table | None = None
        self.project: nn.Module = nn.Identity()
        if projection:
            self.project = nn.Sequential(_linear(encoder.width, projection, generator), nn.Dropout(0.1))
        elif (features := encoder.features) is not None:
            self.table = deepcopy(features.table) if table is None else table
        else:
            self.project = nn.Linear(encoder.width, encoder.width, bias=False)
            nn.init.eye_(self.project.weight)

    @property
    def width(self) -> int:  # type: ignore[override]
        """2 D, and R + 1 with separators."""
        return 2 * self.text.width + (0 if self.separators is None else self.separators.width + 1)

    def own_parameters(self) -> list[nn.Parameter]:
        """What the heads have beside the encoder."""
        encoder = {id(parameter) for parameter in self.text.encoder.parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in encoder]

    def views(self, documents: Tokens, labels: Tokens, *others: Tokens) -> tuple[Tensor, ...]:
        """Encode a batch in one pass of the encoder.

        Args:
            documents: B texts.
            labels: P texts.
            others: what is compared with these besides, as the nodes of a graph.

        Returns:
            x (B, D), z (P, D) and u (B, D), of unit length (u: if normalised); then the vectors of the others, of unit
            length.
        """
        encoded = encode_together(self.text.encoder, documents, labels, *others)  # (B, E), (P, E), ...
        x, z, *rest = encoded
        if self.projection:
            x, z, *rest = torch.split(self.text.head(torch.cat(encoded)), [len(part) for part in encoded])
        u = self._for_classifiers(documents, encoded[0])
        return x, z, unit(u) if self.normalised else u, *rest

    def forward(self, text: Tokens) -> Tensor:
        """Encode B texts as (B, 2 D) rows: x and u, each of unit length; (B, R + 1 + 2 D), s and a 1 first, with s."""
        encoded = self.text.encoder(text)  # (B, E)
        u = self._for_classifiers(text, encoded)
        parts = [self.text.head(encoded), unit(u)]
        if self.separators is not None:
            parts = [self._sums(self.separators, text), encoded.new_ones(len(encoded), 1), *parts]
        return torch.cat(parts, dim=1)

    def _for_classifiers(self, text: Tokens, encoded: Tensor) -> Tensor:
        if self.table is not None:
            return self._sums(self.table, text)
        u: Tensor = self.project(_spread(encoded) if self.projection else encoded)
        return u

    def _sums(self, table: Table, text: Tokens) -> Tensor:
        features = self.text.encoder.features
        assert features is not None
        return features.sums(table, text)

    def save(self, folder: Path) -> None:
        """Write what the heads have beside the encoder, into an existing folder."""
        own = {name: value for name, value in module_state(self).items() if not name.startswith("text.encoder.")}
        save_file(own, folder / _FILE)

    @classmethod
    def load(cls, folder: Path, encoder: Encoder, projection: int) -> TwoHeads:
        """Put the heads that `save` wrote onto an encoder, in eval mode."""
        own = load_file(folder / _FILE)
        separators = Table(own[_SEPARATORS]) if _SEPARATORS in own else None
        heads = cls(encoder, projection, separators=separators, generator=torch.Generator())
        shared = {name: value for name, value in heads.state_dict().items() if name.startswith("text.encoder.")}
        load_module_state(heads, shared | own)
        return heads.eval()


class LearnedTemperature(nn.Module):
    """Scores divided by a temperature that is learned, as its inverse: the code of the thesis starts that at 18.

    Args:
        start: the temperature before the first step, above 0.
    """

    def __init__(self, start: float) -> None:
        super().__init__()
        self.inverse = nn.Parameter(torch.tensor([1 / start]))

    def forward(self, scores: Tensor) -> Tensor:
        """Scores of any shape, divided by the temperature."""
        return scores * self.inverse


def _linear(width: int, out: int, generator: torch.Generator) -> nn.Linear:
    layer = nn.Linear(width, out)
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def _spread(encoded: Tensor) -> Tensor:
    """Unit rows with entries of about 1, as a projection with a tanh expects them: times the root of the width."""
    return encoded * float(encoded.shape[1] ** 0.5)
