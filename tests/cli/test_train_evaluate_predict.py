"""The verbs of a user's first hour, in real processes."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from longtail import load
from longtail.data.dataset import Dataset
from longtail.data.texts import Strings, Texts

QUICK = ("--epochs", 4, "--classifier-epochs", 6, "--batch", 64, "--width", 32, "--warmup", 10, "--learning-rate", 0.02)


@pytest.fixture(scope="module")
def trained(longtail, planted_folder, tmp_path_factory):
    """A run of ngame on the planted data, and what training printed."""
    run = tmp_path_factory.mktemp("runs") / "run"
    status, output, errors = longtail("train", "ngame", planted_folder, "--out", run, *QUICK)
    assert status == 0, errors
    return run, output


def test_train_shows_a_plan_and_each_epoch(trained):
    run, output = trained
    for words in (
        "training documents",
        "labels",
        "stage encoder",
        "stage classifiers",
        "clusters of documents",
        "fusion",
        "effective negatives",
        "parameters",
        "peak memory",
        "disk",
    ):
        assert words in output
    assert "encoder: epoch 4 of 4" in output
    assert "classifiers: epoch 6 of 6" in output
    assert sorted(path.name for path in run.iterdir()) == ["cost.json", "metrics.jsonl", "model", "run.json", "stages"]


def test_run_json_says_what_was_asked(trained, planted_folder):
    settings = json.loads((trained[0] / "run.json").read_text())
    assert settings["recipe"] == "ngame"
    assert settings["arguments"]["epochs"] == 4
    assert settings["arguments"]["fields"] == ["title"]
    assert settings["data"] == str(planted_folder)
    assert all(len(value) == 64 for value in settings["hashes"].values())
    assert settings["versions"].keys() == {"longtail", "python", "torch", "numpy"}


def test_evaluate_prints_every_kind_and_writes_json(trained, longtail, tmp_path):
    status, output, errors = longtail("evaluate", trained[0], "--json", tmp_path / "m.json", "--k", "1,5")
    assert status == 0, errors
    for word in ("encoder", "classifier", "fused", "P@1", "PSP@5", "A0.55", "B1.5", "N600"):
        assert word in output.replace(" ", ""), word
    report = json.loads((tmp_path / "m.json").read_text())
    assert report.keys() >= {"n", "A", "B", "N", "kinds"}
    assert list(report["kinds"]) == ["fused", "encoder", "classifier"]
    assert report["kinds"]["fused"]["P@1"] > report["kinds"]["encoder"]["P@1"]


def test_evaluate_shows_the_psp_under_all_constants_that_are_given(trained, longtail, tmp_path):
    given = ("--propensity", "0.55,1.5", "--propensity", "0.5,0.4")
    status, output, errors = longtail("evaluate", trained[0], "--json", tmp_path / "m.json", *given)
    assert status == 0, errors
    report = json.loads((tmp_path / "m.json").read_text())
    under = [report, *report["others"]]
    assert [(one["A"], one["B"]) for one in under] == [(0.55, 1.5), (0.5, 0.4)]
    lines = [line for line in output.splitlines() if line.split()[:1] == ["PSP@5"]]
    for one, line in zip(under, lines, strict=True):
        assert f"{one['kinds']['fused']['PSP@5']:.2f}" in line.split()
        assert f"A {one['A']:g}, B {one['B']:g}, N 600" in line
    status, _, errors = longtail("evaluate", trained[0], "--propensity", "0.55")
    assert (status, errors.count("\n")) == (1, 1)
    assert "propensity: expected two finite numbers A,B >= 0, found 0.55; for example 0.55,1.5" in errors


def test_evaluate_groups_documents_in_the_table_the_json_and_the_report(trained, longtail, planted_folder, tmp_path):
    whole = Dataset.read(planted_folder)
    documents = whole.test.documents
    markets = Strings.of(["de", "fr", "<b>"][i % 3] for i in range(len(documents)))
    test = replace(whole.test, documents=Texts(documents.uids, {**documents.fields, "market": markets}))
    replace(whole, test=test).write(tmp_path / "data")
    given = ("evaluate", trained[0], "--data", tmp_path / "data", "--by", "market", "--by", "labels:bins=2")
    status, output, errors = longtail(*given, "--json", tmp_path / "m.json", "--report", tmp_path / "report")
    assert (status, errors) == (0, "")
    by = json.loads((tmp_path / "m.json").read_text())["by"]
    assert [(group["group"], group["documents"]) for group in by["market"]] == [("de", 34), ("<b>", 33), ("fr", 33)]
    assert [sum(group["documents"] for group in of) for of in by.values()] == [100, 100]
    recall = by["market"][0]["kinds"]["fused"]["R@5"]
    line = next(line for line in output.splitlines() if line.split()[:2] == ["de", "34"])
    assert f"{recall['value']:.2f} ±{(recall['high'] - recall['low']) / 2:.2f}" in line
    assert max(len(line) for line in output.splitlines() if str(tmp_path) not in line) <= 100
    page = (tmp_path / "report" / "report.html").read_text()
    section = page.partition('<h2 id="by-query">')[2].partition("</section>")[0]
    assert "<h3>By market</h3>" in section
    assert f"{recall['value']:.2f}<small>" in section
    assert "&lt;b&gt;" in section
    assert "<b>" not in section
    status, _, errors = longtail(*given[:-1], "city")
    assert (status, errors.count("\n")) == (1, 1)
    assert "longtail: --by: expected a column of the test documents, found city; the columns are market;" in errors
    assert "by-query" not in longtail("evaluate", trained[0], "--report", tmp_path / "plain")[1]


@pytest.mark.parametrize("words", ["evaluate", "labels list", "predict"])
def test_a_process_that_imports_it_all_says_and_ends_the_same(trained, longtail, start_longtail, words):
    """Other tests ask a process that has imported longtail, and whose interpreter is not taken down."""
    command, given = (*words.split(), trained[0]), "some text\n"
    process = start_longtail(*command)
    output, errors = process.communicate(given, timeout=240)
    assert (process.returncode, output, errors) == longtail(*command, stdin=given)
    assert (process.returncode, errors) == (0, "")


def test_evaluate_writes_a_report_of_the_run(trained, longtail, tmp_path):
    status, _, errors = longtail("evaluate", trained[0], "--k", "1", "--report", tmp_path / "report")
    assert status == 0, errors
    page = (tmp_path / "report" / "report.html").read_text()
    settings = json.loads((trained[0] / "run.json").read_text())
    command = next(line for line in re.split("<code[^>]*>", page) if line.startswith("longtail train"))
    assert command.startswith(f"longtail train {settings['recipe']} {settings['data']} --out {trained[0]}")
    for words in (f"P@1 {settings['recipe']}", "unseen", "nDCG@5", "classifier"):
        assert all(word in page for word in words.split()), words


def test_predict_reads_lines_and_json_and_writes_both_formats(trained, longtail, tmp_path, planted_folder):
    bundle = load(trained[0])
    titles = [bundle.labels.fields["title"][i] for i in range(3)]
    lines = tmp_path / "lines.txt.gz"
    with gzip.open(lines, "wt", encoding="utf-8") as file:
        file.write(f"{titles[0]}\n" + json.dumps({"title": titles[1]}) + "\n\n" + titles[2])
    status, _, errors = longtail("predict", trained[0], "--input", lines, "--k", 7, "--output", tmp_path / "p.npz")
    assert status == 0, errors
    arrays = np.load(tmp_path / "p.npz")
    assert (arrays["ids"].shape, arrays["ids"].dtype, arrays["scores"].dtype) == ((4, 7), np.int64, np.float32)
    assert arrays["ids"][[0, 1, 3], 0].tolist() == [0, 1, 2]
    status, output, _ = longtail("predict", trained[0], "--k", 2, stdin=f"{titles[0]}\n")
    line = json.loads(output)
    assert line["text"] == titles[0]
    assert line["labels"][0]["text"] == titles[0]
    assert line["labels"][0].keys() == {"id", "uid", "text", "score"}
    assert len(line["labels"]) == 2
    expected = bundle.predict(titles[:1], k=2)[0]
    assert [label["id"] for label in line["labels"]] == [label.id for label in expected]


def test_a_byte_order_mark_and_blanks_before_an_object_are_no_text(trained, longtail, tmp_path):
    content = '\ufeff{"title": "some text"}\n \t{"title": "another"}\n\ufeff plain\n'
    (tmp_path / "lines.jsonl").write_text(content, encoding="utf-8")
    expected = ["some text", "another", "\ufeff plain"]
    for asked in ({}, {"stdin": content}):
        given = () if asked else ("--input", tmp_path / "lines.jsonl")
        status, output, errors = longtail("predict", trained[0], *given, "--k", 1, **asked)
        assert status == 0, errors
        assert [json.loads(line)["text"] for line in output.splitlines()] == expected


def test_a_return_within_a_line_begins_no_other_text(trained, longtail, tmp_path):
    content = b"some\rtext\r\nanother\n"
    (tmp_path / "lines.txt").write_bytes(content)
    with gzip.open(tmp_path / "lines.txt.gz", "wb") as file:
        file.write(content)
    for given in ({}, {"--input": tmp_path / "lines.txt"}, {"--input": tmp_path / "lines.txt.gz"}):
        words = [word for option in given.items() for word in option]
        status, output, errors = longtail("predict", trained[0], "--k", 1, *words, stdin=content.decode())
        assert status == 0, errors
        assert [json.loads(line)["text"] for line in output.splitlines()] == ["some\rtext", "another"]


def test_texts_of_a_table_to_rank_may_have_one_uid(trained, longtail, tmp_path):
    (tmp_path / "new.csv").write_text("uid,title\n7,some text\n7,another\n")
    status, output, errors = longtail("predict", trained[0], "--input", tmp_path / "new.csv", "--k", 1)
    assert status == 0, errors
    assert [json.loads(line)["text"] for line in output.splitlines()] == ["some text", "another"]


def test_predict_reads_a_table_by_its_columns(trained, longtail, tmp_path):
    titles = ['with "quotes", a comma\nand a line end', "plain"]
    with (tmp_path / "new.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["sku", "name"], *enumerate(titles)])
    asked = ("predict", trained[0], "--input", tmp_path / "new.csv", "--k", 2)
    status, output, errors = longtail(*asked, "--text", "name")
    assert status == 0, errors
    found = [json.loads(line) for line in output.splitlines()]
    assert [line["text"] for line in found] == titles
    expected = load(trained[0]).predict(titles, k=2).ids
    assert [[label["id"] for label in line["labels"]] for line in found] == expected.tolist()
    status, output, errors = longtail(*asked)
    assert (status, output) == (1, "")
    assert 'there is no column "title", the columns are: sku, name; name the column of the text with --text' in errors


def test_a_table_keeps_its_columns_and_has_the_labels_behind_them(trained, longtail, tmp_path):
    titles = ["=1+1, of sheets", "plain", 'with "quotes"']
    path, out = tmp_path / "new.csv", tmp_path / "tagged.tsv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["sku", "name", "labels"], *([i, title, "a;b"] for i, title in enumerate(titles))])
    asked = ("predict", trained[0], "--input", path, "--text", "name", "--output", out, "--batch", 2)
    status, _, errors = longtail(*asked)
    assert (status, out.exists()) == (1, False)
    assert 'found "labels"; give a prefix for those that are added' in errors
    status, _, errors = longtail(*asked, "--k", 2, "--prefix", "found_", "--label-texts")
    assert status == 0, errors
    with out.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, delimiter="\t")
    assert header == ["sku", "name", "labels", "found_labels", "found_label_texts", "found_scores"]
    assert [row[:3] for row in rows] == [[str(i), title, "a;b"] for i, title in enumerate(titles)]
    expected = load(trained[0]).predict(titles, k=2)
    assert [json.loads(row[3]) for row in rows] == expected.uids.tolist()
    assert [json.loads(row[4]) for row in rows] == [[label.text for label in labels] for labels in expected]
    np.testing.assert_allclose([json.loads(row[5]) for row in rows], expected.scores, rtol=1e-6)


@pytest.mark.parametrize(
    ("table", "arguments", "message"),
    [
        ("title\na\n", "--uids", "longtail: --uids: has no meaning for the output"),
        ("title\na\n", "--skip-null", "longtail: --skip-null: has no meaning for the output"),
        ("name\na\n", "", 'there is no column "title", the columns are: name'),
        ("title\n", "", "holds no record, expected at least 1"),
        ("title,x\na,1\nb\x00,2\n", "", "new.csv, line 3: expected text that UTF-8 can hold, without NUL"),
        ("title,x,x\na,1,2\n", "", "new.csv, line 1: expected each column once, found 'x' twice"),
    ],
)
def test_a_table_that_cannot_be_kept_is_one_line(trained, longtail, tmp_path, table, arguments, message):
    (tmp_path / "new.csv").write_text(table)
    asked = ("--input", tmp_path / "new.csv", "--output", tmp_path / "out.csv", *arguments.split())
    status, _, errors = longtail("predict", trained[0], *asked)
    assert status == 1
    assert message in errors
    assert len(errors.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


def test_an_array_of_uids_goes_with_that_of_ids(trained, longtail, tmp_path):
    titles = [load(trained[0]).labels.fields["title"][i] for i in range(2)]
    (tmp_path / "lines.txt").write_text("".join(f"{title}\n" for title in titles))
    options = ("--input", tmp_path / "lines.txt", "--k", 500, "--output", tmp_path / "p.npz")
    assert longtail("predict", trained[0], *options, "--uids")[0] == 0
    with np.load(tmp_path / "p.npz", allow_pickle=False) as arrays:
        ids, uids = arrays["ids"], arrays["uids"]
    assert ids.shape == uids.shape == (2, 500)
    known = [*load(trained[0]).labels.uids]
    assert all(uid == (known[i] if i >= 0 else "") for i, uid in zip(ids.ravel(), uids.ravel(), strict=True))


def test_evaluate_says_that_it_leaves_label_changes_out(trained, longtail, tmp_path):
    run = shutil.copytree(trained[0], tmp_path / "run")
    before = longtail("evaluate", run)[1]
    assert longtail("labels", "remove", run, load(run).labels.uids[0])[0] == 0
    assert longtail("labels", "add", run, "--uid", "a", "--text", "b")[0] == 0
    status, after, errors = longtail("evaluate", run)
    assert status == 0, errors
    assert "labels of this run were changed 2 times since" in " ".join(after.split())
    assert after.startswith(before.rstrip())


def test_who_only_predicts_waits_for_no_server_and_no_comparison(trained):
    program = (
        "import sys; from longtail.cli.verbs import app; app(['predict', sys.argv[1]], standalone_mode=False); "
        "app(['labels', 'list', sys.argv[1]], standalone_mode=False); "
        "found = {name for name in sys.modules for other in OTHERS if name == other or name.startswith(other + '.')}; "
        "sys.exit(str(found) if found else 0)"
    )
    others = ["longtail.serve", "longtail.compare", "longtail.report", "fastapi", "uvicorn", "starlette"]
    command = [sys.executable, "-c", f"OTHERS = {others}; {program}", str(trained[0])]
    done = subprocess.run(command, input="some text\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_dry_run_stops_at_the_plan(planted_folder, longtail, tmp_path):
    status, output, errors = longtail("train", "dpr", planted_folder, "--out", tmp_path / "run", "--dry-run")
    assert status == 0, errors
    assert "an epoch" in output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "ngame", "{data}", "--out", "{run}"], "longtail resume"),
        (["train", "dpr", "{data}", "--out", "{new}", "--loss", "hinge"], "expected one of triplet, decoupled_softmax"),
        (["train", "dpr", "{data}/nothing", "--out", "{new}"], "no such folder"),
        (["train", "dpr", "{data}", "--out", "{data}"], "is not empty"),
        (["train", "dpr", "{data}", "--out", "{new}", "--encoder", "nobody/nothing"], "nobody/nothing"),
        (["evaluate", "{data}"], "expected the card of a trained model"),
        (["evaluate", "{run}", "--k", "0"], "expected whole numbers above 0"),
        (["predict", "{run}", "--input", "{data}/nothing"], "no such file"),
        (
            ["predict", "{run}", "--input", "{data}/lbl.json.gz", "--output", "{new}.csv"],
            "expected one .csv or .tsv table, as the output is one",
        ),
        (["predict", "{run}", "--input", "{empty}", "--uids"], "--uids: expected an .npz file as the output, "),
        (
            ["predict", "{run}", "--input", "{empty}", "--uids", "--output", "{new}.jsonl"],
            "found {new}.jsonl; leave it",
        ),
        (["predict", "{run}", "--input", "{bad}"], "line 2: expected a JSON object"),
        (["predict", "{run}", "--input", "{number}"], "line 1: expected strings for title and content, found a number"),
        (["predict", "{run}", "--input", "{other}"], "line 1: expected an object with a title, found one with text"),
        (["predict", "{run}", "--input", "{surrogate}"], "line 1: expected text that UTF-8 can hold"),
        (["predict", "{run}", "--input", "{nul}"], "line 1: expected text that UTF-8 can hold, without NUL"),
        (["predict", "{run}", "--input", "{digits}"], "line 1: expected a JSON object, found Exceeds the limit"),
        (["predict", "{run}", "--input", "{binary}"], "expected UTF-8 text"),
        (["predict", "{run}", "--input", "{empty}", "--kind", "best"], "expected one of encoder, classifier, fused"),
        (["resume", "{data}"], "expected the settings of a run"),
    ],
)
def test_bad_input_is_one_line_and_status_1(trained, planted_folder, longtail, tmp_path, arguments, message):
    (tmp_path / "bad.jsonl").write_text('{"title": "x"}\n{"title": \n')
    (tmp_path / "binary").write_bytes(b"caf\xe9\n")
    (tmp_path / "empty").write_text("text\n")
    names = {"data": planted_folder, "run": trained[0], "new": tmp_path / "new"}
    lines = {"number": '{"title": 5}', "other": '{"text": "x"}', "surrogate": '{"title": "\\ud800"}'}
    lines |= {"nul": "a\0b", "digits": '{"title": "a", "n": ' + "9" * 5000 + "}"}
    for name, line in lines.items():
        (tmp_path / name).write_text(f"{line}\n")
        names[name] = tmp_path / name
    names |= {"bad": tmp_path / "bad.jsonl", "binary": tmp_path / "binary", "empty": tmp_path / "empty"}
    status, _, errors = longtail(*(argument.format(**names) for argument in arguments))
    assert status == 1, errors
    assert message.format(**names) in errors
    assert len(errors.strip().splitlines()) == 1, errors
    assert not (tmp_path / "new").exists() or not (tmp_path / "new" / "model").exists()


def test_a_line_that_cannot_be_read_is_named_wherever_lines_come_from(trained, longtail, tmp_path):
    packed = gzip.compress(b"".join(b"%d\n" % i for i in range(9_000)))
    said = "line 3: expected UTF-8 text, found byte 0xe9 at position 4; "
    for name, content, problem in (
        ("latin", b"a\nb\ncaf\xe9\nd\n", said),
        ("latin.gz", gzip.compress(b"a\nb\ncaf\xe9\nd\n"), said),
        ("broken.gz", packed[:5_000] + bytes(200) + packed[5_200:], "the gzip is broken or cut short"),
    ):
        (tmp_path / name).write_bytes(content)
        status, output, errors = longtail("predict", trained[0], "--input", tmp_path / name)
        assert (status, output, errors.count("\n")) == (1, "", 1), errors
        assert problem in errors
    status, output, errors = longtail("predict", trained[0], stdin=b"a\nb\ncaf\xe9\nd\n")
    assert (status, output, errors.count("\n")) == (1, "", 1), errors
    assert f"standard input, {said}" in errors


def test_an_option_that_may_be_left_out_is_taken_as_it_is(longtail, tmp_path, planted_folder):
    missing = tmp_path / "red, green.npy"
    status, _, errors = longtail("train", "dpr", planted_folder, "--static-vectors", missing, "--out", tmp_path / "run")
    assert status == 1
    assert str(missing) in errors
    assert len(errors.splitlines()) == 1
