"""What the papers set: options by name, each with the place that says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from longtail.data.dataset import Dataset
from longtail.modules.encoders.named import encoder_named
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.options import AtMost


class Setting(NamedTuple):
    """The value of an option in a paper.

    Attributes:
        value: as `longtail.options.Option.value` takes it.
        source: table, section or appendix; or the file of the authors' code.
    """

    value: Any
    source: str


Settings = Mapping[str, Setting]
_OF_TRANSFORMERS = ("encoder_decay",)  # of the settings that papers have, what other encoders refuse
_FEW = 5  # times fewer epochs than in the paper


@dataclass(frozen=True)
class Preset:
    """The settings of a paper.

    Attributes:
        settings: of all data sets.
        by_data: of some data sets, by their names in the repository; they come before those of all.
        departs: what the paper has and the recipe has no option for, a line each.
        reads: which options the recipe has of those that say what is read of a text.
    """

    settings: Settings
    by_data: Mapping[str, Settings] = field(default_factory=dict)
    departs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ("fields", "max_length")

    def of(self, dataset: Dataset, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options that the paper trains on a data set with; those of all sets for one that it has not.

        Args:
            dataset: that it is.
            given: other options: beside an encoder that is no transformer, there is nothing for transformers alone.
        """
        another = "encoder" in given and not issubclass(encoder_named(given["encoder"]).kind, TransformerEncoder)
        without = _OF_TRANSFORMERS if another else ()
        return {name: setting.value for name, setting in self.named(dataset.name).items() if name not in without}

    def longer(self, o: Any, dataset: Dataset) -> list[str]:
        """A line where a transformer has far fewer epochs than in the paper; none where it has not.

        Args:
            o: the options of the recipe.
            dataset: that it trains on.
        """
        epochs, paper = getattr(o, "epochs", 0), self.named(dataset.name)
        most = paper["epochs"].value if "epochs" in paper else 0
        known = encoder_named(getattr(o, "encoder", "bag"))  # a linear recipe has none
        if not issubclass(known.kind, TransformerEncoder) or isinstance(epochs, AtMost):
            return []
        few = (
            f"{epochs} epochs are few for a transformer: the paper has {most}; docs/guides/encoders.md says what few do"
        )
        return [few] if 0 < _FEW * epochs < most else []

    def whose(self, data: str) -> str:
        """The data set of the repository that its settings are for, by a name; "every data set" for one it has not."""
        return data if data in TEXTS or data in self.by_data else "every data set"

    def named(self, data: str) -> Settings:
        """The settings of a data set of the repository, by its name."""
        read = {name: setting for name, setting in TEXTS.get(data, {}).items() if name in self.reads}
        return {**self.settings, **read, **self.by_data.get(data, {})}


def settings(source: str, **values: Any) -> Settings:
    """Settings that one place says."""
    return {name: Setting(value, source) for name, value in values.items()}


ALL_TRAIN = settings("all documents train: nothing is learned of some that are held out", validation=0.0)
_CONTENT = ("title", "content")
TEXTS: Mapping[str, Settings] = {
    name: settings(
        "NGAME's code: 32 for titles, 256 for Wikipedia, 128 for other content, with the title",
        fields=_CONTENT if length > 32 else ("title",),
        max_length=length,
    )
    for name, length in {
        "LF-AmazonTitles-131K": 32,
        "LF-Amazon-131K": 128,
        "LF-WikiSeeAlsoTitles-320K": 32,
        "LF-WikiSeeAlso-320K": 256,
        "LF-WikiTitles-500K": 32,
        "LF-Wikipedia-500K": 256,
        "LF-AmazonTitles-1.3M": 32,
        "LF-ORCAS-800K": 32,
    }.items()
}
"""What is read of a text, by data set of the repository."""
