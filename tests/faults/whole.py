"""All faults, in many processes, with their counts: ``make faults``.

    python tests/faults/whole.py [--share 0.1] [--minutes 30] [--jobs 2] [--write docs/explanation/reliability.md]

It works in a new folder where temporary ones are, better in memory (``TMPDIR=/dev/shm``), prints what was wrong, and
exits with 1 where anything was. The table of counts replaces the one between two marks of the file to write.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.calls import Baseline, baseline, faults, judged
from faults.files import Case, Files, cases
from faults.lab import NOT_HAPPENED, VERBS, Lab, Verb
from faults.layer import Fault
from faults.power import POLICIES, judged_after_power_loss

MARKS = ("<!-- counts of make faults -->\n", "<!-- end of counts -->\n")
KINDS = ("traceback", "hangs", "silently", "left over")  # what may be wrong, as judgements begin; the rest is "other"
DRAWN = {  # of a verb, by its name or first word: kills, faults of each other kind, power losses of each policy
    "train": (56, 8, 20),
    "train ngame of a transformer": (24, 4, 4),
    "compare": (12, 2, 2),  # starts processes, which takes seconds
    "": (60, 60, 60),
}


@dataclass(frozen=True)
class Job:
    """A case and where it is counted."""

    part: str
    name: str
    judge: Callable[[Bench], str]


class Bench:
    """A lab, and what verbs do in it without faults."""

    def __init__(self, folder: Path) -> None:
        self.lab = Lab.opened(folder)
        self.files = Files(self.lab)
        self._baselines: dict[str, Baseline] = {}

    def baseline(self, verb: Verb) -> Baseline:
        """What a verb does without a fault."""
        if verb.name not in self._baselines:
            self._baselines[verb.name] = baseline(self.lab, verb)
        return self._baselines[verb.name]


def _call(verb: Verb, fault: Fault) -> Callable[[Bench], str]:
    return lambda bench: judged(bench.lab, verb, fault, bench.baseline(verb))


def _loss(verb: Verb, call: int, policy: str) -> Callable[[Bench], str]:
    return lambda bench: judged_after_power_loss(bench.lab, verb, call, policy, bench.baseline(verb))


def _file(case: Case) -> Callable[[Bench], str]:
    return lambda bench: bench.files.judged(case)


def jobs(bench: Bench, share: float) -> Iterator[Job]:
    """All cases, or a share of them."""
    draw = random.Random(0)
    for verb in VERBS:
        calls, by_kind = bench.baseline(verb).calls, defaultdict(list)
        drawn = DRAWN.get(verb.name) or DRAWN.get(verb.name.split()[0]) or DRAWN[""]
        killed, failed, lost = (round(share * count) for count in drawn)
        for what, fault in faults(verb, calls):
            by_kind[what].append(fault)
        for what, some in by_kind.items():
            for fault in draw.sample(some, min(len(some), killed if what == "killed" else failed)):
                yield Job(what, f"{verb.name}, call {fault.target}", _call(verb, fault))
        for policy in POLICIES:
            for i in range(lost):
                call = calls + 1 if i == 0 else draw.randint(1, calls)
                yield Job("power loss", f"{verb.name}, call {call}, {policy}", _loss(verb, call, policy))
    for case in cases(bench.lab):
        if share == 1 or draw.random() < share:
            part = f"a file: {'flipped' if 'flipped' in case.damage.name else case.damage.name}"
            yield Job(part, f"{case.reader.name}, {case.path} {case.damage.name}", _file(case))


def _done(bench: Bench, some: Sequence[Job], until: float) -> list[tuple[Job, str]]:
    found = []
    for done, job in enumerate(some):
        if time.monotonic() > until:
            break
        if done % 1000 == 999:
            print(f"{done + 1:,} of {len(some):,}", flush=True)
        try:
            said = job.judge(bench)
        except Exception as error:  # noqa: BLE001  (of the lab, or of an answer that cannot be had: it is told, too)
            said = f"no answer: {error!r}"
        if said and said != NOT_HAPPENED:
            print(f"{job.part}: {job.name}: {said[:600]}", flush=True)
        found.append((job, said))
    return found


def table(found: Sequence[tuple[Job, str]], seconds: float) -> str:
    """The counts, in Markdown."""
    rows, wrong = Counter(), defaultdict(Counter)
    for job, said in found:
        if said == NOT_HAPPENED:
            continue
        rows[job.part] += 1
        if said:
            wrong[job.part][
                next((kind for kind in KINDS if re.match(f"(given again: |read: )?{kind}", said)), "other")
            ] += 1
    head = ["what happens", "cases", "tracebacks", "hangs", "silently wrong", "left over", "other"]
    counts = [[part, f"{rows[part]:,}", *(str(wrong[part][kind]) for kind in (*KINDS, "other"))] for part in rows]
    total = [sum(wrong[part][kind] for part in rows) for kind in (*KINDS, "other")]
    lines = [head, ["---"] * len(head), *counts, ["**all**", f"**{rows.total():,}**", *map(str, total)]]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"{text}\nIn {seconds / 60:.0f} minutes.\n"


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the cases")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no other case is begun")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", type=Path, help="a file with a table between two marks")
    given = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, ThreadPoolExecutor(given.jobs) as threads:
        benches = list(threads.map(lambda i: Bench(Path(folder) / str(i)), range(given.jobs)))
        todo = list(jobs(benches[0], given.share))
        random.Random(1).shuffle(todo)
        print(f"{len(todo):,} cases", flush=True)
        parts = [todo[i :: given.jobs] for i in range(given.jobs)]
        until = [start + 60 * given.minutes] * given.jobs
        found = list(itertools.chain(*threads.map(_done, benches, parts, until)))
        for bench in benches:
            bench.lab.close()
    text = table(sorted(found, key=lambda pair: pair[0].part), time.monotonic() - start)
    print(text)
    if given.write:
        before, _, rest = given.write.read_text().partition(MARKS[0])
        _, _, after = rest.partition(MARKS[1])
        given.write.write_text(f"{before}{MARKS[0]}{text}{MARKS[1]}{after}")
    sys.exit(any(said not in {"", NOT_HAPPENED} for _, said in found))


if __name__ == "__main__":
    main()
