"""Strings in one block of bytes, and texts of several fields."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data import texts as texts_module
from longtail.data.texts import Collector, Strings, Texts, storable
from longtail.errors import BadInput

WORDS = ["first", "", "naïve 東京", "🐟 fish", "\udc80 lone surrogate", "last\n"]


@pytest.mark.parametrize("bad", ["\0", "a\0", "\ud800", "x\udfff", "\udbff\udc00"])
def test_what_no_text_may_hold_is_found_by_row(bad: str) -> None:
    assert not storable(bad)
    assert Strings.of(["", "", bad, "", bad, "fine"]).unfit() == (
        2,
        f"expected text that UTF-8 can hold, without NUL, found {bad!r} (and 1 more like it)",
    )


@pytest.mark.parametrize("good", ["", "\x01\x1b\x7f\t\n", "한국어 \ud7ff\ue000", "\U0001f41f\U0010ffff", "\ufffe"])
def test_other_characters_may_come_in(good: str) -> None:
    assert storable(good)
    assert Strings.of([good, good]).unfit() is None


def test_no_strings_are_fit() -> None:
    assert Strings.of([]).unfit() is None


def test_strings_come_back_by_place_and_in_order() -> None:
    strings = Strings.of(iter(WORDS))
    assert len(strings) == 6
    assert list(strings) == WORDS
    assert [strings[i] for i in range(6)] == WORDS
    assert [strings[i - 6] for i in range(6)] == WORDS
    assert list(strings.take(np.array([3, 0, 3]))) == [WORDS[3], WORDS[0], WORDS[3]]
    assert list(Strings.of([])) == []


@pytest.mark.parametrize("place", [6, -7])
def test_no_such_string(place: int) -> None:
    with pytest.raises(IndexError, match=f"{place} of 6"):
        Strings.of(WORDS)[place]


def test_collector_grows_one_at_a_time() -> None:
    collector = Collector()
    for i, word in enumerate(WORDS):
        assert len(collector) == i
        collector.add(word)
    assert list(collector.strings()) == WORDS


def test_taken_strings_are_those_of_a_loop_bit_for_bit(monkeypatch) -> None:
    generator = np.random.default_rng(0)
    strings = Strings.of("aé東🐟"[: i % 5] * (i % 7) for i in generator.integers(0, 100, 500))
    monkeypatch.setattr(texts_module, "_BYTES", 64)  # so that the bytes are copied in many runs
    for rows in (generator.integers(-500, 500, 900), np.arange(500), np.flatnonzero(generator.random(500) < 0.5)):
        taken, looped = strings.take(rows), Strings.of(strings[int(i)] for i in rows)
        np.testing.assert_array_equal(taken.blob, looped.blob)
        np.testing.assert_array_equal(taken.offsets, looped.offsets)
        assert taken.digest() == looped.digest()
    assert len(strings.take(np.zeros(0, np.int64))) == len(Strings.of([]).take(np.zeros(0, np.int64))) == 0
    with pytest.raises(IndexError):
        strings.take(np.array([500]))


def test_taking_strings_is_no_loop_over_them(monkeypatch) -> None:
    strings = Strings.of(["a", "bc"] * 1000)
    monkeypatch.setattr(Strings, "__getitem__", lambda *_: pytest.fail("one string at a time"))
    assert len(strings.take(np.arange(2000))) == 2000


def test_digest_of_strings_tells_where_one_ends() -> None:
    made = [Strings.of(words) for words in (["ab", "c"], ["a", "bc"], ["abc"], ["ab", "c", ""], ["ab", "d"])]
    assert len({strings.digest() for strings in made}) == 5
    assert Strings.of(["ab", "c"]).digest() == made[0].digest()


def texts() -> Texts:
    return Texts(
        Strings.of(["u0", "u1", "u2"]),
        {"title": Strings.of(["t0", "", "t2"]), "content": Strings.of(["c0", "c1", ""])},
    )


def test_fields_are_joined_by_a_space_in_the_order_asked_for() -> None:
    assert list(texts().joined(["title"])) == ["t0", "", "t2"]
    assert list(texts().joined(["title", "content"])) == ["t0 c0", "c1", "t2"]
    assert list(texts().joined(["content", "title"])) == ["c0 t0", "c1", "t2"]
    assert list(texts().joined(["title", "abstract"])) == ["t0", "", "t2"]
    with pytest.raises(BadInput, match=r"none of the fields abstract is in the data; there are title, content"):
        list(texts().joined(["abstract"]))


def test_take_keeps_uids_and_fields_together() -> None:
    taken = texts().take(np.array([2, 0]))
    assert list(taken.uids) == ["u2", "u0"]
    assert list(taken.joined(["title", "content"])) == ["t2", "t0 c0"]


def test_columns_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="title has 1 strings for 2 uids"):
        Texts.of(["one"], uids=["a", "b"])


def test_digest_of_texts_tells_uids_fields_and_their_names_apart() -> None:
    def one(uid: str = "u", **fields: str) -> Texts:
        return Texts(Strings.of([uid]), {name: Strings.of([text]) for name, text in fields.items()})

    made = [one(title="a"), one("v", title="a"), one(title="b"), one(content="a"), one(title="a", content="a")]
    assert len({texts.digest() for texts in made}) == 5
    assert one(title="a", content="b").digest() == one(content="b", title="a").digest()
    assert one(title="a", content="b").digest() != one(title="b", content="a").digest()


def test_texts_that_follow_others_have_the_fields_of_both() -> None:
    titled = Texts(Strings.of(["a", "b"]), {"title": Strings.of(["é", ""])})
    full = Texts(Strings.of(["c"]), {"title": Strings.of(["z"]), "content": Strings.of(["long"])})
    both = titled.followed_by(full)
    assert list(both.uids) == ["a", "b", "c"]
    assert {name: list(column) for name, column in both.fields.items()} == {
        "title": ["é", "", "z"],
        "content": ["", "", "long"],
    }
    assert list(full.followed_by(titled).fields["content"]) == ["long", "", ""]
    empty = Texts.of([])
    assert list(empty.followed_by(titled).fields["title"]) == ["é", ""]
