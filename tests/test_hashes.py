"""Hashes of files, and names that lead elsewhere."""

from __future__ import annotations

import pytest

from longtail.cards import read_card, write_card
from longtail.errors import BadInput
from longtail.hashes import check_hashes, hashes, sha256


def test_a_file_that_was_changed_or_is_missing_is_refused(tmp_path):
    path = tmp_path / "below" / "file"
    path.parent.mkdir()
    path.write_bytes(b"one")
    expected = hashes(tmp_path, card="card.json")
    assert expected == {"below/file": sha256(path)}
    check_hashes(tmp_path, expected)
    path.write_bytes(b"other")
    with pytest.raises(BadInput, match=f"{path}: expected SHA-256 {expected['below/file'][:12]}..., found "):
        check_hashes(tmp_path, expected)
    path.unlink()
    with pytest.raises(BadInput, match="found no such file; copy the folder again, whole"):
        check_hashes(tmp_path, expected)


@pytest.mark.parametrize("name", ["{outside}", "../secret", "below/../../secret"])
def test_a_card_names_no_file_outside_its_folder(tmp_path, name):
    """Whoever wrote the card learns nothing of such a file: not even whether it is there."""
    outside, folder = tmp_path / "secret", tmp_path / "model"
    outside.write_text("secret")
    (folder / "below").mkdir(parents=True)
    name = name.format(outside=outside)
    write_card(folder / "card.json", {}, files=[name])
    with pytest.raises(BadInput, match=f"{folder}: expected names of files in it, found ") as refused:
        read_card(folder / "card.json", remedy="copy it again")
    assert sha256(outside)[:12] not in str(refused.value)
