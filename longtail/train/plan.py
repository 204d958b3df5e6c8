"""What a run will cost, said before it starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from rich.table import Table
from torch import nn

from longtail.batches.loader import Loader
from longtail.data.split import Split
from longtail.errors import LongtailError
from longtail.text.tokens import PaddedTokens
from longtail.train.fit import Objective, seconds_a_step
from longtail.train.run import Run


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a training stage.

    Attributes:
        rows: training documents.
        unlabelled: how many of them have no label, or only filtered ones: losses that are defined by positives leave
            them out.
        labels: L.
        steps: steps an epoch.
        epochs: of the stage.
        batch: documents of a batch, B.
        pool: labels of its pool, P, in a typical batch.
        negatives: labels of the pool that are a document's effective negatives, on average.
        parameters: trained numbers.
        memory: estimated peak bytes of one process, on the device that trains.
        disk: bytes of the run folder: checkpoint and finished stage, each with the parameters, the first with moments.
        seconds: estimated time of an epoch, from a few steps that change nothing; None where they were not made.
    """

    rows: int
    unlabelled: int
    labels: int
    steps: int
    epochs: int
    batch: int
    pool: int
    negatives: float
    parameters: int
    memory: int
    disk: int
    seconds: float | None

    def table(self) -> Table:
        """The plan as two columns for a terminal."""
        table = Table.grid(padding=(0, 2))
        seconds = "not measured" if self.seconds is None else f"{self.seconds:,.1f} s, {self.epochs} epochs"
        for name, value in (
            ("training documents", f"{self.rows:,}" + f", {self.unlabelled:,} without a label" * (self.unlabelled > 0)),
            ("labels", f"{self.labels:,}"),
            ("batch", f"{self.batch:,} documents x a pool of {self.pool:,} labels, {self.steps:,} steps an epoch"),
            ("effective negatives", f"{self.negatives:,.0f} a document"),
            ("parameters", f"{self.parameters:,}"),
            ("peak memory", f"about {_size(self.memory)}"),
            ("disk", f"about {_size(self.disk)}"),
            ("an epoch", seconds),
        ):
            table.add_row(f"[dim]{name}[/dim]", value)
        return table


class Planned(Exception):
    """A dry run has shown its plan and is at its end."""


def announce(
    objective: Objective,
    batches: Loader,
    optimizer: torch.optim.Optimizer,
    *,
    run: Run,
    modules: Mapping[str, nn.Module],
    epochs: int,
) -> None:
    """Show what a stage will cost, before it starts, claim its run's folder, and note it in the log.

    Args:
        objective: of the stage.
        batches: of the stage.
        optimizer: of the stage; left as it was.
        run: shows the plan; a run that is already under way has shown it.
        modules: what is trained.
        epochs: of the stage.

    Raises:
        LongtailError: it needs more memory or disk than there is; the message says which settings to lower.
        Planned: the run is dry.
    """
    if run.begun():
        return
    plan = _measure(objective, batches, optimizer, modules=list(modules.values()), epochs=epochs, folder=run.folder)
    run.log.show(plan.table())
    if run.dry:
        raise Planned
    run.claim()
    run.log.write(plan=asdict(plan))


def _measure(
    objective: Objective,
    batches: Loader,
    optimizer: torch.optim.Optimizer,
    *,
    modules: Sequence[nn.Module],
    epochs: int,
    folder: Path | None,
) -> Plan:
    """Size, memory and disk from the first batch, and the time of an epoch from a few steps."""
    batch = next(iter(batches.epoch(0)))
    size, pool = len(batch.rows), batches.pool_of(batch)
    parameters = sum(parameter.numel() for module in modules for parameter in module.parameters())
    device = next(parameter.device for module in modules for parameter in module.parameters())
    tokens = [part for part in (batch.documents, batch.labels, *batch.nodes) if isinstance(part, PaddedTokens)]
    activations = sum(_activation_bytes(module, part) for module in modules for part in tokens)
    memory = resident_bytes() * (device.type == "cpu") + 4 * (3 * parameters + 6 * batch.targets.numel()) + activations
    disk = 4 * (3 + 1) * parameters
    plan = Plan(
        rows=len(batches.split),
        unlabelled=_unlabelled(batches.split),
        labels=batches.pool.targets.shape[1],
        steps=batches.steps(),
        epochs=epochs,
        batch=size,
        pool=pool,
        negatives=pool - float(((batch.targets > 0) | ~batch.mask).sum()) / size,
        parameters=parameters,
        memory=memory,
        disk=disk,
        seconds=None,
    )
    _refuse("memory", memory, free_bytes(device), "lower --batch, --random-negatives, --width or --max-length")
    if folder is not None:
        there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
        _refuse("disk", disk, shutil.disk_usage(there).free, "lower --width, or give --out on a larger disk")
    buffers = [buffer for module in modules for buffer in module.buffers()]
    before = [buffer.clone() for buffer in buffers]
    seconds = seconds_a_step(objective, batches, optimizer) * plan.steps
    for buffer, value in zip(buffers, before, strict=True):
        buffer.copy_(value)
    return replace(plan, seconds=seconds)


def _unlabelled(split: Split) -> int:
    """How many documents have no true pair that is not filtered."""
    seen = split.targets if split.filtered is None else split.targets - split.targets.multiply(split.filtered != 0)
    return int((seen.sum(1) <= 0).sum())


def _refuse(what: str, needed: int, free: int, remedy: str) -> None:
    if needed > free:
        found = f"the run needs about {_size(needed)} of {what}, and {_size(free)} are free"
        raise LongtailError(f"{found}; {remedy}")


def _size(count: int) -> str:
    """Bytes, for people."""
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"


def _activation_bytes(module: nn.Module, tokens: PaddedTokens) -> int:
    """What a transformer keeps of a batch for its backward pass (Korthikanti et al., 2022, eq. 2, 4 bytes each)."""
    configs = (getattr(part, "config", None) for part in module.modules())
    config = next((config for config in configs if hasattr(config, "num_hidden_layers")), None)
    if config is None:
        return 0
    lengths = tokens.mask.sum(1).double()  # rows of similar length are padded together, so that padding is little
    width, heads, layers = config.hidden_size, config.num_attention_heads, config.num_hidden_layers
    return int(2 * layers * (lengths * (34 * width + 5 * heads * lengths)).sum())


def resident_bytes() -> int:
    """The memory that this process holds now."""
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text(encoding="ascii").split()[1]) if statm.exists() else 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def free_bytes(device: torch.device) -> int:
    """The memory that this process can still take on a device, with what it holds already."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():  # not Linux: the whole memory is the only figure that the standard library gives
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    fields = dict(line.split(":") for line in meminfo.read_text(encoding="ascii").splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024 + resident_bytes()
