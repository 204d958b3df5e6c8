"""What a machine with a card does: its checks, and transformers trained by four recipes, some minutes of it at a time.

    python benchmarks/gpu.py DATA [--encoders minilm FOLDER ...] [--enrich GRAPH] [--out runs/bench-gpu] [--minutes 9]
        [--dry-run]

Each call works for so many minutes at most, and the same call goes on where the last one ended, until it says that all
is done: first the checks that are marked for a GPU, then each recipe with each encoder (`longtail compare`, whose
``report.html`` is in the same folder). ``bench-gpu.md`` has the card and the tables of what there is so far. RAMEN and
OAK want a data set with a graph, and are left out for one without; of several, ``--enrich`` says whose nodes OAK reads,
else it is the first. ``--dry-run`` plans each run on this machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

import longtail
from longtail.compare.methods import Method
from longtail.data.dataset import Dataset
from longtail.files import read_json
from longtail.recipes import RECIPES
from longtail.train.log import Log
from longtail.train.plan import Planned
from longtail.train.run import Run

ROOT = Path(__file__).parent.parent
OF_GRAPHS = ("ramen", "oak")
RECIPE_OPTIONS = {"unidec": "positives=1", "ngame": "", "ramen": ""}  # a transformer reads few labels a step
OPTIONS = "random_negatives=0"
LONGEST = "24h"  # of a run: with a budget, checkpoints are two minutes apart
GRACE = 30  # seconds in which a process ends that is told to


def methods(encoders: Sequence[str], options: str, *, enrich: str | None) -> list[str]:
    """Each recipe with each encoder, as ``longtail compare`` takes it; without a graph, those that need none."""
    own_options = RECIPE_OPTIONS | {"oak": f"enrich={enrich}"}
    return [
        f"{Path(encoder).name}-{recipe}={recipe}:"
        + ",".join(filter(None, (f"encoder={encoder}", OPTIONS, own, options)))
        for encoder in encoders
        for recipe, own in own_options.items()
        if enrich is not None or recipe not in OF_GRAPHS
    ]


def within(command: Sequence[str], seconds: float) -> bool:
    """Run a command; whether it came to its end before it was told to."""
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        process.wait(max(1.0, seconds))
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
        return False
    return True


def checked(out: Path, seconds: float) -> str | None:
    """The last line of the checks for a GPU, which are run once; None where they did not come to an end in time."""
    said = out / "checks.txt"
    if not said.exists():
        command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
        try:
            ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        said.write_text(ran.stdout, encoding="utf-8")
    return said.read_text(encoding="utf-8").strip().splitlines()[-1]


def table(out: Path, checks: str) -> str:
    """The card, the checks, and the tables of the comparison."""
    card = torch.cuda.get_device_name() if torch.cuda.is_available() else "no card: a CPU"
    tables = out / "results.md"
    return "\n".join(
        [
            f"# Transformers on {card}",
            f"longtail {longtail.__version__}, torch {torch.__version__}, CUDA {torch.version.cuda}. Checks: {checks}",
            tables.read_text(encoding="utf-8") if tables.exists() else "No run is done yet.",
        ]
    )


def plans(data: Path, rows: Sequence[str]) -> None:
    """Plan each run, and do nothing."""
    dataset = Dataset.read(data)
    for method in map(Method.parse, rows):
        run = Run(log=Log(None, Console()), dry=True)
        run.log.say(method.text)
        try:
            RECIPES[method.recipe](dataset, out=run, **method.arguments)
        except Planned:
            continue


def main(given: Sequence[str] | None = None) -> None:
    """Go on for some minutes, and say what is left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoders", nargs="+", default=["minilm"])
    parser.add_argument("--enrich", help="the graph whose nodes OAK reads; the data set's first by default")
    parser.add_argument("--out", type=Path, default=Path("runs/bench-gpu"))
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--options", default="", help="of every run, as epochs=1,batch=16")
    parser.add_argument("--dry-run", action="store_true")
    o = parser.parse_args(given)
    end = time.monotonic() + 60 * o.minutes - GRACE
    data, out = o.data.resolve(), o.out.resolve()
    rows = methods(o.encoders, o.options, enrich=o.enrich or next(iter(Dataset.read(data).graphs), None))
    if o.dry_run:
        plans(data, rows)
        return
    out.mkdir(parents=True, exist_ok=True)
    checks = checked(out, end - time.monotonic())
    command = [sys.executable, "-m", "longtail", "compare", str(data), *rows, "--out", str(out), "--seeds", "1"]
    if checks is not None:
        within([*command, "--budget", LONGEST], end - time.monotonic())
    (out / "bench-gpu.md").write_text(table(out, checks or "not done in time"), encoding="utf-8")
    results = out / "results.json"
    done = len(read_json(results, remedy="remove it")["rows"]) if results.exists() else 0
    left = "" if done == len(rows) else "; give the same command again to go on"
    print(f"{done} of {len(rows)} runs are done{left}: {out / 'bench-gpu.md'}")


if __name__ == "__main__":
    main()
