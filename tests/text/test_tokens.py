"""Token tables in their cache, and the tokens of two sides one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from broken import flipped

from longtail.data.texts import Strings, Texts
from longtail.errors import NotWritten
from longtail.text.bag import BagTokenizer
from longtail.text.ragged import Ragged
from longtail.text.tokens import BagTokens, PaddedTokens, VectorTokens, token_table
from longtail.topk import IntArray


class Counted:
    """Tokenises each text into its number of characters, and counts the tables that it made."""

    def __init__(self, fingerprint: str = "counted") -> None:
        self.fingerprint, self.tables = fingerprint, 0

    def __call__(self, texts: Iterable[str]) -> Ragged:
        self.tables += 1
        ids = np.asarray([len(text) for text in texts], np.int32)
        return Ragged(ids, np.arange(len(ids) + 1, dtype=np.int64), np.zeros(0, np.float32))

    def batch(self, table: Ragged, rows: IntArray) -> VectorTokens:
        return VectorTokens(torch.from_numpy(table.take(rows).ids[:, None].astype(np.float32)))


TEXTS = Texts(Strings.of(["a", "b"]), {"title": Strings.of(["one", "three"]), "content": Strings.of(["", "12"])})


def test_a_table_is_made_once(tmp_path: Path) -> None:
    tokenizer = Counted()
    first, again = (token_table(TEXTS, ["title"], tokenizer, tmp_path / "new") for _ in range(2))
    assert tokenizer.tables == 1
    assert first.ids.tolist() == again.ids.tolist() == [3, 5]
    assert isinstance(again.ids, np.memmap)
    assert token_table(TEXTS, ["title"], Counted(), tmp_path / "new").ids.tolist() == [3, 5]


def test_without_a_cache_a_table_is_in_memory(tmp_path: Path) -> None:
    tokenizer = Counted()
    tables = [token_table(TEXTS, ["title", "content"], tokenizer) for _ in range(2)]
    assert tokenizer.tables == 2
    assert tables[0].ids.tolist() == [3, 8]
    assert not isinstance(tables[0].ids, np.memmap)
    assert not list(tmp_path.iterdir())


def test_content_fields_and_tokeniser_are_the_key(tmp_path: Path) -> None:
    def made(texts: Texts, fields: list[str], tokenizer: Counted) -> tuple[int, list[int]]:
        table = token_table(texts, fields, tokenizer, tmp_path)
        return tokenizer.tables, table.ids.tolist()

    other = Texts(TEXTS.uids, {**TEXTS.fields, "title": Strings.of(["one", "threes"])})
    assert made(TEXTS, ["title"], Counted()) == (1, [3, 5])
    assert made(other, ["title"], Counted()) == (1, [3, 6])
    assert made(TEXTS, ["title", "content"], Counted()) == (1, [3, 8])
    assert made(TEXTS, ["content", "title"], Counted()) == (1, [3, 8])
    assert made(TEXTS, ["title"], Counted("another")) == (1, [3, 5])
    assert len(list(tmp_path.iterdir())) == 5
    assert made(TEXTS, ["title"], Counted()) == (0, [3, 5])


def test_a_table_that_another_process_has_made_meanwhile_is_read(tmp_path: Path) -> None:
    class Slow(Counted):
        def __call__(self, texts: Iterable[str]) -> Ragged:
            token_table(TEXTS, ["title"], Counted(), tmp_path)
            return super().__call__(texts)

    assert token_table(TEXTS, ["title"], Slow(), tmp_path).ids.tolist() == [3, 5]
    assert len(list(tmp_path.iterdir())) == 1


def flips(folder: Path) -> Iterator[Path]:
    """Each file of a folder with one byte flipped, at every 64th offset, and emptied, cut, and removed."""
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for offset in range(0, len(whole), 64):
            path.write_bytes(flipped(whole, offset, 2))
            yield path
        for length in (0, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:length])
            yield path
        path.unlink()
        yield path


def test_a_table_that_is_not_what_was_written_is_made_again(tmp_path: Path) -> None:
    texts = Texts.of([f"{'x' * (i % 7)}" for i in range(200)])
    expected = token_table(texts, ["title"], Counted(), tmp_path).ids.tolist()
    (folder,) = tmp_path.iterdir()
    cases = 0
    for path in flips(folder):
        tokenizer = Counted()
        assert token_table(texts, ["title"], tokenizer, tmp_path).ids.tolist() == expected, path
        assert tokenizer.tables == 1 or path.name == "checksums.json"
        assert {path.name for path in tmp_path.iterdir()} == {folder.name}
        cases += 1
    assert cases > 50


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(NotWritten, match=r"file.*: not written"):
        token_table(TEXTS, ["title"], Counted(), tmp_path / "file")


def bags(texts: list[str]) -> BagTokens:
    known = ["red fish", "blue fish", "red bird", "one blue bird"] * 2
    tokenizer = BagTokenizer.fit(known)
    return tokenizer.batch(tokenizer(texts), np.arange(len(texts)))


@pytest.mark.parametrize(
    ("left", "right"),
    [(["red fish", "", "bird"], ["blue", "red red bird"]), ([], ["fish"]), (["fish"], []), ([""], [""])],
)
def test_bags_followed_by_others_are_those_of_all_texts(left: list[str], right: list[str]) -> None:
    joined, whole = bags(left).followed_by(bags(right)), bags(left + right)
    assert len(joined) == len(left) + len(right)
    for name in BagTokens.__slots__:
        assert torch.equal(getattr(joined, name), getattr(whole, name)), name
        assert getattr(joined, name).dtype == getattr(whole, name).dtype


def test_padded_tokens_followed_by_others_are_padded_to_the_longest() -> None:
    short = PaddedTokens(torch.tensor([[11, 12]]), torch.tensor([[True, True]]))
    long = PaddedTokens(torch.tensor([[21, 22, 23], [31, 0, 0]]), torch.tensor([[True] * 3, [True, False, False]]))
    for joined, order in ((short.followed_by(long), [0, 1, 2]), (long.followed_by(short), [1, 2, 0])):
        assert joined.ids.tolist() == [[[11, 12, 0], [21, 22, 23], [31, 0, 0]][i] for i in order]
        assert joined.mask.tolist() == [[[True, True, False], [True] * 3, [True, False, False]][i] for i in order]
        assert joined.mask.dtype == torch.bool


def test_vectors_followed_by_others() -> None:
    joined = VectorTokens(torch.tensor([[1.0, 2.0]])).followed_by(VectorTokens(torch.tensor([[3.0, 4.0], [5.0, 6.0]])))
    assert joined.values.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_texts_without_a_share_of_their_tokens() -> None:
    torch.manual_seed(0)
    whole = PaddedTokens(
        torch.arange(1, 2001).reshape(2, 1000), torch.tensor([[True] * 1000, [True] * 2 + [False] * 998])
    )
    some = whole.without(0.25)
    for row in range(2):
        left = some.ids[row][some.mask[row]]
        assert left[0] == whole.ids[row, 0], "the first, by which some transformers know a text, stays"
        assert (left.diff() > 0).all(), "in their order"
        assert set(left.tolist()) <= set(whole.ids[row][whole.mask[row]].tolist())
        assert (some.mask[row].int().diff() <= 0).all(), "padding is on the right"
    assert 700 < int(some.mask[0].sum()) < 800
    bag = bags(["red shoes", "oak table"])
    weights = torch.cat([bag.without(0.5).weights for _ in range(50)]).reshape(50, -1)
    assert 0.3 < float((weights == 0).float().mean()) < 0.7
    assert torch.allclose(weights.max(0).values, 2 * bag.weights), "what is left keeps its share"
    vectors = VectorTokens(torch.ones(10, 100))
    assert set(vectors.without(0.5).values.unique().tolist()) == {0.0, 2.0}
    assert all(tokens.without(0.0) is tokens for tokens in (whole, bag, vectors))
