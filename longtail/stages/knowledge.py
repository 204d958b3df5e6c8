"""What a language model knows of words, given to a bag encoder before it is trained."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np

from longtail.arrays import load_arrays, save_arrays
from longtail.errors import BadInput, MissingExtra
from longtail.files import kept
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.base import Encoder
from longtail.modules.encoders.knowledge import add_to, projected
from longtail.modules.encoders.named import encoder_named
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.text.bag import BagTokenizer
from longtail.text.huggingface import TransformerTokenizer, model_digest, model_folder
from longtail.topk import FloatArray
from longtail.train.run import Run

NONE = "none"
_TOKENS = 16  # of a word that the language model reads, at most


def must_take_knowledge(name: str, encoder: str, start: str | None) -> None:
    """Refuse knowledge for what cannot take it.

    Args:
        name: of the language model, as `longtail.modules.encoders.named.make_encoder` takes it, or none.
        encoder: the name of the encoder that is to be trained.
        start: the run that it comes from; None for a new one.

    Raises:
        BadInput: this encoder has no table of words, or comes from another run; or the model knows nothing.
    """
    if name == NONE:
        return
    if encoder_named(encoder).kind is not BagEncoder:
        problem = f"expected none for the encoder {encoder}, which has no table of words and pairs, found {name}"
        raise BadInput("knowledge", problem, remedy="leave it out, or choose the encoder bag")
    if start is not None:
        problem = f"expected none for an encoder that another run has trained, found {name}"
        raise BadInput("knowledge", problem, remedy="leave out one of knowledge and start")
    if encoder_named(name).kind is not TransformerEncoder:
        problem = f"expected none or a language model, found {name}, which starts from nothing"
        raise BadInput("knowledge", problem, remedy="give minilm, or a transformer by its name or folder")


def is_installed(name: str) -> bool:
    """Whether a language model that a package carries is there."""
    try:
        model_folder(name)
    except MissingExtra:
        return False
    return True


def know(run: Run, encoder: Encoder, name: str, weight: float, later: Collection[str] = ()) -> None:
    """Add what a language model knows of words to the start of a bag encoder's table.

    E[f] = r[f] + weight * p[f] for a word f, with r the random row that it started as and p its vector under the model,
    on the principal components of those of all words (`longtail.modules.encoders.knowledge.projected`). The inner
    product of two texts then starts as the kernel of their words plus weight^2 times that of what these mean.

    The vectors are kept in the run's cache, by the hash of model and words. While the run makes its plan, the encoder
    stays as it is.

    Args:
        run: encodes the words.
        encoder: a bag encoder, where there is a model.
        name: of the model, or none; see `must_take_knowledge`.
        weight: of its vectors.
        later: words that a run within this one will know, of documents that are held out here: the language model is
            asked about them, too, so that it is asked once.

    Raises:
        LongtailError: there is no such model.
        MissingExtra: a package that it needs is not installed.
    """
    if name == NONE:
        return
    encoder = encoder.core
    assert isinstance(encoder, BagEncoder)
    features = encoder.tokenizer.features
    ids = np.asarray([i for i, feature in enumerate(features) if is_known(feature)], np.int64)
    words = [features[i] for i in ids.tolist()]
    asked = sorted({*words, *later})
    key = _key(name, asked)
    folder = None if run.cache is None else run.cache / f"knowledge-{key}"
    if run.plan is not None:
        if folder is None or (not folder.is_dir() and run.plan.first(key)):
            _encoded(run, name, asked)
        return
    vectors = _encoded(run, name, asked) if folder is None else _kept(run, folder, name, asked)
    place = {word: i for i, word in enumerate(asked)}
    own = vectors[[place[word] for word in words]]
    add_to(encoder.table, ids, np.float32(weight) * projected(own, encoder.width))
    run.log.say(f"{len(ids):,} of {len(features):,} features start from what {name} knows")


def words_of(corpus: Iterable[str]) -> list[str]:
    """The words that a bag knows which reads some texts."""
    return [*filter(is_known, BagTokenizer.fit(corpus, ngram=0).features)]


def is_known(feature: str) -> bool:
    """Whether a feature of a bag is one that a language model is asked for: a word, no pair and no n-gram."""
    return not (" " in feature or feature.startswith("#"))


def _encoded(run: Run, name: str, texts: list[str]) -> FloatArray:
    """(n, H) float32 vectors of texts under a language model."""
    length = min(_TOKENS, TransformerTokenizer(name).max_length)  # some are made for less
    model = TransformerEncoder(name, max_length=length).to(run.device).eval()
    if run.plan is None:
        run.log.say(f"encoding {len(texts):,} words with {name}, once")
    return run.embed(model, model.label_tokenizer(texts), what="encoding the vocabulary")


def _kept(run: Run, folder: Path, name: str, texts: list[str]) -> FloatArray:
    """The same from a cache, where they are there for all processes: to encode is what these do together."""
    found = _read(folder)
    if all(run.ranks.every(found is not None)) and found is not None:
        return found
    encoded = _encoded(run, name, texts)
    return kept(folder, lambda: save_arrays(folder, {"vectors": encoded}), _vectors)


def _read(folder: Path) -> FloatArray | None:
    """What is kept in a folder, whole; None where there is nothing of that kind."""
    try:
        return _vectors(folder) if folder.is_dir() else None
    except BadInput:
        return None


def _vectors(folder: Path) -> FloatArray:
    return load_arrays(folder, ["vectors"], mapped=True)[0]


def _key(name: str, texts: list[str]) -> str:
    """A hash of a language model and what it reads."""
    said = "\n".join((model_digest(model_folder(name)), str(_TOKENS), *texts))
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32]
