from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from longtail.cli.data import data_app
from longtail.data.dataset import Dataset, Propensity
from longtail.data.graph import Graph
from longtail.data.holdout import rows_at_random, rows_to_hold_out
from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Strings
from longtail.errors import BadInput
from longtail.testing.planted import planted

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *arguments: CliRunner().invoke(data_app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    planted(0, documents=600, test_documents=100, labels=120).dataset.write(tmp_path / "planted")
    return tmp_path / "planted"


def failure(result: Result) -> str:
    """The message of the problem that `longtail.cli.main` prints."""
    assert result.exit_code == 1
    assert isinstance(result.exception, BadInput)
    return str(result.exception)


def test_split_writes_nothing_outside_its_folder(run: Run, folder: Path, tmp_path: Path) -> None:
    copy, below = tmp_path / "copy", tmp_path / "a" / "b"
    dataset = Dataset.read(folder)
    nodes = Strings.of(["x"])
    edges = csr_of_lists([[0]] * len(dataset.train), 1)
    replace(dataset, graphs={"tree": Graph(nodes, edges, None)}).write(copy)
    said = json.loads((copy / "dataset.json").read_text())
    said["graphs"]["../../escaped"] = said["graphs"].pop("tree")
    (copy / "dataset.json").write_text(json.dumps(said))
    assert "'../../escaped'" in failure(run("split", copy, "--out", below / "out"))
    assert not list(tmp_path.rglob("escaped*"))


def test_check_prints_warnings_and_succeeds(run: Run, tmp_path: Path) -> None:
    dataset = Dataset.from_texts(["x", "y"], [[0], [1]], ["a", "b"])
    replace(dataset, test=dataset.train, propensity=Propensity(0.5, 0.4)).write(tmp_path / "well")
    result = run("check", tmp_path / "well")
    assert (result.exit_code, result.output) == (0, "lists can be used: no errors, 0 warnings\n")
    dataset.write(tmp_path / "bare")
    result = run("check", tmp_path / "bare")
    assert result.exit_code == 0
    constants, test, count = result.output.splitlines()
    assert constants.startswith(f"warning {tmp_path}/bare/dataset.json: the propensity constants A and B are missing")
    assert test == f"warning {tmp_path}/bare: there is no test split; 'longtail data split' cuts one"
    assert count == "lists can be used: no errors, 2 warnings"


def test_check_prints_errors_and_fails(run: Run, folder: Path) -> None:
    (folder / "filter_labels_train.txt").write_text("[red]x[/]\n0 -1\n")
    result = run("check", folder)
    assert result.exit_code == 1
    first, second, count = result.output.splitlines()
    assert first == (
        f"error {folder}/filter_labels_train.txt, line 1: expected 'row label', found '[red]x[/]'; "
        "write two ids from 0, a space between"
    )
    assert second.startswith(f"error {folder}/filter_labels_train.txt, line 2: label -1 is not in [0, ")
    assert count == "2 errors"


def test_check_writes_the_filters_that_are_missing(run: Run, folder: Path) -> None:
    before = Dataset.read(folder)
    (folder / "filter_labels_test.txt").unlink()
    assert f"warning {folder}/filter_labels_test.txt: the file is missing" in run("check", folder).output
    result = run("check", folder, "--write-filters")
    assert result.exit_code == 0
    assert "filter_labels_train.txt is there already and stays as it is" in result.output
    after = Dataset.read(folder)
    assert f"filter_labels_test.txt: {after.test.filtered.nnz} identity and reciprocal pairs" in result.output
    assert after.test.filtered.nnz > 0
    assert after.fingerprint()["train.filtered"] == before.fingerprint()["train.filtered"]
    assert "filter_labels_test" not in run("check", folder).output


def test_describe(run: Run, folder: Path) -> None:
    result = run("describe", folder)
    assert result.exit_code == 0
    dataset = Dataset.read(folder)
    cells = {tuple(part.strip() for part in line.split("  ") if part.strip()) for line in result.output.splitlines()}
    assert ("documents", str(len(dataset.train)), str(len(dataset.test))) in cells
    assert ("labels", str(len(dataset.labels))) in cells
    assert any(row[:2] == ("topic", str(len(dataset.graphs["topic"].nodes))) for row in cells)


def test_describe_a_label(run: Run, folder: Path, tmp_path: Path) -> None:
    dataset = Dataset.read(folder)
    result = run("describe", folder, "--label", dataset.labels.uids[0], "--json", tmp_path / "l.json")
    assert result.exit_code == 0
    found = json.loads((tmp_path / "l.json").read_text())
    assert dataset.labels.uids[found["correlated"][0]["label"]] == found["correlated"][0]["uid"]
    assert f"({dataset.labels.uids[0]})" in result.output
    assert f"{100 * found['correlated'][0]['correlation']:.1f} %" in result.output
    assert "found nothing" in failure(run("describe", folder, "--label", "nothing"))
    assert "leave one of the two out" in failure(run("describe", folder, "--label", "x", "--report", tmp_path))


def test_import_makes_a_folder_that_can_be_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,tags\nred apple,fruit;red\npear,fruit\n")
    (tmp_path / "s.csv").write_text("name,tags\nplum,red\n")
    out = tmp_path / "mine"
    arguments = ["--separator", ";", "--title-column", "name", "--labels-column", "tags"]
    constants = ["--propensity", "0.55,1.5", "--licence", "CC0"]
    result = run("import", tmp_path / "t.csv", "--test", tmp_path / "s.csv", "--out", out, *arguments, *constants)
    assert (result.exit_code, result.output) == (0, f"wrote {out}: 2 training documents, 1 test documents, 2 labels\n")
    dataset = Dataset.read(out)
    assert (dataset.name, dataset.licence, dataset.propensity) == ("mine", "CC0", Propensity(0.55, 1.5))
    assert list(dataset.labels.fields["title"]) == ["fruit", "red"]
    np.testing.assert_array_equal(dataset.train.targets.toarray(), [[1, 1], [1, 0]])
    np.testing.assert_array_equal(dataset.test.targets.toarray(), [[0, 1]])


def test_labels_that_differ_in_case_only_are_named_and_merged(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("title,labels\nred apple,Fruit;red\npear,fruit;FRUIT\ncherry,red;Fruit;fruit\n")
    asked = ("import", tmp_path / "t.csv", "--separator", ";", "--out")
    said = "2 labels differ from another in case only, as 'Fruit' and 'fruit'; documents of the one count as wrong"
    assert said in run(*asked, tmp_path / "out").stderr
    assert said in run("check", tmp_path / "out").stdout
    merged = run(*asked, tmp_path / "merged", "--merge-case")
    assert "in case only" not in merged.output + run("check", tmp_path / "merged").output
    dataset = Dataset.read(tmp_path / "merged")
    assert list(dataset.labels.fields["title"]) == ["Fruit", "red"]
    np.testing.assert_array_equal(dataset.train.targets.toarray(), [[1, 1], [1, 0], [1, 1]])
    with_file = run(*asked, tmp_path / "more", "--merge-case", "--labels", tmp_path / "t.csv")
    assert "merge_case: expected labels that documents name, found a file of them" in failure(with_file)


def test_labels_that_differ_in_the_form_of_letters_only_are_named_and_merged(run: Run, tmp_path: Path) -> None:
    lines = "title,labels\nred apple,\uff26ruit\npear,Fruit\ncherry,\ufb01sh;Fish\n"
    (tmp_path / "t.csv").write_text(lines, encoding="utf-8")
    asked = ("import", tmp_path / "t.csv", "--separator", ";", "--out")
    said = "2 labels differ from another in case or the form of letters only, as '\uff26ruit' and 'Fruit'; documents of"
    assert said in run(*asked, tmp_path / "out").stderr
    assert said in run("check", tmp_path / "out").stdout
    assert "letters only" not in run(*asked, tmp_path / "merged", "--merge-case").output
    assert list(Dataset.read(tmp_path / "merged").labels.fields["title"]) == ["\uff26ruit", "\ufb01sh"]


@pytest.mark.parametrize(
    ("rows", "separator", "warned"),
    [
        (["a,x;y", "b,y;z", "c,z"], "|", "2 hold ';'; if that is between labels, import it again with --separator ';'"),
        (['a,"x,y"', "b,z"], ";", "1 hold ','; if"),
        (["a,x\ty", "b,y\tz"], ";", r"2 hold '\t'; if that is between labels, import it again with --separator '\t'"),
        (["a,x|y", "b,y;z"], "|", ""),
        (["a,x", "b,y"], "|", ""),
        (["a,x;y", *["b,y"] * 20], "|", ""),
    ],
)
def test_a_separator_that_no_cell_holds_is_warned_of(
    run: Run, tmp_path: Path, rows: list[str], separator: str, warned: str
) -> None:
    (tmp_path / "t.csv").write_text("\n".join(["title,labels", *rows]) + "\n")
    result = run("import", tmp_path / "t.csv", "--separator", separator, "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert result.stderr.count("\n") == bool(warned)
    assert warned in result.stderr


def test_labels_that_a_file_names_were_cut_right(run: Run, tmp_path: Path) -> None:
    """Each is one of the file, whatever is in it."""
    (tmp_path / "t.csv").write_text('title,labels\na,"Paris, France"\nb,Rome\n')
    (tmp_path / "labels.txt").write_text("Paris, France\nRome\n")
    options = ["--separator", ";", "--labels", tmp_path / "labels.txt", "--out", tmp_path / "out"]
    result = run("import", tmp_path / "t.csv", *options)
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--propensity", "0.55"],
            "propensity: expected two finite numbers A,B >= 0, found 0.55; for example 0.55,1.5",
        ),
        (["--propensity", "nan,1"], "propensity: expected two finite numbers A,B >= 0, found nan,1; for"),
        (["--encoding", "utf-9"], 'encoding: unknown encoding "utf-9"; use'),
        ([], "t.csv, line 2: expected a JSON list of labels, found 'x;y'"),
        (["--separator", ""], "separator: expected what is between labels, found an empty text; give for example"),
    ],
)
def test_a_failed_import_leaves_nothing(run: Run, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "t.csv").write_text("title,labels\na,x;y\n")
    assert message in failure(run("import", tmp_path / "t.csv", "--out", tmp_path / "out", *arguments))
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_split_cuts_a_test_split_and_leaves_the_other_out(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "cut"
    result = run("split", folder, "--out", out, "--rows", 60, "--seed", 1)
    assert result.exit_code == 0, result.exception
    before, after = Dataset.read(folder), Dataset.read(out)
    kept, held = before.holdout(rows_to_hold_out(before.train.targets, 60, 1))
    assert len(after.test) == 60
    assert after.fingerprint()["train.targets"] == kept.fingerprint()["train.targets"]
    assert list(after.test.documents.fields["title"]) == list(held.documents.fields["title"])
    wrote, lost, other = result.output.splitlines()
    assert wrote == f"wrote {out}: {len(kept.train)} training documents, 60 test documents, {len(before.labels)} labels"
    assert lost.startswith("0 labels of the new test split have no training document left")
    assert other == f"the {len(before.test)} test documents of {folder} are not in it"
    share = run("split", folder, "--out", tmp_path / "share", "--share", "0.25")
    assert f"{round(len(before.train) / 4)} test documents" in share.output


def test_a_split_says_how_many_documents_have_nothing_left_to_find(run: Run, tmp_path: Path) -> None:
    """Items that name each other in pairs: of a pair that is parted, the one that is cut has no label left."""
    items = [{"uid": str(i), "title": f"t{i}"} for i in range(40)]
    data = Dataset.from_matrix(items, csr_of_lists([[i ^ 1] for i in range(40)], 40), items)
    itself = csr_of_lists([[i] for i in range(40)], 40)
    replace(data, train=replace(data.train, filtered=itself), one_way=True).write(tmp_path / "pairs")
    result = run("split", tmp_path / "pairs", "--out", tmp_path / "cut", "--rows", 25, "--seed", 1, "--at-random")
    assert result.exit_code == 0, result.exception
    cut = set(rows_at_random(40, 25, 1).tolist())
    parted = sum(row ^ 1 not in cut for row in cut)
    assert 0 < parted < 25
    assert list(Dataset.read(tmp_path / "cut").test.documents.uids) == [str(r) for r in sorted(cut) if r ^ 1 in cut]
    said = f"{parted} documents that were cut are in neither: training has all their pairs the other way"
    assert said in result.output.splitlines()


def test_a_split_at_random_is_a_fair_sample(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "fair"
    assert run("split", folder, "--out", out, "--rows", 60, "--seed", 1, "--at-random").exit_code == 0
    before, after = Dataset.read(folder), Dataset.read(out)
    rows = rows_at_random(len(before.train), 60, 1)
    assert list(after.test.documents.fields["title"]) == list(before.train.documents.take(rows).fields["title"])
    message = "cannot hold 100000 of"
    assert message in failure(run("split", folder, "--out", tmp_path / "all", "--rows", 100_000, "--at-random"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "0"], "cannot hold 0 of"),
        (["--rows", "100000"], "cannot hold 100000 of"),
        (["--share", "1.5"], "share: expected a share between 0 and 1, found 1.5"),
        (["--rows", "5", "--share", "0.5"], "share: expected rows or a share, found both, 5 and 0.5; leave one out"),
        (["--rows", "5", "--seed", "-1"], "seed: expected a number that is at least 0, found -1"),
        (["--rows", "5", "--seed", "-1", "--at-random"], "seed: expected a number that is at least 0, found -1"),
    ],
)
def test_a_failed_split_leaves_nothing(run: Run, folder: Path, arguments: list[str], message: str) -> None:
    assert message in failure(run("split", folder, "--out", folder.parent / "out", *arguments))
    assert [path.name for path in folder.parent.iterdir()] == ["planted"]


