"""Two losses in one sum: of an encoder's scores by text, and of classifiers' on the same pool of labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from longtail.data.dataset import Dataset
from longtail.losses import LOSSES, loss_named, must_learn_temperature
from longtail.modules.classifiers import CLASSIFIERS
from longtail.options import NATURAL, POSITIVE, SHARE, option
from longtail.stages.picked import PickOptions


@dataclass(frozen=True, kw_only=True)
class JointOptions(PickOptions):
    """Both losses."""

    classifiers: str = option(
        "residual",
        "residual (the label's text plus a free vector, and a bias) or free (as in the thesis)",
        choices=CLASSIFIERS,
    )
    classifier_loss: str = option("decoupled_softmax", "of the classifiers", choices=LOSSES, calls=True)
    binary_weight: float = option(
        0.0, "weight of a binary cross-entropy that is added to the classifiers' loss", within=NATURAL
    )
    mix: float = option(0.5, "share of the encoder's loss in the sum of both (lambda)", within=SHARE)
    temperature: float | None = option(0.1, "of the encoder's loss", within=POSITIVE)
    classifier_temperature: float = option(0.1, "of the classifiers' loss", within=POSITIVE)
    learned_temperature: bool = option(
        False, "of both losses, which are to be softmaxes: they share one, which starts at that of the classifiers"
    )

    @property
    def one_versus_all(self) -> bool:
        """Whether classifiers are to say how likely a label is by itself."""
        return self.binary_weight > 0 or self.classifier_loss == "binary_cross_entropy"

    def advice(self, dataset: Dataset) -> list[str]:
        """That free classifiers have no start for a binary cross-entropy."""
        said = super().advice(dataset)
        if self.classifiers == "free" and self.one_versus_all:
            said.append("free classifiers have no bias to start at how frequent a label is; residual ones do")
        return said

    def check(self, dataset: Dataset) -> None:
        """Refuse a learned temperature for losses that have none, too."""
        super().check(dataset)
        if self.learned_temperature:
            must_learn_temperature("loss", self.loss)
            must_learn_temperature("classifier_loss", self.classifier_loss)


def joint_losses(o: JointOptions, learned: nn.Module) -> Callable[[Tensor, Tensor, Tensor, Tensor], dict[str, Tensor]]:
    """The terms of a batch: of scores by text and by classifiers, (B, P) each, its targets, and its mask.

    Source: UniDEC (the thesis, chapter 2, Algorithm 1), lambda of the encoder's loss and the rest of the classifiers'.

    Args:
        o: the losses, and how they are mixed.
        learned: divides the scores by a temperature that is learned, or leaves them.
    """
    temperatures = (1.0, 1.0) if o.learned_temperature else (o.temperature, o.classifier_temperature)
    encoder_loss = loss_named(o.loss, symmetric=o.symmetric, temperature=temperatures[0])
    label_loss = loss_named(o.classifier_loss, symmetric=o.symmetric, temperature=temperatures[1])
    binary_loss = loss_named("binary_cross_entropy", temperature=temperatures[1])

    def terms(by_text: Tensor, by_weight: Tensor, targets: Tensor, mask: Tensor) -> dict[str, Tensor]:
        by_text, by_weight = learned(by_text), learned(by_weight)
        both = {
            "encoder": o.mix * encoder_loss(by_text, targets, mask),
            "classifier": (1 - o.mix) * label_loss(by_weight, targets, mask),
        }
        if o.binary_weight:
            both["binary"] = (1 - o.mix) * o.binary_weight * binary_loss(by_weight, targets, mask)
        return both

    return terms
