"""Blocks of well-formed lines are read at one go, others line by line: both give the same."""

from __future__ import annotations

import json

import numpy as np
import pytest

from longtail.data.io import records
from longtail.data.io.records import read_records
from longtail.errors import BadInput


def read(path, **options):
    return read_records(path, **({"encoding": "utf-8", "fields": ("title", "content"), "columns": 9} | options))


def written(path, lines):
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def line(i):
    record = {"uid": f"u{i}", "title": f"naïve 🐟 {i}", "target_ind": [i % 9, (i + 4) % 9][: i % 3]}
    if i % 2:
        record |= {"content": "x" * i, "target_rel": [0.5, 1.0][: i % 3]}
    return json.dumps(record).encode()


def test_a_block_at_one_go_is_what_its_lines_are_one_by_one(tmp_path, monkeypatch):
    path = written(tmp_path / "trn.json", [line(i) for i in range(700)])
    at_once = read(path)
    monkeypatch.setattr(records, "_added", lambda *_: False)
    one_by_one = read(path)
    assert at_once[0].digest() == one_by_one[0].digest()
    assert (at_once[1] != one_by_one[1]).nnz == 0
    np.testing.assert_array_equal(at_once[1].indptr, one_by_one[1].indptr)
    assert list(at_once[0].fields) == ["title", "content"]


def test_odd_lines_among_others_are_read_as_they_are(tmp_path):
    odd = [b' {"title": "a", "target_ind": []} ', b'{"uid": 7, "content": null, "title": "b", "target_ind": [1]}\r']
    path = written(tmp_path / "trn.json", [line(0), *odd, line(3)])
    texts, targets = read(path)
    assert list(texts.uids) == ["u0", "", "7", "u3"]
    assert list(texts.fields["content"]) == ["", "", "", "xxx"]
    assert targets.toarray().sum(1).tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("ids", ['""', "null", "true", "[1.0]"])
@pytest.mark.parametrize("key", ["target_ind", "target_rel"])
def test_targets_that_are_no_list_are_refused_by_line(tmp_path, ids, key):
    if key == "target_rel" and ids in {"null", "[1.0]"}:
        pytest.skip("these are weights")
    bad = json.dumps({"title": "x", "target_ind": []})[:-1].encode() + f', "{key}": {ids}}}'.encode()
    path = written(tmp_path / "trn.json", [*(line(i) for i in range(300)), bad, line(301)])
    with pytest.raises(BadInput, match=rf'line 301: .*"{key}"'):
        read(path)


def test_an_id_given_twice_in_two_records_names_both_lines(tmp_path):
    path = written(tmp_path / "lbl.json", [*(line(i) for i in range(300)), line(2)])
    with pytest.raises(BadInput, match="line 301: uid 'u2' is that of line 3 too"):
        read(path, columns=None)
