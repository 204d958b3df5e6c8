"""A server for hours: requests at a steady rate, labels that come and go, reloads, compactions; is its memory flat?

    OMP_NUM_THREADS=1 python benchmarks/soak.py RUN --pin 1 --pin-load 0 --json soak.json
    # --minutes 60 --rate 100 --changes 10 --reload 30 --compact 60, unless others are given

Linux only. RUN is left as it is: a link leads to one of two copies of it, is moved to the other every ``--reload``
seconds, and the run behind it is compacted every ``--compact`` seconds by another process. ``--pin 1 --pin-load 0``
keeps server and compactions on one core, and what sends on another. The load is the open loop of ``longtail bench
serve``, begun anew each minute, so that labels are added that were removed before.

A table has a row a minute. Memory is the median of its samples, 5 s apart, of all processes of the server, and in the
JSON of each: resident, and private, which is without the pages of mapped files. In ``behind`` are removals of labels
that were added to the run that the link has left meanwhile, which are answered with 404, as they must be; files are
open descriptors but those of connections, the sockets.

The verdict: no error of a request and none in the server's log but those; every reload and compaction done; and flat
private memory and files, after the first ten minutes or third of the run. Memory is flat where the last third of
the minutes has at most 1 % or 2 MiB more than the second (means), and the slope is either not above 0 (its 95 %
interval, of a line through the minutes, reaches down to 0) or under 1 % an hour. The status is 1 where it fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from soaked_server import Sample, Server

from longtail.serve.load_test import LoadTest, Result, run

SAMPLES = 12  # a minute
LATE = 5.0  # seconds after which a change of the link must have been taken up, of the changes that it leaves behind
HEAD = (
    "min   p50 ms  p95 ms  p99 ms  longest  requests  errors  behind  reloads  compacted  rss MiB  private  files  "
    "sockets  cpu %"
)


@dataclass
class Minute:
    """One row of the table: milliseconds from when a prediction was due, counts, and the medians of samples, summed.

    ``behind`` are removals of labels that the run before the last reload has; reloads and compactions are those so far.
    """

    minute: int
    p50: float
    p95: float
    p99: float
    longest: float
    requests: int
    errors: dict[str, int]
    behind: int
    reloads: int
    compacted: int
    rss: float
    private: float
    files: float
    sockets: float
    cpu: float

    def row(self) -> str:
        """The minute as it is printed."""
        times = f"{self.minute:3d}  {self.p50:7.2f} {self.p95:7.2f} {self.p99:7.2f}  {self.longest:7.1f}"
        counts = f"{self.requests:8,}  {sum(self.errors.values()):6d}  {self.behind:6d}"
        done = f"{self.reloads:7d}  {self.compacted:9d}"
        held = f"{self.rss:7.1f}  {self.private:7.1f}  {self.files:5.0f}  {self.sockets:7.0f}  {self.cpu:5.0f}"
        return f"{times}  {counts}  {done}  {held}"


class Soak:
    """The load, what happens beside it, and what is seen of it.

    Args:
        server: what is asked.
        options: of the command line.
    """

    def __init__(self, server: Server, options: argparse.Namespace) -> None:
        self.server, self.options = server, options
        self.samples: list[Sample] = []
        self.minutes: list[Minute] = []
        self.problems: list[str] = []
        self.compacted = 0
        self._over = threading.Event()

    async def run(self) -> None:
        """The whole."""
        self._begin = time.monotonic()
        beside = [
            asyncio.create_task(asyncio.to_thread(self._again, seconds, action))
            for seconds, action in (
                (self.options.row / SAMPLES, self._sample),
                (self.options.reload, self.server.move),
                (self.options.compact, self._compact),
            )
            if seconds
        ]
        print(HEAD)
        loads = []
        try:
            for minute in range(self.options.minutes):
                await asyncio.sleep(max(0.0, self._begin + self.options.row * minute - time.monotonic()))
                loads.append(asyncio.create_task(self._minute(minute)))
            await asyncio.gather(*loads)
        finally:
            self._over.set()  # the end of the process waits for the threads
        await asyncio.gather(*beside)

    def _again(self, seconds: float, action: Any) -> None:
        while not self._over.wait(seconds):
            action()

    def _sample(self) -> None:
        self.samples.append(self.server.sample(time.monotonic() - self._begin))

    def _compact(self) -> None:
        if status := self.server.compact():
            self.problems.append(f"a compaction ended with {status}")
        self.compacted += 1

    async def _minute(self, minute: int) -> None:
        moves = self.server.moves
        load = LoadTest(self.server.url, rate=self.options.rate, seconds=self.options.row, changes=self.options.changes)
        results = await run(load)
        moves = self.server.moves - moves
        samples = [one for one in self.samples if minute <= one.seconds / self.options.row < minute + 1]
        if len(samples) < 2:
            self.problems.append(f"minute {minute + 1} has {len(samples)} samples, and no row")
            return
        most_behind = round(moves * LATE * self.options.changes)
        self.minutes.append(self._seen(minute, results, samples, most_behind))
        print(self.minutes[-1].row(), flush=True)

    def _seen(self, minute: int, results: Sequence[Result], samples: Sequence[Sample], most_behind: int) -> Minute:
        times = [1000 * one.seconds for one in results if one.what == "predict" and not one.error]
        behind = [one for one in results if one.what == "remove" and one.error.startswith("404")][:most_behind]
        errors = Counter(f"{one.what}: {one.error}" for one in results if one.error)
        errors -= Counter(f"{one.what}: {one.error}" for one in behind)
        held = [
            float(np.median([sum(getattr(one, name).values()) for one in samples]))
            for name in ("rss", "private", "files", "sockets")
        ]
        first, last = ((one.seconds, sum(one.cpu.values())) for one in (samples[0], samples[-1]))
        held.append(100 * (last[1] - first[1]) / (last[0] - first[0]))
        p50, p95, p99 = np.percentile(times, [50, 95, 99]).tolist() if times else [np.inf] * 3
        reloads = sum(line["event"] == "a newer model answers" for line in self.server.events())
        counts = (len(results), dict(errors), len(behind), reloads, self.compacted)
        return Minute(minute + 1, p50, p95, p99, max(times, default=np.inf), *counts, *held)


def slope(minutes: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """The slope of a line through values, an hour, and half the width of its 95 % interval."""
    x, y = np.array(minutes) / 60, np.array(values)
    if len(x) < 3:
        return 0.0, np.inf
    centred = x - x.mean()
    found = float(centred @ y / (centred @ centred))
    left = y - y.mean() - found * centred
    error = float(np.sqrt(left @ left / (len(x) - 2) / (centred @ centred)))
    return found, 1.96 * (1 + 1.5 / (len(x) - 2)) * error  # near Student's quantile


def flat(minutes: Sequence[Minute], name: str, allowed: float) -> tuple[bool, str]:
    """Whether memory or descriptors stay, and a line that says so.

    Args:
        minutes: in their order.
        name: of the attribute.
        allowed: by which the last third may be above the second, beside 1 %.
    """
    kept = minutes[min(10, len(minutes) // 3) :]
    values = [getattr(one, name) for one in kept]
    second, last = (float(np.mean(part)) for part in np.array_split([getattr(one, name) for one in minutes], 3)[1:])
    rise, width = slope([one.minute for one in kept], values)
    good = last - second <= max(allowed, 0.01 * second) and (rise - width <= 0 or rise < 0.01 * second)
    said = f"{name}: {rise:+.2f} an hour (95 %: {rise - width:+.2f} to {rise + width:+.2f}) after minute "
    said += f"{minutes[-1].minute - len(kept)}; last third {last:.1f}, second third {second:.1f}"
    return good, f"{said}: {'flat' if good else 'NOT FLAT'}"


def verdict(soak: Soak, status: int) -> tuple[bool, list[str]]:
    """Whether all is well, and what to say of it."""
    options, lines = soak.options, [*soak.problems]
    errors = sum((Counter(one.errors) for one in soak.minutes), Counter[str]())
    lines += [f"{count} x {error}" for error, count in errors.most_common(10)]
    logged = [line for line in soak.server.events() if line["level"] in ("warning", "error", "critical")]
    lines += [f"logged: {json.dumps(line)[:300]}" for line in logged[:10]]
    taken = sum(line["event"] == "a newer model answers" for line in soak.server.events())
    if options.reload and taken < max(1, soak.server.moves - 1) * options.workers:
        lines.append(f"{taken} reloads of {soak.server.moves} moves of the link by {options.workers} processes")
    if status not in (0, -15):
        lines.append(f"the server ended with {status}")
    seen = [flat(soak.minutes, name, 2.0) for name in ("private", "files") if soak.minutes]
    good = not lines and all(one for one, _ in seen)
    lines += [said for _, said in seen]
    requests = sum(one.requests for one in soak.minutes)
    lines.append(f"{requests:,} requests, {sum(errors.values())} errors: {'passed' if good else 'FAILED'}")
    return good, lines


def main() -> None:
    """Run it, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--row", type=float, default=60.0, help="seconds of a minute: fewer to try it")
    parser.add_argument("--rate", type=float, default=100.0, help="predictions a second")
    parser.add_argument("--changes", type=float, default=10.0, help="labels added a second, and as many removed")
    parser.add_argument("--reload", type=float, default=30.0, help="seconds between two moves of the link; 0: none")
    parser.add_argument("--compact", type=float, default=60.0, help="seconds between two compactions; 0: none")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--pin", type=int, help="the core of the server and of compactions")
    parser.add_argument("--pin-load", type=int, help="the core of what sends")
    parser.add_argument("--json", type=Path, help="write everything to this file as well")
    options = parser.parse_args()
    if options.pin_load is not None:
        os.sched_setaffinity(0, {options.pin_load})
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        server = Server(options.run.resolve(), Path(folder), options.workers, options.pin)
        soak = Soak(server, options)
        try:
            asyncio.run(soak.run())
        finally:
            status = server.stop()
        good, lines = verdict(soak, status)
        print("\n".join(lines))
        if options.json is not None:
            said = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
            minutes, samples = ([asdict(one) for one in some] for some in (soak.minutes, soak.samples))
            whole = {"options": said, "minutes": minutes, "samples": samples, "verdict": lines, "passed": good}
            options.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    sys.exit(not good)


if __name__ == "__main__":
    main()
