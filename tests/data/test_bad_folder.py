"""Every way in which a folder can be wrong gives one line: file, line, what was expected and found, the remedy."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longtail.data.check import PROBLEMS_A_FILE, check
from longtail.data.dataset import Dataset
from longtail.errors import BadInput

TRN, TST, LBL, SAID = "trn.json.gz", "tst.json.gz", "lbl.json.gz", "dataset.json"
FILTER, TEST_FILTER = "filter_labels_train.txt", "filter_labels_test.txt"
EDGES, LABEL_EDGES, NODES = "tree_trn_X_Y.txt", "tree_lbl_X_Y.txt.gz", "raw_data/tree.raw.txt"
WHOLE = None  # the file is replaced, and the message names no line


def document(ids: object, weights: object) -> str:
    return f'{{"title": "x", "target_ind": [{ids}], "target_rel": [{weights}]}}'


JSON_CASES: dict[str, tuple[Any, ...]] = {
    # name: (file, line, new content, what the message must hold, place it must name if that is another)
    "broken gzip": (TRN, WHOLE, b"not packed", "gzip & after line 0 & again"),
    "truncated gzip": (TRN, WHOLE, gzip.compress(b"{}\n" * 9)[:-12], "gzip & cut short & again"),
    "gzip with a wrong sum": (LBL, WHOLE, gzip.compress(b"{}")[:-8] + b"\0" * 8, "gzip & CRC & 0x0 != & again"),
    "bad JSON": (TRN, 2, '{"title": ', 'JSON & {"title":  & char 10 & mend'),
    "blank line": (TRN, 3, "", "JSON & '' & mend"),
    "not an object": (LBL, 3, "[1, 2]", 'object & [1, 2] & {"title"'),
    "no title": (TRN, 1, '{"target_ind": [1]}', 'no "title" & write'),
    "title is a number": (LBL, 2, '{"title": 7}', "\"title\" & '7' & write"),
    "content is a list": (TST, 2, '{"title": "x", "content": [], "target_ind": []}', "\"content\" & '[]' & write"),
    "lengths differ": (TRN, 2, document("1, 2", "1"), "2 ids & 1 weights & write"),
    "no targets": (TRN, 2, '{"title": "x"}', "target_ind & None & write"),
    "label id out of range": (TRN, 2, document(4, 1), "id 4 & [0, 4) & from 0"),
    "negative label id": (TST, 1, document(-1, 1), "id -1 & [0, 4) & from 0"),
    "label id is no integer": (TRN, 4, document(1.5, 1), "label ids & [1.5] & write"),
    "label id beyond 64 bits": (TRN, 4, document(2**70, 1), f"label ids & {2**70} & write"),
    "label id is true": (TRN, 4, document("true", 1), "label ids & [True] & write"),
    "weight is true": (TRN, 4, document(1, "true"), "weights & [True] & write"),
    "uid is true": (LBL, 2, '{"uid": true, "title": "x"}', "\"uid\" & 'True' & write"),
    "weight is text": (TRN, 4, document(1, '"x"'), "weights & ['x'] & write"),
    "weight is NaN": (TRN, 2, document(1, "NaN"), "weight nan & id 1 & >= 0 & mend"),
    "weight is infinite": (TRN, 2, document(1, "Infinity"), "weight inf & >= 0 & mend"),
    "weight is negative": (TRN, 2, document(1, -2), "weight -2 & >= 0 & mend"),
    "more of a kind": (TRN, 2, document("4, 5, 6", "1, 1, 1"), "id 4 & [0, 4) & (and 2 more like it)"),
    "uid given twice": (TRN, 4, '{"uid": "d1", "title": "x", "target_ind": []}', "'d1' & line 2 too & own uid"),
    "label uid given twice": (LBL, 2, '{"uid": "l0", "title": "x"}', "'l0' & line 1 too & own uid"),
    "a lone surrogate as a title": (
        TRN,
        2,
        '{"title": "a \\ud800", "target_ind": []}',
        "UTF-8 can hold & ud800 & take out",
    ),
    "a lone surrogate as a content": (TST, 2, '{"title": "", "content": "\\udfff", "target_ind": []}', "UTF-8 & udfff"),
    "a lone surrogate as a uid": (LBL, 3, '{"uid": "\\udc80", "title": "x"}', "UTF-8 & udc80 & take out"),
    "NUL in a title": (LBL, 2, '{"title": "a\\u0000"}', "without NUL & 'a\\x00' & take out"),
    "a lone surrogate in the name": (SAID, WHOLE, {"name": "\ud800"}, 'UTF-8 can hold & ud800 & "name"'),
    "no UTF-8 in a key": (SAID, WHOLE, b'{"descri\xed\xa0\x80ption": "x"}', "is not UTF-8 & save it as UTF-8"),
    "UTF-16": (SAID, WHOLE, '{"name": "x"}'.encode("utf-16"), "is not UTF-8 & save it as UTF-8"),
    "NUL in a node": (NODES, 2, "a\0b", "without NUL & take out"),
    "wrong encoding": (
        *(LBL, WHOLE, gzip.compress(b'{"title": "apple"}\n{"title": "p\xeache"}\n')),
        *("utf-8 & 0xea & position 13 & latin-1", (LBL, 2)),
    ),
    "no labels in the file": (LBL, WHOLE, "", "empty & at least 1 label & write"),
    "no documents": (TRN, WHOLE, "", "empty & at least 1 document & write"),
    "no test documents": (TST, WHOLE, "", "empty & at least 1 document & write"),
    "no document has a label": (TST, WHOLE, (document("", "") + "\n") * 3, "3 documents & 0 pairs & give"),
    "label file is missing": (LBL, WHOLE, None, "lbl.json & missing & needs", ("fruit", None)),
    "neither layout": (TRN, WHOLE, None, "trn.json.gz or trn_X_Y.txt & tst.json.gz & import", ("fruit", None)),
    "plain and packed": ("trn.json", WHOLE, b"", "twice & trn.json.gz & remove"),
    "plain and packed test": ("tst.json", WHOLE, b"", "twice & tst.json.gz & remove"),
    "filter row out of range": (FILTER, 1, "4 1", "row 4 & [0, 4) & ?"),
    "filter label out of range": (TEST_FILTER, 2, "1 9", "label 9 & [0, 4) & ?"),
    "filter line of three": (TEST_FILTER, 2, "1 2 3", "'row label' & '1 2 3' & write"),
    "filter line of text": (TEST_FILTER, 1, "a b", "'row label' & 'a b' & write"),
    "A without B": (SAID, WHOLE, {"propensity": {"A": 0.5}}, "B is missing & two numbers"),
    "A is text": (SAID, WHOLE, {"propensity": {"A": "half", "B": 1}}, "constant A & 'half' & two numbers"),
    "A is beyond all floats": (SAID, WHOLE, {"propensity": {"A": 10**400, "B": 1}}, "constant A & '1000 & two numbers"),
    "A has too many digits": (
        *(SAID, WHOLE, b'{"propensity": {"A": ' + b"9" * 5000 + b', "B": 1}}'),
        "not JSON that can be read & digits & mend",
    ),
    "dataset.json is too deep": (SAID, WHOLE, b"[" * 100_000, "not JSON that can be read & mend"),
    "one_way is a word": (SAID, WHOLE, {"one_way": "yes"}, "true or false as \"one_way\" & found 'yes'"),
    "fields are a word": (SAID, WHOLE, {"fields": "title"}, "list of title and content & \"fields\" & found 'title'"),
    "fields are others": (
        SAID,
        WHOLE,
        {"fields": ["title", "market"]},
        'list of title and content & "fields" & market',
    ),
    "a field is a list": (SAID, WHOLE, {"fields": [["title"]]}, 'list of title and content & "fields" & write'),
    "propensity is a number": (SAID, WHOLE, {"propensity": 3}, "A is missing in '3' & two numbers"),
    "B is NaN": (SAID, WHOLE, {"propensity": {"A": 0.5, "B": float("nan")}}, "constant B & nan & two numbers"),
    "unknown encoding": (SAID, WHOLE, {"encoding": "utf-9"}, '"utf-9" & latin-1'),
    "encoding of two lines": (SAID, WHOLE, {"encoding": "utf\n8"}, '"utf\\n8" & latin-1'),
    "encoding that stops at an error": (SAID, WHOLE, {"encoding": "idna"}, '"idna" & latin-1'),
    "encoding without lines": (SAID, WHOLE, {"encoding": "utf-16"}, '"utf-16" & latin-1'),
    "name is a number": (SAID, WHOLE, {"name": 5}, "\"name\" & '5' & quotes"),
    "dataset.json is not JSON": (SAID, WHOLE, b'{\n "name": "x",\n}', "not JSON & mend", (SAID, 3)),
    "dataset.json is a list": (SAID, WHOLE, b"[]", "object & '[]' & write"),
    "dataset.json is not UTF-8": (SAID, WHOLE, b'{"name": "\xea"}', "UTF-8 & 0xea & save"),
    "graph without nodes": (SAID, WHOLE, {"graphs": {"tree": {"train": "x"}}}, "\"tree\" & 'train' & nodes"),
    "graph file above the folder": (
        *(SAID, WHOLE, {"graphs": {"tree": {"nodes": "../x.txt", "train": EDGES}}}),
        '"tree" & below the folder & ../x.txt',
    ),
    "graph file that is absolute": (
        *(SAID, WHOLE, {"graphs": {"tree": {"nodes": NODES, "train": "/etc/hosts"}}}),
        '"tree" & below the folder & /etc/hosts',
    ),
    "NUL in a graph file's name": (
        *(SAID, WHOLE, {"graphs": {"tree": {"nodes": "a\0b", "label": LABEL_EDGES}}}),
        "below the folder & a\\x00b",
    ),
    "graph file is a number": (
        *(SAID, WHOLE, {"graphs": {"tree": {"nodes": NODES, "train": EDGES, "label": 5}}}),
        "below the folder & found '5'",
    ),
    "graph whose name leads away": (
        *(SAID, WHOLE, {"graphs": {"../../escaped": {"nodes": NODES, "train": EDGES}}}),
        "letters, digits & '../../escaped' & another name",
    ),
    "graph with a hidden name": (
        SAID,
        WHOLE,
        {"graphs": {".x": {"nodes": NODES, "train": EDGES}}},
        "'.x' & another name",
    ),
    "graphs are a list": (SAID, WHOLE, {"graphs": ["tree"]}, "graph & tree & nodes"),
    "graph file is missing": (EDGES, WHOLE, None, "missing & check"),
    "graph of other rows": (EDGES, WHOLE, "3 3\n0:1\n\n\n", "4 training documents x 3 & found 3 x 3 & ?", (EDGES, 1)),
    "graph of other nodes": (LABEL_EDGES, 1, "4 4", "4 labels x 3 nodes & found 4 x 4 & ?"),
    "graph that lies": (LABEL_EDGES, 1, "5 3", "5 rows & 4 follow & anew"),
    "node id out of range": (EDGES, 3, "3:1", "node id 3 & [0, 3) & from 0"),
    "node texts are empty": (NODES, WHOLE, b"", "empty & one node text a line"),
}
PAIRS, TEST_PAIRS = "trn_X_Y.txt", "tst_X_Y.txt.gz"
TEXTS, TEST_TEXTS, LABELS = "raw_data/train.raw.txt", "raw_data/test.raw.txt.gz", "raw_data/label.raw.txt"
TEXT_CASES: dict[str, tuple[Any, ...]] = {
    "header says more rows": (PAIRS, 1, "5 4", "5 rows & 4 follow & anew"),
    "header says fewer rows": (PAIRS, 1, "3 4", "3 rows & 4 follow & anew"),
    "header says fewer columns": (TEST_PAIRS, 1, "2 2", "label id 2 & [0, 2) & size", (TEST_PAIRS, 3)),
    "header says more columns": (PAIRS, 1, "4 5", "5 labels & 4 lines & again"),
    "header says more entries": (PAIRS, 1, "4 4 6", "6 entries & 5 follow & again"),
    "header beyond 64 bits": (PAIRS, 1, "4 " + "9" * 20, "'rows columns' & '4 999 & again"),
    "header of too many digits": (PAIRS, 1, "4 " + "9" * 5000, "'rows columns' & '4 999 & again"),
    "header is missing": (PAIRS, 1, "0:1 2:1", "'rows columns' & '0:1 2:1' & again"),
    "header is negative": (PAIRS, 1, "-4 4", "'rows columns' & '-4 4' & again"),
    "matrix is empty": (PAIRS, WHOLE, "", "'rows columns' & empty & again", (PAIRS, 1)),
    "entry without weight": (PAIRS, 3, "1", "'3:1 8:0.5' & '1' & mend"),
    "entry of three": (PAIRS, 3, "1:2:3", "'3:1 8:0.5' & '1:2:3' & mend"),
    "id with a stroke in it": (PAIRS, 2, "1_0:1", "'3:1 8:0.5' & '1_0:1' & mend"),
    "weight with a stroke in it": (PAIRS, 2, "0:1_0", "'3:1 8:0.5' & '0:1_0' & mend"),
    "id in digits of another script": (PAIRS, 2, "\u0661:1", "'3:1 8:0.5' & '\u0661:1' & mend"),
    "filter in digits of another script": ("filter_labels_train.txt", 1, "\u0663 1", "'row label' & two ids"),
    "entry is text": (PAIRS, 2, "apple:1", "'3:1 8:0.5' & 'apple:1' & mend"),
    "weight is nan": (PAIRS, 2, "0:nan", "weight nan & >= 0 & mend"),
    "weight is negative": (PAIRS, 2, "0:-1", "weight -1 & >= 0 & mend"),
    "fewer texts than rows": (TEXTS, WHOLE, "a\nb\nc\n", "3 lines & 4 rows & one line"),
    "more texts than rows": (TEST_TEXTS, WHOLE, "a\nb\nc\n", "3 lines & 2 rows & one line"),
    "fewer labels than columns": (LABELS, WHOLE, "a\nb\n", "4 labels & 2 lines & again", (PAIRS, 1)),
    "texts are missing": (TEXTS, WHOLE, None, "raw_data/train.raw.txt & missing & needs", ("plain", None)),
    "labels are empty": (LABELS, WHOLE, "", "empty & at least 1 label & write"),
    "NUL in a text": (TEXTS, 4, "a\0", "without NUL & a\\x00"),
    "NUL in many labels": (LABELS, WHOLE, "a\n\0\nb\n\0\n", "without NUL & (and 1 more like it)", ("label.raw.txt", 2)),
    "text in latin-1": (TEXTS, WHOLE, b"a\nb\np\xe9che\nd\n", "utf-8 & 0xe9 & latin-1", ("train.raw.txt", 3)),
}


@pytest.mark.parametrize("case", JSON_CASES)
def test_json_lines_that_are_wrong(fruit: Path, verify: Callable[..., None], case: str) -> None:
    verify(fruit, *JSON_CASES[case])


@pytest.mark.parametrize("case", TEXT_CASES)
def test_matrices_and_raw_texts_that_are_wrong(plain: Path, verify: Callable[..., None], case: str) -> None:
    verify(plain, *TEXT_CASES[case])


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere: there is no such folder; check the path"):
        Dataset.read(tmp_path / "nowhere")


def test_a_file_in_place_of_a_folder(fruit: Path) -> None:
    with pytest.raises(BadInput, match=r"dataset.json: expected the folder of a data set, found a file; make one of"):
        Dataset.read(fruit / "dataset.json")


def test_a_graph_that_is_not_there(fruit: Path) -> None:
    with pytest.raises(BadInput, match=r"fruit: has no graph bush; its graphs are: tree"):
        Dataset.read(fruit, graphs=["bush"])


def test_nothing_is_checked_that_is_not_read(fruit: Path) -> None:
    (fruit / "tst.json.gz").write_bytes(b"broken")
    (fruit / "tree_trn_X_Y.txt").write_bytes(b"broken")
    assert len(Dataset.read(fruit, test=False, graphs=()).train) == 4


def test_a_check_finds_the_problems_of_all_files_at_once(fruit: Path) -> None:
    (fruit / TST).write_bytes(b"broken")
    (fruit / FILTER).write_text("4 1\n1 9\n3 1\n")
    (fruit / EDGES).write_text("4 3\n0:-1\n1:x\n\n\n")
    (fruit / SAID).write_text((fruit / SAID).read_text().replace("1.5", "-1.5"))
    findings, dataset = check(fruit)
    assert dataset is None
    messages = [finding.message.removeprefix(f"{fruit}/") for finding in findings]
    found = [message.split(": ")[0] for message in messages]
    assert found == [SAID, f"{FILTER}, line 1", f"{FILTER}, line 2", TST, f"{EDGES}, line 3", f"{EDGES}, line 2"]


def test_a_check_does_not_go_on_for_ever(fruit: Path) -> None:
    (fruit / FILTER).write_text("4 1\n" * 1000)
    findings, _ = check(fruit)
    assert len(findings) == PROBLEMS_A_FILE + 1
    assert f"more than {PROBLEMS_A_FILE} problems" in findings[-1].message