@pytest.mark.parametrize("verb", ["split", "import"])
def test_a_folder_that_holds_something_is_refused_before_anything_is_read(run: Run, folder: Path, verb: str) -> None:
    assert "is there already, and is not empty" in failure(run(verb, folder / "nothing", "--out", folder))


@pytest.mark.parametrize("verb", ["check", "describe", "import", "split"])
def test_help(run: Run, verb: str) -> None:
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_one_line_and_status_1_in_a_process(longtail: Callable[..., tuple[int, str, str]], folder: Path) -> None:
    (folder / "trn.json.gz").write_bytes(b"broken")
    status, output, errors = longtail("data", "describe", folder)
    assert (status, output) == (1, "")
    assert errors.splitlines() == [errors.rstrip("\n")]
    assert f"{folder}/trn.json.gz: the gzip is broken or cut short somewhere after line 0" in errors


def test_a_split_without_the_filter_of_the_other(run: Run, tmp_path: Path) -> None:
    dataset = Dataset.from_texts([f"text {i}" for i in range(20)], [[i % 2] for i in range(20)], ["x", "y"])
    dataset.write(tmp_path / "lists")
    assert run("split", tmp_path / "lists", "--out", tmp_path / "cut").exit_code == 0
    cut = Dataset.read(tmp_path / "cut")
    assert (len(cut.train), len(cut.test), cut.test.filtered) == (18, 2, None)
    np.testing.assert_array_equal(
        np.sort(cut.train.targets.sum(1)), csr_of_lists([[0]] * 18, 2).sum(1)
    )  # each row keeps its label
