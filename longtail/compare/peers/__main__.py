"""The program that trains a peer: ``python -I __main__.py RUN``, under a Python that has the peer's package.

What the peer reads lies in ``RUN/given``, with what is asked of it in ``asked.json``: the peer's file and class, its
arguments, and how many labels it is to rank. It writes its model into ``RUN/model``; its ranking and what that took go
into ``RUN/given/answer.npz`` and ``answer.json``. ``--missing DISTRIBUTION=MODULE ...`` prints the distributions that
this Python does not have.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent


class _Isolated(MetaPathFinder):
    """Finds the files of this folder as ``longtail.compare.peers``, and hides all else of longtail, even installed."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG002
        if fullname.partition(".")[0] != "longtail":
            return None
        package, _, name = fullname.rpartition(".")
        file = HERE / f"{name}.py"
        if package != "longtail.compare.peers" or not file.exists():
            raise ModuleNotFoundError(f"a peer runs without longtail, and {fullname} is part of it", name=fullname)
        return spec_from_file_location(fullname, file)


def isolate() -> None:
    """Let this folder's files and the one about memory be found, and nothing else of longtail."""
    sys.meta_path.insert(0, _Isolated())
    for name in ("longtail", "longtail.compare", "longtail.compare.peers"):
        module = ModuleType(name)
        module.__path__ = []
        sys.modules[name] = module
    _read("longtail.memory", HERE.parents[1] / "memory.py")


def _read(name: str, path: Path) -> ModuleType:
    """The module in a file."""
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(run: Path) -> None:
    """Train the peer of a run folder, and rank the test set with it."""
    from longtail.compare.peers.base import Given, Peer  # noqa: PLC0415 - once `isolate` has let it be found
    from longtail.memory import peak_bytes  # noqa: PLC0415

    asked = json.loads((run / "given" / "asked.json").read_text(encoding="utf-8"))
    peer: Peer = getattr(_read("peer", Path(asked["file"])), asked["class"])(**asked["arguments"])
    if peer.package is not None:
        import_module(peer.package[1])  # so that it is not in the time
    start = time.perf_counter()
    predict = peer(Given(run / "given", asked["depth"]), run / "model")
    seconds, peak = time.perf_counter() - start, peak_bytes()
    start = time.perf_counter()
    ranking = predict()
    took = time.perf_counter() - start
    np.savez(run / "given" / "answer.npz", ids=ranking.ids, scores=ranking.scores)
    packages = ["numpy", "scipy", *([] if peer.package is None else [peer.package[0].partition("[")[0]])]
    answer = {
        "seconds": seconds,
        "peak_memory": peak,
        "peak_gpu_memory": _peak_gpu_bytes(),
        "prediction_seconds": took,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
    }
    (run / "given" / "answer.json").write_text(json.dumps(answer), encoding="utf-8")


def _peak_gpu_bytes() -> int:
    """The most that PyTorch has held on a GPU, where it is in use."""
    torch = sys.modules.get("torch")
    return torch.cuda.max_memory_allocated() if torch is not None and torch.cuda.is_available() else 0


def missing(packages: Sequence[str]) -> list[str]:
    """The distributions that this Python does not have, of ``distribution=module`` pairs."""
    pairs = [package.split("=") for package in packages]
    return [distribution for distribution, module in pairs if find_spec(module.partition(".")[0]) is None]


if __name__ == "__main__":
    if sys.argv[1] == "--missing":
        print("\n".join(missing(sys.argv[2:])))
    else:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        isolate()
        main(Path(sys.argv[1]))
