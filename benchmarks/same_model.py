"""Train one run with several numbers of processes, and say whether the models are the same, bit by bit.

    python benchmarks/same_model.py DATA [--recipe unidec] [--shards 4] [--processes 1,2,4] [-- --epochs 2 ...]

What stands behind ``--`` are options of the recipe. Exit status 1 if two models differ.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from safetensors import safe_open


def digest(model: Path) -> str:
    """The SHA-256 of all arrays of a model folder, by file and name."""
    found = hashlib.sha256()
    for path in sorted(model.rglob("*.safetensors")):
        with safe_open(path, "numpy") as file:
            for name in sorted(file.keys()):
                found.update(f"{path.relative_to(model)} {name}".encode())
                found.update(file.get_tensor(name).tobytes())
    return found.hexdigest()


def main() -> int:
    """Print a line for each number of processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--recipe", default="unidec")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--processes", default="1,2,4")
    o, rest = parser.parse_known_args()
    options = [option for option in rest if option != "--"]
    found = set()
    for count in map(int, o.processes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(count), "-m"]
            command = [sys.executable, "-m", *(launcher if count > 1 else []), "longtail", "train", o.recipe, o.data]
            command += [
                "--out",
                f"{folder}/run",
                "--shards",
                str(o.shards),
                "--threads",
                "1",
                *options,
            ]
            since = time.monotonic()
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
            found.add(found_here := digest(Path(folder) / "run" / "model"))
            seconds = time.monotonic() - since
            print(f"{count} processes, {o.shards} shards: {found_here[:16]}, {seconds:.0f} s", flush=True)
    print("the models are the same, bit by bit" if len(found) == 1 else f"{len(found)} models differ")
    return len(found) != 1


if __name__ == "__main__":
    sys.exit(main())
