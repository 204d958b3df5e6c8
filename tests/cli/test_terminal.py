"""What a text of others holds is shown on a terminal, and never obeyed: no escape sequences, no lines of its own."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from longtail.cli.data import data_app
from longtail.cli.labels import labels_app
from longtail.data.dataset import Dataset
from longtail.errors import BadInput, LongtailError, NotWritten
from longtail.model.label_set import LabelSet, NewLabel
from longtail.serve.telemetry import JsonLines
from longtail.units import printable

HOSTILE = "\x1b[2J\x1b]0;title\x07\x9b31m\r\nlongtail: all is well \x7f\x08\u2028\u202ekcart [red]x[/red] [/]"
OBEYED = {chr(code) for code in (*range(10), *range(11, 32), *range(127, 160), 0x2028, 0x2029, 0x202E, 0x2066)}


def assert_shown(output, lines):
    assert not OBEYED & set(output)
    assert len(output.splitlines()) == lines
    assert "\\u001b[2J" in output


def test_a_text_is_one_line_that_nothing_obeys():
    assert printable("red shoes, Schuhe, 靴 👩‍👧") == "red shoes, Schuhe, 靴 👩‍👧"
    assert printable("\x1b[31m\n\x9b\u2028\u202e") == "\\u001b[31m\\u000a\\u009b\\u2028\\u202e"
    text = json.dumps(HOSTILE, ensure_ascii=False)
    assert json.loads(printable(text)) == HOSTILE
    assert_shown(printable(HOSTILE), 1)


@pytest.mark.parametrize("table", [True, False], ids=["for people", "JSON lines"])
def test_ranked_labels(run, table, longtail):
    label_set = LabelSet(run, device="cpu")
    label_set.add([NewLabel(f"hostile {HOSTILE}", HOSTILE, [{"title": HOSTILE}])])
    label_set.close()
    given = json.dumps({"title": HOSTILE})
    status, output, errors = longtail("predict", run, "--k", 1, *(["--table"] if table else []), stdin=given)
    assert (status, errors) == (0, "")
    assert_shown(output, 3 if table else 1)  # the title is wrapped at the width of the terminal


def test_lines_for_programs_are_utf_8_whatever_the_locale(run):
    label_set = LabelSet(run, device="cpu")
    label_set.add([NewLabel("greek", "Ωμέγα, 靴 👩‍👧")])
    label_set.close()
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "longtail", "labels", "find", str(run), "greek"]
    done = subprocess.run(command, capture_output=True, env=plain, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.decode()) == {"uid": "greek", "text": "Ωμέγα, 靴 👩‍👧"}


def test_labels_that_are_listed_can_be_added_again(run, tmp_path):
    label_set = LabelSet(run, device="cpu")
    label_set.add([NewLabel(HOSTILE, HOSTILE, [{"title": HOSTILE}])])
    label_set.close()
    listed = CliRunner().invoke(labels_app, ["list", str(run)]).output
    assert_shown(listed, 1)
    for content in (listed, json.dumps(json.loads(listed), ensure_ascii=False) + "\n"):
        (tmp_path / "labels.jsonl").write_text(content, encoding="utf-8")
        added = CliRunner().invoke(labels_app, ["add", str(run), "--input", str(tmp_path / "labels.jsonl")])
        assert added.exit_code == 0, added.exception
        assert CliRunner().invoke(labels_app, ["list", str(run)]).output == listed


@pytest.mark.parametrize("content", [b"\xff\n", b"[" * 50_000, b'{"uid": 1, "text": "x"}', b'{"uid": "x"}', b"[]"])
def test_labels_that_are_none_are_refused_in_one_line(run, tmp_path, content):
    (tmp_path / "labels.jsonl").write_bytes(content)
    found = CliRunner().invoke(labels_app, ["add", str(run), "--input", str(tmp_path / "labels.jsonl")])
    assert isinstance(found.exception, BadInput)
    assert "labels.jsonl, line 1: " in str(found.exception)


@pytest.mark.parametrize("verb", ["check", "describe"])
def test_a_data_set(tmp_path, verb):
    texts = [{"title": HOSTILE, "uid": HOSTILE}, {"title": "pear", "uid": "pear"}]
    dataset = Dataset.from_texts(texts, [[0], [1]], texts)
    dataset.write(tmp_path / "data")
    said = {"name": HOSTILE, "description": HOSTILE, "licence": HOSTILE, "encoding": "utf-8", "graphs": {}}
    (tmp_path / "data" / "dataset.json").write_text(json.dumps(said))
    found = CliRunner().invoke(data_app, [verb, str(tmp_path / "data")])
    assert found.exit_code == 0
    assert not OBEYED & set(found.output)
    assert "\\u001b[2J" in found.output


def test_errors():
    name = f"data/{HOSTILE}"
    for error in (
        BadInput(name, HOSTILE, remedy=HOSTILE),
        NotWritten(name, OSError(28, HOSTILE)),
        LongtailError(HOSTILE),
    ):
        assert_shown(str(error), 1)


def test_a_file_whose_name_is_hostile(longtail, tmp_path):
    status, output, errors = longtail("data", "check", tmp_path / HOSTILE)
    assert (status, errors) == (1, "")
    assert_shown(output.partition("\n")[0], 1)
    status, output, errors = longtail("data", "describe", tmp_path / HOSTILE)
    assert (status, output) == (1, "")
    assert_shown(errors, 1)


def test_a_log_has_a_line_for_each_event():
    record = logging.LogRecord("longtail.serve", logging.WARNING, "", 0, HOSTILE, (), None)
    setattr(record, "with", {"path": HOSTILE})
    assert_shown(JsonLines().format(record), 1)
