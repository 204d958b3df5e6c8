"""Encoding in chunks that are encoded again: the vectors and gradients of one pass, dropout included."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from longtail.data.sparse import csr_of_lists
from longtail.losses import softmax
from longtail.losses.full import chunked
from longtail.losses.full.targets import SparseTargets
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.ranks import ranks
from longtail.shards.shard import Shards
from longtail.text.bag import BagTokenizer
from longtail.train.gradient_cache import encode_cached

TEXTS = ["red fish", "blue", "one two two one red green blue fish bird", "green birds", "fish red", "bird", "two fish"]
DOCUMENTS = ["one red fish", "birds", "green"]
TARGETS = csr_of_lists([[0, 4], [3, 5], [3]], len(TEXTS))


class Dropped(nn.Module):
    """An encoder whose vectors lose some of their numbers."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, text):
        return nn.functional.dropout(self.encoder(text), 0.3)


def bag(_):
    return BagEncoder(BagTokenizer.fit(TEXTS * 2), 8, generator=torch.Generator().manual_seed(0))


def tokens(encoder, texts, rows):
    return encoder.tokenizer.batch(encoder.tokenizer(texts), np.asarray(rows))


@pytest.mark.parametrize("make", [bag, TransformerEncoder], ids=["bag", "transformer"])
@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_step_over_all_labels_is_that_of_dense_autograd(make, size, tiny_bert):
    encoder = make(tiny_bert)
    model = Dropped(encoder).train()
    ids = np.arange(len(TEXTS))
    chunks = [tokens(encoder, TEXTS, ids[i : i + size]) for i in range(0, len(TEXTS), size)]
    documents = tokens(encoder, DOCUMENTS, range(3))
    targets = SparseTargets.of(TARGETS, None, torch.arange(3))

    def dense(x, z):
        return softmax.decoupled_softmax(x @ z.T, torch.from_numpy(TARGETS.toarray()), torch.ones(3, 7, dtype=bool))

    results = []
    for encode, loss in (
        (lambda: torch.cat([model(chunk) for chunk in chunks]), dense),
        (lambda: encode_cached(model, chunks), partial(chunked.decoupled_softmax, targets=targets, chunk=2)),
    ):
        torch.manual_seed(0)
        model.zero_grad()
        z = encode()
        x = model(documents)
        value = loss(x, z)
        value.backward()
        gradients = [p.grad.to_dense().clone() for p in model.parameters() if p.grad is not None]
        results.append([z.detach(), x.detach(), value.detach(), *gradients])
    assert len(results[0]) > 3
    assert (results[0][0] == 0).any()  # dropout
    assert len({chunk.ids.data_ptr() for chunk in chunks}) == len(chunks)
    for ours, theirs in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_what_is_encoded_again_has_the_width_that_it_had(tiny_bert):
    """Also in another shard than the first, by a thread that makes gradients, as those on a GPU are made."""
    encoder = TransformerEncoder(tiny_bert).train()
    encoder.nest((4, 16, 32))
    chunks, drawn = [tokens(encoder, TEXTS, [i]) for i in range(4)], []
    encoder.register_forward_hook(lambda *passed: drawn.append(int((passed[2] != 0).sum())))

    def work(shard):
        with torch.random.fork_rng():
            torch.manual_seed(shard.own_seed(7))
            apart = threading.Thread(target=encode_cached(Dropped(encoder), chunks).sum().backward)
            apart.start()
            apart.join()

    Shards(4, ranks()).step(work)
    assert drawn == drawn[:1] * 2 * len(chunks)


def test_only_the_vectors_are_held_between_the_passes():
    """A plain pass keeps what each layer saves for its backward pass; a cached one keeps nothing but its inputs."""
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(5)))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: saved.append(tuple(tensor.shape)) or tensor, lambda t: t
    ):
        torch.cat([layers(torch.ones(3, 4)) for _ in range(2)])
        plain = len(saved)
        saved.clear()
        encode_cached(layers, [torch.ones(3, 4) for _ in range(2)])
    assert plain >= 10
    saved = [shape for shape in saved if shape != (0,)]  # which some versions of torch keep beside, where a GPU is
    assert saved == [(4, 4), (3, 4)] * 2  # a parameter, for its device, and the texts


def test_the_encoder_meets_one_chunk_at_a_time_in_both_passes():
    seen = []

    class Watched(nn.Linear):
        def forward(self, x):
            seen.append((len(x), torch.is_grad_enabled()))
            return super().forward(x)

    encode_cached(Watched(4, 4), [torch.ones(n, 4) for n in (3, 2, 5)]).sum().backward()
    assert [n for n, _ in seen[:3]] == [3, 2, 5]
    assert sorted(n for n, _ in seen[3:]) == [2, 3, 5]
