"""PECOS' transformer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from longtail.compare.peers.base import Given, Package, Ranking, Reads, model_folder, padded


@dataclass(frozen=True)
class XRTransformer:
    """PECOS XR-Transformer (Zhang et al., 2021): a transformer tuned level by level of a tree, and linear rankers.

    Its settings are those of its example for AmazonCat-13K, but for the transformer, the length of texts and the steps.
    """

    reads: ClassVar[Sequence[Reads]] = ("features", "texts")
    package: ClassVar[Package] = ("libpecos", "pecos.xmc.xtransformer.model")
    fields: Sequence[str] = ("title",)
    model: str = "minilm"
    epochs: int = 1
    steps: int | None = None
    batch: int = 32
    learning_rate: float = 5e-5
    max_length: int = 32
    leaf: int = 16
    beam: int = 50
    seed: int = 0

    def __call__(self, given: Given, model: Path) -> Callable[[], Ranking]:
        """Tune the transformer for each level of a tree of labels, then train linear rankers on all features."""
        import torch  # noqa: PLC0415
        from pecos.xmc.xtransformer.model import XTransformer  # noqa: PLC0415
        from pecos.xmc.xtransformer.module import MLProblemWithText  # noqa: PLC0415

        torch.manual_seed(self.seed)
        np.random.seed(self.seed)  # noqa: NPY002 - the library draws from it
        x, y, texts = given.matrix("train"), given.matrix("targets"), given.texts("train")
        asked, ranked = self._training(XTransformer), self._prediction(XTransformer)
        trained = XTransformer.train(
            MLProblemWithText(texts, y, X_feat=x), train_params=asked, pred_params=ranked, beam_size=self.beam
        )
        trained.save(str(model))
        test, features = given.texts("test"), given.matrix("test")
        return lambda: padded(trained.predict(test, X_feat=features, only_topk=given.depth, beam_size=self.beam))

    def _training(self, library: Any) -> Any:
        """What each level of the tree and the rankers are trained with."""
        asked = library.TrainParams.from_dict({}, recursive=True)
        for tree in (asked.preliminary_indexer_params, asked.refined_indexer_params):
            tree.max_leaf_size, tree.seed = self.leaf, self.seed
        levels, rankers = asked.matcher_params_chain, asked.ranker_params
        levels.model_shortcut = model_folder(self.model)
        levels.negative_sampling, levels.loss_function = "tfn+man", "weighted-squared-hinge"
        levels.batch_size, levels.learning_rate = self.batch, self.learning_rate
        levels.num_train_epochs, levels.max_steps = self.epochs, self.steps or 0
        levels.save_steps, levels.batch_gen_workers = 10**9, 1  # with 0 it divides by it
        rankers.hlm_args.neg_mining_chain = "tfn+man"
        rankers.hlm_args.model_chain.Cp, rankers.hlm_args.model_chain.Cn = 0.25, 0.5
        return asked

    def _prediction(self, library: Any) -> Any:
        asked = library.PredParams.from_dict({}, recursive=True)
        asked.matcher_params_chain.truncate_length = self.max_length
        return asked
