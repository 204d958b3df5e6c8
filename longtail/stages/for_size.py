"""Defaults by the number of training documents.

The rules are in docs/guides/choosing.md, and what they are worth is in docs/guides/time.md and docs/guides/distil.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longtail.data.shape import Shape
from longtail.options import AtMost
from longtail.stages.held_out import FEWEST, FusionOptions
from longtail.stages.knowledge import is_installed
from longtail.stages.task import EncoderOptions

_MANY = 10_000  # documents, of fewer of which more are learned from and held out than by default
_VERY_MANY = 100_000  # of fewer of which a second run is worth its time, by the usual encoder and without links
_MANY_TAUGHT = 25_000  # from which on a bag has more to learn of a teacher than its usual passes teach it
_MOST_FURTHER = 3  # further runs, of a budget and of what is best: they gain on all sets (docs/guides/time.md)
_HELD_OUT, _MOST_HELD_OUT = 500, 0.2  # of these few, and the share at most
_BATCH = 256  # documents, of a bag from _MANY to _VERY_MANY: twice the steps of 512 take as long, and gain on most sets
_KNOWN, _GIVEN_BACK = 2000, 0.1  # documents, and the share at most, of a larger set whose second run has them back
_KNOWING = "minilm"  # the language model that is asked about words where what is best is asked for
_APART = ("enrich", "projection", "fields_apart")  # options with which runs do not rank together
_READ = ("start", "teacher", "augment")  # options that may name another run, which may have held out the usual share


@dataclass(frozen=True, kw_only=True)
class SizedOptions(EncoderOptions, FusionOptions):
    """Training, with defaults by the number of training documents."""

    @classmethod
    def for_shape(cls, shape: Shape, given: Mapping[str, Any]) -> dict[str, Any]:
        """A second run, if not on very many documents, and more held out, which it has back; of few, twice the passes.

        Of many, a bag has smaller batches, and with a teacher it takes three times the passes.
        """
        documents = shape.documents
        settings, twice = super().for_shape(shape, given), given.get("epochs") != "auto"
        usual = given.get("encoder", cls.encoder) == cls.encoder
        if documents >= _MANY_TAUGHT and given.get("teacher") and usual:
            settings |= {"epochs": 3 * cls.epochs}
        if documents >= _MANY:
            if not usual or documents >= _VERY_MANY:
                return settings
            settings |= {"batch": _BATCH}
            if not twice or given.get("enrich", "none") != "none":
                return settings
            alone = all(given.get(name) in (None, "none") for name in _READ)
            share = min(_GIVEN_BACK, round(_KNOWN / documents, 3))
            if share > cls.validation and given.get("refit", True) and not given.get("budget") and alone:
                settings |= {"validation": share}
            return {**settings, "refit": True}
        share = min(_MOST_HELD_OUT, round(_HELD_OUT / max(1, documents), 3))
        settings |= {"epochs": 2 * cls.epochs}
        if "batch" in settings:
            settings["batch"] = min(cls.batch, 2 * settings["batch"])
        if share * documents >= FEWEST:
            settings |= {"validation": share, "refit": twice}
        return settings

    @classmethod
    def best(cls, shape: Shape, given: Mapping[str, Any]) -> dict[str, Any]:
        """What a language model knows of words, half as many passes more if documents are not few, and further runs."""
        best, bag = cls.for_shape(shape, given), given.get("encoder", cls.encoder) == cls.encoder
        if bag and given.get("start") is None and is_installed(_KNOWING):
            best |= {"knowledge": _KNOWING}
        if given.get("epochs") == "auto":
            return best
        if shape.documents >= _MANY:
            best |= {"epochs": max(best.get("epochs", cls.epochs), 3 * cls.epochs // 2)}
        held_out = given.get("validation", best.get("validation", cls.validation))
        if held_out and given.get("refit", True):
            apart = any(given.get(name, "none") not in ("none", 0) for name in _APART)
            together = bag and shape.documents < _VERY_MANY and not apart
            best |= {"refit": True} | ({"refits": _MOST_FURTHER} if together else {})
        return best

    def for_budget(self) -> Sequence[Mapping[str, Any]]:
        """As many epochs of one run as there would be, and then as many further runs as fit."""
        if not self.for_refit() or isinstance(self.epochs, AtMost):
            return super().for_budget()
        one = [{"epochs": count, "refit": False} for count in range(1, self.epochs + 1)]
        most = max(self.refits, _MOST_FURTHER)
        return [*one, *({"epochs": self.epochs, "refits": count} for count in range(1, most + 1))]
