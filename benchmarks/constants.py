"""What a core of this computer, or a GPU, does in a second: the numbers that `longtail plan` reckons with.

    python benchmarks/constants.py NAME [--device cpu] [--rounds 40] > mine.json
    longtail plan unidec --documents 1e6 --labels 1e5 --device NAME --constants mine.json

Each is the median of some rounds, in processor time on a CPU and by the clock on a GPU: products of a batch and its
pool, an exact search, a pass over a matrix, rows of a table gathered, texts tokenised. What cannot be measured on one
computer (the network, and main memory for each GPU) is that of ``cpu``, or of ``h100``, in
`longtail/on_paper/machines.json`; mend it by hand.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from longtail.memory import free_memory_bytes
from longtail.on_paper.work import MACHINES
from longtail.search.exact import Exact
from longtail.text.bag import BagTokenizer

WIDTH, BATCH, POOL, ROWS = 256, 512, 3584, 350_000
TOKENS, TEXTS = 4096, 20_000


def rate(amount: float, action: Callable[[], object], device: torch.device, rounds: int) -> float:
    """So much of something a second, the median of some rounds."""
    clock, taken = (time.process_time if device.type == "cpu" else time.perf_counter), []
    for _ in range(rounds + 1):
        start = clock()
        action()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(clock() - start)
    return amount / statistics.median(taken[1:])


def measured(device: torch.device, rounds: int) -> dict[str, float]:
    """The rates, by name."""
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(device)

    x, z, table, scores = drawn(BATCH, WIDTH), drawn(POOL, WIDTH), drawn(ROWS, WIDTH), drawn(BATCH, POOL)
    ids = torch.randint(ROWS, (20_000,), generator=generator).to(device)
    index, queries = Exact(table.cpu().numpy(), device=device), drawn(2048, WIDTH).cpu().numpy()
    kind = torch.float32 if device.type == "cpu" else torch.bfloat16
    inner, outer = drawn(TOKENS, 768).to(kind), drawn(768, 3072).to(kind)
    words = np.random.default_rng(0).integers(20_000, size=(TEXTS, 2))
    texts = [" ".join(f"w{number:06d}" for number in pair) for pair in words]
    tokenizer = BagTokenizer.fit(texts)
    pairs, few = len(queries) * ROWS, max(1, rounds // 10)
    return {
        "products": rate(2 * BATCH * POOL * WIDTH, lambda: x @ z.T, device, rounds),
        "transformer": rate(2 * TOKENS * 768 * 3072, lambda: inner @ outer, device, rounds),
        "search": rate(2 * pairs * WIDTH, lambda: index.search(queries, 6), device, few),
        "streamed": rate(2 * scores.nbytes, scores.exp, device, rounds),
        "gathered": rate(2 * len(ids) * WIDTH * 4, lambda: table.index_select(0, ids), device, rounds),
        "texts": rate(len(texts), lambda: tokenizer(texts), torch.device("cpu"), few),
    }


def main() -> None:
    """Measure, and print a machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device(given.device)
    known = json.loads(MACHINES.read_text(encoding="utf-8"))["cpu" if device.type == "cpu" else "h100"]
    found: dict[str, Any] = known | {
        key: float(f"{value:.3g}") for key, value in measured(device, given.rounds).items()
    }
    found["memory"] = free_memory_bytes() if device.type == "cpu" else torch.cuda.mem_get_info(device)[1]
    found["sources"] = {"rates": f"benchmarks/constants.py on {platform.machine()}, {device}"}
    print(json.dumps({given.name: found}, indent=1))


if __name__ == "__main__":
    main()
