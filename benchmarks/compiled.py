"""Seconds of one training step of a transformer, as it is and through `torch.compile`, side by side.

Both take the steps of `benchmarks/transformer_step.py` in turns, on the same titles, padded to the longest of a batch
as in training. Printed are what compiling took and the medians of the steps after it. Needs what that script needs, and
a C++ compiler.

    python benchmarks/compiled.py ../shared/data/MSDocs-SeeAlso --threads 1
"""

from __future__ import annotations

import torch
from transformer_step import WARM_UP, Seconds, arguments_of, now, our_step, read_pairs, record

from longtail.modules.encoders.transformer import TransformerEncoder


def main() -> None:
    """Take steps in turns, and print their medians."""
    given = arguments_of(__doc__)
    torch.set_num_threads(given.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    count = given.batch * (given.steps + WARM_UP)
    documents, labels, label_of = read_pairs(given.data, count, given.seed)

    steps, seconds = [], (Seconds(), Seconds())
    for through_it in (False, True):
        encoder = TransformerEncoder(given.model, max_length=given.max_length).to(device)
        if through_it:
            encoder.compile_layers()
        steps.append(our_step(encoder.train(), documents, labels, label_of, given.batch, given.learning_rate))
    for s in range(given.steps + WARM_UP):
        for step, spent in zip(steps, seconds, strict=True):
            begin = now()
            step(s)
            record(spent, begin)
        if s < WARM_UP:
            print(
                f"step {s + 1}: as it is {seconds[0].wall[-1]:.1f} s, compiled {seconds[1].wall[-1]:.1f} s", flush=True
            )
    plain, compiled = (spent.summary() for spent in seconds)
    print(f"{given.model}, batch {given.batch}, {given.steps} steps, {given.threads} threads, {device.type}")
    for name, (median, _, processor) in (("as it is", plain), ("compiled", compiled)):
        print(f"a step {name}: {median:.2f} s, {processor:.2f} s of the processor")
    print(f"compiling took {sum(seconds[1].wall[:WARM_UP]) - WARM_UP * compiled[0]:.0f} s")


if __name__ == "__main__":
    main()
