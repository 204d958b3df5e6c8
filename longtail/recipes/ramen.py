"""RAMEN: metadata graphs as a regulariser of the encoder, on either of two bases (Mittal et al., 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader
from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.batches.samplers import Clustered, Sampler, Shuffled
from longtail.data.dataset import Dataset
from longtail.devices import choose_device
from longtail.errors import BadInput
from longtail.model import Bundle
from longtail.modules.encoders.base import encode_together
from longtail.stages.fusion import fuse, hold_out
from longtail.stages.graphs import graph_terms
from longtail.stages.text import begin, finish, learning_rate_of, loss_named, mine, read_text, train_classifiers
from longtail.train.fit import fit, linear
from longtail.train.optimizer import AdamW
from longtail.train.plan import announce
from longtail.train.run import Run
from longtail.transforms.augment import augmented

BASES = ("ngame", "ance")


def ramen(
    dataset: Dataset,
    *,
    out: str | Path | Run | None = None,
    base: str = "ngame",
    graphs: Sequence[str] = ("all",),
    graph_sides: Sequence[str] = ("documents", "labels"),
    graph_weights: str = "bandit:0.03",
    graph_loss: str = "triplet",
    graph_share: float = 0.5,
    graph_redraw: int = 10,
    walk_restart: float = 0.8,
    walk_keep: int = 20,
    walk_again: bool = False,
    hub_degree: int = 500,
    prune: bool = True,
    prune_above: float = 0.0,
    encoder: str = "bag",
    fields: Sequence[str] = ("title",),
    width: int = 256,
    max_length: int = 32,
    static_vectors: str | None = None,
    augment: str = "none",
    epochs: int = 6,
    batch: int = 512,
    random_negatives: int = 512,
    loss: str = "triplet",
    learning_rate: float | None = None,
    warmup: int = 100,
    refresh_from: int = 2,
    refresh_every: int = 1,
    cluster_size: int = 8,
    hard_negatives: int = 1,
    mine_length: int = 20,
    classifier_loss: str = "decoupled_softmax",
    classifier_epochs: int = 6,
    classifier_learning_rate: float = 3e-3,
    dropout: float = 0.5,
    validation: float = 0.05,
    seed: int = 0,
    device: str = "auto",
) -> Bundle:
    """Train a dual encoder whose documents and labels are also drawn to their neighbours in metadata graphs.

    Source: RAMEN (Mittal et al., 2025). To the task loss comes a triplet loss for each graph and side: a document, or a
    label, shall be nearer to a neighbour than to the other nodes of the batch. Neighbours are found by a random walk,
    and pruned by the encoder while it trains; bandits set the weights of the terms. The model is that of the base, and
    predicts without any graph. Departures and their measurements: docs/methods/ramen.md.

    Args:
        dataset: its training documents, labels and graphs; the test split is not read.
        out: the run folder, for checkpoints, the log and the model; nothing is written if left out.
        base: ngame (batches of near documents, then classifiers and fusion) or ance (mined hard negatives).
        graphs: names of the graphs to use; all, or none for the base itself.
        graph_sides: documents, labels, or both: whose neighbours make terms.
        graph_weights: bandit, bandit:MEAN with the mean that it starts from, or fixed:WEIGHT.
        graph_loss: of these terms: triplet, decoupled_softmax, info_nce, sup_con or binary_cross_entropy.
        graph_share: share of a batch's documents and labels that draw a neighbour in each graph; 1 costs most.
        graph_redraw: steps after which the bandits are rewarded and draw new weights.
        walk_restart: chance that a hop of the walk starts anew; 1 takes the edges as they are.
        walk_keep: nodes that the walk keeps of a document or label.
        walk_again: at each pruning, prune the graph and walk anew over what is left; for graphs with many wrong edges.
        hub_degree: nodes with more neighbours than this are left out.
        prune: drop edges whose ends are not similar under the current encoder.
        prune_above: the cosine that an edge must exceed to stay.
        encoder: bag, convolution, minilm, or a transformer of Hugging Face or sentence-transformers by name or folder.
        fields: the fields of a text that the encoder reads.
        width: of the vectors of a bag encoder, or of words for a convolution; a transformer has its own.
        max_length: tokens of a text that a transformer reads, or words that a convolution does.
        static_vectors: an .npy file of word vectors that a bag encoder starts from, with its words in a .txt beside it.
        augment: training rows on top, as gandalf, or targets on top, as propagation (the paper's AugGT); with options
            as in propagation:hub=100; see docs/methods/gandalf.md.
        epochs: of the encoder, passes over the training documents.
        batch: documents of a batch.
        random_negatives: labels drawn at random into each pool, on top of the positives of its documents.
        loss: of the encoder: triplet, decoupled_softmax, info_nce, sup_con or binary_cross_entropy.
        learning_rate: of the encoder; 1e-4 for a transformer and 4e-3 for others if left out.
        warmup: steps over which the learning rate rises; it falls linearly to 0 after that.
        refresh_from: the first epoch, counted from 0, with batches of near documents or with hard negatives, and with
            pruned graphs.
        refresh_every: epochs between two renewals of these.
        cluster_size: the most documents of a cluster; base ngame.
        hard_negatives: labels drawn for each document from its list of hard negatives; base ance.
        mine_length: hard negatives on the list of a document; base ance.
        classifier_loss: triplet, decoupled_softmax, info_nce, sup_con or binary_cross_entropy; base ngame.
        classifier_epochs: passes over the training documents; 0 trains no classifiers; base ngame.
        classifier_learning_rate: of the classifiers; base ngame.
        dropout: share of a document vector's numbers that are dropped in a step of the classifiers; base ngame.
        validation: share of the training documents, 5,000 at most, held out to learn the fusion; base ngame.
        seed: of all random numbers.
        device: cpu, cuda, or auto for a GPU where there is one.
    """
    run = begin("ramen", locals())
    if base not in BASES:
        raise BadInput("--base", f"expected {' or '.join(BASES)}, found {base}", remedy="choose one of those")
    where = choose_device(device)
    dataset, held_out = hold_out(dataset, validation if base == "ngame" else 0, seed)
    rows = augmented(dataset, augment, seed=seed)
    train = rows.train
    text = read_text(rows, encoder, fields, width, max_length, static_vectors, run=run, device=where, seed=seed)
    regulariser = graph_terms(
        rows,
        text,
        run,
        names=graphs,
        sides=graph_sides,
        weights=graph_weights,
        loss=graph_loss,
        share=graph_share,
        redraw=graph_redraw,
        restart=walk_restart,
        keep=walk_keep,
        walk_again=walk_again,
        hub=hub_degree,
        prune_from=refresh_from,
        prune_every=refresh_every if prune else 0,
        prune_above=prune_above,
        seed=seed,
    )
    clustered = Clustered(len(train), batch, seed=seed)
    sampler: Sampler = clustered if base == "ngame" else Shuffled(len(train), batch, seed=seed)
    mined = Mined(len(train), hard_negatives if base == "ance" else 0)
    pool = Pool(train.targets, positives=1, random=random_negatives, mined=mined)
    batches = Loader(train, sampler, pool, *text.sources(), seed=seed, graphs=regulariser.pools)
    optimizer = AdamW(text.encoder.parameters(), learning_rate or learning_rate_of(text.encoder))
    encoder_loss, label_loss = loss_named(loss), loss_named(classifier_loss)

    def objective(b: Batch) -> dict[str, Tensor]:
        assert b.labels is not None
        x, z, *anchors = encode_together(text.encoder, b.documents, b.labels, *b.nodes)  # (B, D), (P, D), (A, D)
        scores = x @ z.T  # (B, P)
        return {loss: encoder_loss(scores, b.targets, b.mask)} | regulariser.terms(b, scores, x, z, anchors)

    def before_epoch(epoch: int) -> None:
        if epoch >= refresh_from and (epoch - refresh_from) % refresh_every == 0:
            documents = text.embed(text.documents)
            if base == "ngame":
                clustered.regroup(documents, cluster_size, device=where, epoch=epoch)
            else:
                mined.renew(mine(train, documents, text.embed(text.labels), mine_length, device=where))
        regulariser.before_epoch(epoch)

    trained = {"encoder": text.encoder}
    announce(objective, batches, optimizer, run=run, modules=trained, epochs=epochs)
    fit(
        objective,
        batches,
        optimizer,
        run=run,
        stage="encoder",
        modules=trained,
        epochs=epochs,
        seed=seed,
        schedule=linear(warmup),
        before_epoch=before_epoch,
        others={"sampler": clustered, "mined": mined, "graphs": regulariser},
    )

    vectors = {"encoder": text.embed(text.labels)}
    classify = base == "ngame" and classifier_epochs > 0
    if classify:
        vectors["classifier"] = train_classifiers(
            run,
            train,
            text.embed(text.documents),
            vectors["encoder"],
            label_loss,
            epochs=classifier_epochs,
            batch=batch,
            random_negatives=random_negatives,
            learning_rate=classifier_learning_rate,
            dropout=dropout,
            seed=seed,
            device=where,
        )
    bundle = Bundle("ramen", text.encoder, tuple(fields), dataset.labels, vectors, None, where)
    return finish(run, fuse(bundle, held_out, dataset.train.targets) if classify else bundle)
