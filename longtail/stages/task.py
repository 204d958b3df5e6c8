"""What a recipe works on: training rows, an encoder and tokens, and the model that is made of what was trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longtail.data.dataset import Dataset
from longtail.data.shape import Shape
from longtail.data.split import Split
from longtail.losses import LOSSES
from longtail.model import Bundle
from longtail.modules.heads import TwoHeads
from longtail.modules.linker import Linked
from longtail.options import COUNT, NATURAL, AtMost, option
from longtail.stages.held_out import FusionOptions, fuse, held_out_score, hold_out
from longtail.stages.knowledge import NONE, know, words_of
from longtail.stages.pace import PaceOptions
from longtail.stages.text import Text, TextOptions, corpus_of, read_text
from longtail.topk import FloatArray
from longtail.train.run import Run
from longtail.transforms import augmented

MOST_OF_AUTO, _MOST_OF_BUDGET = 4, 2  # times the epochs without: data sets gained next to nothing from more
_STEPS, _SMALLEST = 8, 16  # of an epoch at least, in batches of so many documents or more


@dataclass(frozen=True, kw_only=True)
class EncoderOptions(TextOptions, PaceOptions):
    """Training of the encoder."""

    epochs: int = option(
        6,
        "of the encoder, passes over the training documents; auto for as many as a score on held-out documents rises, "
        "see docs/guides/time.md",
        within=NATURAL,
        auto=MOST_OF_AUTO,
    )
    batch: int = option(
        512, "documents of a batch; fewer by default of some numbers of them, see docs/guides/choosing.md", within=COUNT
    )
    random_negatives: int = option(
        512, "labels drawn at random into each pool, on top of the positives of its documents", within=NATURAL
    )
    loss: str = option("triplet", "of the encoder", choices=LOSSES, calls=True)

    @classmethod
    def for_shape(cls, shape: Shape, given: Mapping[str, Any]) -> dict[str, Any]:
        """Smaller batches of few documents, for eight steps an epoch."""
        batch = max(_SMALLEST, shape.documents // _STEPS)
        return super().for_shape(shape, given) | ({"batch": batch} if batch < cls.batch else {})

    def for_budget(self) -> Sequence[Mapping[str, Any]]:
        """As many epochs as there would be without, twice as many at most; those of ``auto`` at most."""
        kind, most = type(self.epochs), self.epochs * (1 if isinstance(self.epochs, AtMost) else _MOST_OF_BUDGET)
        return [{"epochs": kind(count)} for count in range(1, most + 1)]


@dataclass(frozen=True, slots=True)
class Task:
    """What a recipe works on.

    Attributes:
        name: of the recipe.
        dataset: without the documents that are held out.
        held_out: these, to learn a fusion on; none for a recipe without one.
        rows: the data set with the training rows that an augmentation adds.
        text: the encoder, and the tokens of the rows and the labels.
        fields: that the encoder reads.
        fusion: how the scores of the model are mixed.
    """

    name: str
    dataset: Dataset
    held_out: Split
    rows: Dataset
    text: Text
    fields: tuple[str, ...]
    fusion: FusionOptions

    @property
    def train(self) -> Split:
        """The N training rows."""
        return self.rows.train

    def score(
        self,
        vectors: Callable[[], Mapping[str, FloatArray]],
        *,
        heads: TwoHeads | None = None,
        linked: Callable[[], Linked | None] = lambda: None,
    ) -> Callable[[], float] | None:
        """How good the model would be now, by `held_out_score`, at any time; None where no documents are held out.

        Args:
            vectors: of the labels, by score kind, as they are when it is asked.
            heads: a second view of documents, for classifiers.
            linked: what enriches documents with nodes, as it is when it is asked.
        """
        if not len(self.held_out):
            return None
        return lambda: held_out_score(self.text.run, self._bundle(vectors(), heads, linked()), self.held_out)

    def _bundle(
        self, vectors: Mapping[str, FloatArray], heads: TwoHeads | None = None, linked: Linked | None = None
    ) -> Bundle:
        """The model, without a fusion."""
        encoder, device = self.text.encoder, self.text.run.device
        return Bundle(self.name, encoder, self.fields, self.dataset.labels, vectors, None, device, heads, linked)

    def model(
        self, vectors: Mapping[str, FloatArray], *, heads: TwoHeads | None = None, linked: Linked | None = None
    ) -> Bundle:
        """The trained model, with what is learned on the documents that are held out.

        Args:
            vectors: of the labels, by score kind.
            heads: a second view of documents, for classifiers.
            linked: what enriches documents with nodes.
        """
        model = self._bundle(vectors, heads, linked)
        if not len(self.held_out):
            return model
        run, train, o = self.text.run, self.dataset.train, self.fusion
        if o.memory and run.plan is not None:
            self.text.embed(self.text.documents)  # all documents once more, and their nodes
            if linked is not None:
                run.counted("links", len(train), len(linked.linker.labels), 2 * linked.linker.encoder.width)
        return fuse(run, model, self.held_out, train, o, propensity=self.dataset.propensity)


def read(run: Run, dataset: Dataset, o: TextOptions) -> Task:
    """Hold documents out, add training rows, make an encoder by name, and tokenise rows and labels for it.

    Args:
        run: of the recipe.
        dataset: its training documents and labels.
        o: what is read, and how, and the share that is held out.
    """

    def make() -> Task:
        fusion = o if isinstance(o, FusionOptions) else FusionOptions(validation=0.0)
        rest, held_out = hold_out(dataset, fusion.validation, o.seed)
        rows = augmented(rest, o.augment, seed=o.seed)
        return Task(run.recipe, rest, held_out, rows, read_text(run, rows, o), tuple(o.fields), fusion)

    task = run.once("task", make)
    given_back = o.knowledge != NONE and task.fusion.refit and len(task.held_out) > 0
    later = run.once("later words", lambda: words_of(corpus_of(run, dataset, o.fields))) if given_back else ()
    know(run, task.text.encoder, o.knowledge, o.knowledge_weight, later)
    return task
