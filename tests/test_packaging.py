"""The wheel has all that is needed and nothing else, and what the project says of itself agrees."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import longtail

ROOT = Path(__file__).parents[1]


def extras() -> dict[str, set[str]]:
    """The extras of the project, and the extras of its own that each asks for."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = project.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    found = re.findall(r"^([\w-]+) = \[(.*?)\]$", table, re.MULTILINE | re.DOTALL)
    return {
        name: {one for some in re.findall(r"longtail\[([^\]]+)\]", text) for one in some.split(",")}
        for name, text in found
    }


def test_all_is_every_extra_of_a_user() -> None:
    for_others = {"all", "peers", "mlflow", "wandb", "test", "browser", "docs", "dev"}  # peers need an older NumPy
    assert extras()["all"] == extras().keys() - for_others


def test_the_version_of_a_citation_is_that_of_the_package() -> None:
    assert f"\nversion: {longtail.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_every_public_name_is_there_and_every_function_has_its_place_in_the_reference() -> None:
    reference = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
    functions = [name for name in longtail.__all__ if inspect.isfunction(getattr(longtail, name))]
    assert functions == ["distil", "ensemble", "evaluate", "export", "load", "rerank", "weigh"]
    for name in functions:
        assert f"`{name}`" in reference
        assert f"\n::: {getattr(longtail, name).__module__}.{name}\n" in reference


@pytest.mark.slow  # it builds in an environment of its own, for which packages are fetched
def test_the_wheel_installs_and_has_every_file(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "longtail").rglob("*") if path.is_file()}
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("longtail/")}
    assert inside == {name for name in package if "__pycache__" not in name}
    subprocess.run([*pip, "install", "--no-deps", "--target", str(tmp_path / "there"), str(wheel)], check=True)
    program = "import longtail, longtail.cli; print(longtail.__file__)"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'there')!r}); {program}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)
