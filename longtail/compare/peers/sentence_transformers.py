"""sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from longtail.compare.peers.base import BLOCK, Given, Package, Ranking, Reads, model_folder


@dataclass(frozen=True)
class SentenceTransformers:
    """A sentence-transformers model, fine-tuned with MultipleNegativesRankingLoss by its trainer, searched exactly."""

    reads: ClassVar[Sequence[Reads]] = ("texts",)
    package: ClassVar[Package] = ("sentence-transformers[train]", "sentence_transformers")
    fields: Sequence[str] = ("title",)
    model: str = "minilm"
    epochs: int = 1
    steps: int | None = None
    batch: int = 64
    learning_rate: float = 2e-5
    seed: int = 0

    def __call__(self, given: Given, model: Path) -> Callable[[], Ranking]:
        """Train on pairs of a document and a label, all of them or as many as the steps take."""
        import sentence_transformers as library  # noqa: PLC0415
        import torch  # noqa: PLC0415
        from datasets import Dataset  # noqa: PLC0415
        from sentence_transformers.losses import MultipleNegativesRankingLoss  # noqa: PLC0415

        y, documents, labels = given.matrix("targets").tocoo(), given.texts("train"), given.texts("labels")
        trained = library.SentenceTransformer(model_folder(self.model))
        pairs = {"anchor": [documents[i] for i in y.row], "positive": [labels[j] for j in y.col]}
        settings = library.SentenceTransformerTrainingArguments(
            str(given.folder / "trainer"),
            num_train_epochs=self.epochs,
            max_steps=-1 if self.steps is None else self.steps,
            per_device_train_batch_size=self.batch,
            learning_rate=self.learning_rate,
            warmup_ratio=0.1,
            batch_sampler="no_duplicates",
            bf16=torch.cuda.is_available(),
            seed=self.seed,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        loss = MultipleNegativesRankingLoss(trained)
        library.SentenceTransformerTrainer(trained, settings, Dataset.from_dict(pairs), loss=loss).train()
        trained.save(str(model))
        z = trained.encode(labels, normalize_embeddings=True, convert_to_tensor=True)
        np.save(model / "labels.npy", z.cpu().numpy())

        def predict() -> Ranking:
            x = trained.encode(given.texts("test"), normalize_embeddings=True, convert_to_tensor=True)
            best = [(part @ z.T).topk(min(given.depth, len(z))) for part in x.split(BLOCK)]
            return Ranking(*(torch.cat([top[i] for top in best]).cpu().numpy() for i in (1, 0)))

        return predict
