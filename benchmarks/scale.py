"""How time and memory grow with the labels: a recipe, from the folder to the evaluated model, on sets of several sizes.

    python benchmarks/scale.py OUT SET [SET ...] [--recipe unidec] [--threads 2] [--sample 20000]
                               [--peer-python peers/bin/python]
    python benchmarks/scale.py OUT --keep NAME

Each set is trained and evaluated in processes of their own, of which the system says what they took; the parts of a
training run are those of its log. With --peer-python, PECOS XR-Linear (libpecos) is trained on the same sets. Figures
are written to OUT/scale.json, where those of sets that are there already stay, and printed; exponents are those of a
straight line through the logarithms of the labels and of processor seconds (time of the clock, for the peer). With
--keep, they become the table NAME of `benchmarks/tables.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from longtail.files import read_json
from longtail.train.log import LOG, read_log

RESULTS = Path(__file__).parent / "results"


def taken(command: Sequence[str], threads: int) -> dict[str, float]:
    """What ``longtail`` takes with some arguments: seconds, processor seconds and the most bytes."""
    start = time.monotonic()
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    process = subprocess.Popen([sys.executable, "-m", "longtail", *command], env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"longtail {' '.join(command)} failed")
    return {
        "seconds": round(time.monotonic() - start, 1),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_memory": 1024 * usage.ru_maxrss,
    }


def measured(data: str, run: Path, recipe: str, threads: int, sample: int | None) -> dict[str, Any]:
    """The size of a set, and what training and evaluation take; of so many test documents, or all of them."""
    found: dict[str, Any] = {"training": taken(["train", recipe, data, "--out", str(run)], threads)}
    page, some = run / "scale-evaluation.json", [] if sample is None else ["--sample", str(sample)]
    found["evaluation"] = taken(["evaluate", str(run), "--json", str(page), *some], threads)
    judged, log = json.loads(page.read_text(encoding="utf-8")), read_log(run / LOG)
    plan = next(line["plan"] for line in log if "plan" in line)
    searches = [line for line in log if "search" in line]
    return {
        "documents": plan["stages"][-1]["rows"],
        "labels": plan["stages"][-1]["labels"],
        **found,
        "evaluated": judged["n"],
        "memory": "memory" in judged["kinds"],
        "parts": next(line["parts"] for line in reversed(log) if "parts" in line),
        "searches": [{key: line[key] for key in ("search", "cells", "probes", "recall", "share")} for line in searches],
        "planned_seconds": plan["seconds"],
        "planned_memory": plan["memory"],
    }


def of_peer(data: str, folder: Path, python: str) -> dict[str, Any]:
    """What PECOS takes, in seconds of the clock and bytes."""
    command = ["compare", data, "--peers", "pecos", "--peer-python", python, "--seeds", "1", "--out", str(folder)]
    subprocess.run([sys.executable, "-m", "longtail", *command], check=True)
    (run,) = read_json(folder / "results.json", remedy="compare again")["rows"]["pecos"]["runs"]
    return {name: run[name] for name in ("seconds", "peak_memory") if name in run}


def named(kept: Mapping[str, Any], size: Mapping[str, Any]) -> str:
    """What a table calls one size of what was kept: the recipe, its threads and the labels."""
    return f"`{kept['recipe']}`, {kept['machine'].partition(',')[0]}: {size['labels']:,} labels"


def exponent(labels: Sequence[int], values: Sequence[float]) -> float:
    """Of the power of the labels that values grow with."""
    return round(float(np.polyfit(np.log(labels), np.log(values), 1)[0]), 2) + 0.0  # no -0.0


def table(sizes: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The rows of a table: parts, what they take at each size, and the exponent; head first."""
    labels, names = [size["labels"] for size in sizes], dict.fromkeys(name for size in sizes for name in size["parts"])
    rows = [["processor seconds", *(f"{count:,} labels" for count in labels), "exponent"]]

    def add(name: str, values: Sequence[float], form: str) -> None:
        there = [(count, value) for count, value in zip(labels, values, strict=True) if value]
        cells = [form.format(value) if value else "" for value in values]
        grows = len({count for count, _ in there}) > 1
        rows.append([name, *cells, f"{exponent(*zip(*there, strict=True)):.2f}" if grows else ""])

    for name in names:
        add(name, [size["parts"].get(name, {}).get("processor_seconds", 0) for size in sizes], "{:,.0f}")
    for name in ("training", "evaluation"):
        add(f"{name}, whole process", [size[name]["processor_seconds"] for size in sizes], "{:,.0f}")
    rows.append(["test documents of it", *(f"{size['evaluated']:,}" for size in sizes), ""])
    both = [sum(size[name]["seconds"] for name in ("training", "evaluation")) for size in sizes]
    add("both, minutes of the clock", [seconds / 60 for seconds in both], "{:.1f}")
    for name in ("training", "evaluation"):
        add(f"peak of {name}, GiB", [size[name]["peak_memory"] / 2**30 for size in sizes], "{:.1f}")
    shares = [max((100 * search["share"] for search in size["searches"]), default=100.0) for size in sizes]
    rows.append(["most products of a search, %", *(f"{share:.1f}" for share in shares), ""])
    if any("pecos" in size for size in sizes):
        add("PECOS, seconds of the clock", [size.get("pecos", {}).get("seconds", 0) for size in sizes], "{:,.0f}")
        memory = [size.get("pecos", {}).get("peak_memory", 0) / 2**30 for size in sizes]
        add("PECOS, peak, GiB", memory, "{:.1f}")
    return rows


def main() -> None:
    """Measure sets one by one, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--recipe", default="unidec")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--sample", type=int)
    parser.add_argument("--peer-python")
    parser.add_argument("--keep")
    given = parser.parse_args()
    path = given.out / "scale.json"
    given.out.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"sizes": {}}
    machine = f"{given.threads} thread{'s' * (given.threads != 1)}, {platform.machine()}"
    found |= {"recipe": given.recipe, "date": datetime.now(timezone.utc).date().isoformat(), "machine": machine}
    for data in given.sets:
        name = Path(data).name
        if name not in found["sizes"]:
            found["sizes"][name] = measured(data, given.out / name, given.recipe, given.threads, given.sample)
        if given.peer_python and "pecos" not in found["sizes"][name]:
            found["sizes"][name]["pecos"] = of_peer(data, given.out / f"{name}-pecos", given.peer_python)
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sizes = sorted(found["sizes"].values(), key=lambda size: size["labels"])
    for row in table(sizes):
        print(f"{row[0]:32s}" + "".join(f"{cell:>18s}" for cell in row[1:]))
    if given.keep:
        kept = {"scale": table(sizes), **{key: found[key] for key in ("recipe", "date", "machine")}, "sizes": sizes}
        (RESULTS / f"{given.keep}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
