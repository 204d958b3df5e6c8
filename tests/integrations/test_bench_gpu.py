"""``make bench-gpu``: what it would run, and, on a CPU with a tiny model, that it goes on where it ended."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from longtail.compare.methods import Method
from longtail.testing.planted import planted, planted_links

SMALL = "epochs=1,batch=32,max_length=8,device=cpu"


@pytest.fixture(scope="module")
def gpu():
    spec = spec_from_file_location("gpu", Path(__file__).parents[2] / "benchmarks" / "gpu.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_recipe_is_run_with_every_encoder_and_those_of_graphs_where_there_is_one(gpu):
    rows = gpu.methods(["minilm", "folder/mpnet"], "epochs=2", enrich="links")
    found = [(method.label, method.recipe, method.arguments) for method in map(Method.parse, rows)]
    assert [row[:2] for row in found] == [
        (f"{encoder}-{recipe}", recipe)
        for encoder in ("minilm", "mpnet")
        for recipe in ("unidec", "ngame", "ramen", "oak")
    ]
    assert found[4][2] == {"encoder": "folder/mpnet", "random_negatives": 0, "positives": 1, "epochs": 2}
    assert found[3][2] == {"encoder": "minilm", "random_negatives": 0, "enrich": "links", "epochs": 2}
    assert len(gpu.methods(["minilm"], "", enrich=None)) == 2


def test_a_dry_run_plans_each_also_of_data_with_several_graphs(gpu, tiny_bert, tmp_path, capsys):
    data = planted_links(0, documents=80, labels=30).dataset
    (graph,) = data.graphs.values()
    replace(data, graphs=data.graphs | {"other": graph}).write(tmp_path / "data")  # OAK wants to be told which one
    gpu.main([str(tmp_path / "data"), "--encoders", str(tiny_bert), "--options", SMALL, "--dry-run"])
    said = capsys.readouterr().out
    assert said.count("peak memory") == 4
    assert [said.count(f"{tiny_bert.name}-{recipe}") for recipe in ("unidec", "ngame", "ramen", "oak")] == [1] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.slow
def test_a_call_ends_in_time_and_the_next_goes_on(gpu, tiny_bert, tmp_path, capsys, monkeypatch):
    data = planted(0, documents=120, test_documents=20, labels=30).dataset
    replace(data, graphs={}).write(tmp_path / "data")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "checks.txt").write_text("2 passed")
    given = [str(tmp_path / "data"), "--encoders", str(tiny_bert), "--out", str(tmp_path / "out"), "--options", SMALL]
    monkeypatch.setattr(gpu, "GRACE", 5)
    gpu.main([*given, "--minutes", "0.1"])
    assert "0 of 2 runs are done; give the same command again to go on" in capsys.readouterr().out
    gpu.main(given)
    assert "2 of 2 runs are done: " in capsys.readouterr().out
    table = (tmp_path / "out" / "bench-gpu.md").read_text()
    assert "# Transformers on " in table
    assert "Checks: 2 passed" in table
    assert f"{tiny_bert.name}-ngame" in table
