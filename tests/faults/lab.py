"""The lab: verbs of longtail on small folders, faults in their files and calls, and a judgement of what came of them.

A verb has an answer: what it makes, as something that can be compared. Whatever happens to it, the verb ends well and
its answer is the same, or says one line and exits with 1, or is killed. What a user then gives again, without a fault,
ends well, its answer is the same, and nothing is left over.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.layer import Fault, Mode
from faults.nursery import Ended, Nursery
from tiny_bert import write_tiny_bert

from longtail.options import options_of
from longtail.recipes import RECIPES
from longtail.stages.recipe import options_class
from longtail.testing.planted import planted

NOT_HAPPENED = "the fault did not happen"  # a judgement of a case that is none
STOPPED = {-signal.SIGKILL, 128 + signal.SIGINT, 128 + signal.SIGTERM}  # how a verb ends that was sent a signal


@dataclass(frozen=True)
class Verb:
    """A command, and how to know that it did what it should.

    Attributes:
        name: for people.
        start: the folder that it begins with, of `Lab.templates`.
        arguments: of ``longtail``.
        answer: what it made, from the lab after it.
        again: what a user does after a fault, until it is done; the same command if left out.
        reads: what a user asks of what it made, where a file may be wrong by then; none where files have no checksums.
        atomic: whether a reader sees all of it or nothing, so that after a kill the answer is the one before or after.
    """

    name: str
    start: str
    arguments: tuple[Any, ...]
    answer: Callable[[Lab], Any]
    again: Callable[[Lab], Ended] | None = None
    reads: Callable[[Lab], Ended] | None = None
    atomic: bool = False


@dataclass
class Lab:
    """A folder to work in, and folders to begin with.

    Attributes:
        folder: of all.
        nursery: runs commands.
        templates: folders to begin with, by name.
    """

    folder: Path
    nursery: Nursery
    templates: dict[str, Path] = field(default_factory=dict)

    @classmethod
    def opened(cls, folder: Path) -> Lab:
        """A lab with the templates that `VERBS` begin with."""
        (folder / "nursery").mkdir(parents=True)
        lab = cls(folder, Nursery(folder / "nursery", folder / "work"))
        for name, (start, make) in TEMPLATES.items():
            if start:
                lab.begin(start)
            else:
                lab.work.mkdir()
            make(lab)
            lab.templates[name] = folder / name
            shutil.copytree(lab.work, folder / name)
        return lab

    @property
    def work(self) -> Path:
        """The folder that commands work in."""
        return self.folder / "work"

    def begin(self, template: str) -> None:
        """Work on a copy of a template."""
        for folder in (self.work, self.nursery.temporary):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.templates[template], self.work)
        self.nursery.temporary.mkdir()

    def close(self) -> None:
        """End the nursery, and remove the folder."""
        self.nursery.close()
        shutil.rmtree(self.folder)

    def run(self, *arguments: Any, fault: Fault | None = None) -> Ended:
        """Run a command; arguments that are names of files in the folder are given as paths (``@name``)."""
        given = [str(self.work / x[1:]) if isinstance(x, str) and x.startswith("@") else x for x in arguments]
        return self.nursery.run(*given, **({} if fault is None else {"fault": fault}))

    def done(self, *arguments: Any) -> Ended:
        """Run a command that must end well."""
        ended = self.run(*arguments)
        assert ended.status == 0, (arguments, ended)
        return ended

    def repeat(self, verb: Verb) -> Ended:
        """What a user does after a fault."""
        return verb.again(self) if verb.again else self.run(*verb.arguments)

    def names(self) -> set[str]:
        """The paths of all files, and of what is in the temporary folder."""
        return {
            str(path.relative_to(folder))
            for folder in (self.work, self.nursery.temporary)
            for path in folder.rglob("*")
            if path.is_file() or folder == self.nursery.temporary
        }


# ---- what is wrong with how a command ended ----


def ill(ended: Ended, *, signalled: bool = False) -> str:
    """What is wrong with how a command ended, or nothing."""
    if ended.status is None:
        return "hangs"
    if "Traceback" in ended.errors + ended.output:
        return f"traceback: {ended.errors.strip().splitlines()[-1]}"
    lines = ended.errors.splitlines()
    if ended.status == 0:
        return ""
    if ended.status == 1 or (signalled and ended.status in STOPPED):
        if len(lines) == 1 and lines[0].startswith("longtail: "):
            return ""
        if not lines and ", failed: " in ended.output:  # as a comparison says of each run
            return ""
        if signalled and ended.status == -signal.SIGKILL:
            return "" if not lines else f"said: {ended.errors}"
        return f"status {ended.status}, and not one line: {ended.errors!r}"
    return f"status {ended.status}: {ended.errors!r}"


# ---- verbs ----


def small(recipe: str) -> tuple[Any, ...]:
    """Options with which a recipe trains in a moment, and writes a checkpoint after each step."""
    epochs = [name for name in options_of(options_class(RECIPES[recipe])) if name.endswith("epochs")]
    steps = {"width": 8, "batch": 16} if epochs else {}  # of a recipe that takes some
    given = {**dict.fromkeys(epochs, 1), **steps, "device": "cpu", "checkpoint_every": 0}
    return tuple(x for name, value in given.items() for x in (f"--{name.replace('_', '-')}", value))


def train(recipe: str, out: str, *more: Any) -> tuple[Any, ...]:
    """The arguments of a training."""
    return ("train", recipe, "@data", "--out", f"@{out}", *small(recipe), *more)


def digest(path: Path) -> dict[str, str]:
    """The hashes of the files of a folder."""
    files = (file for file in sorted(path.rglob("*")) if file.is_file())
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _model(run: str) -> Callable[[Lab], Any]:
    return lambda lab: digest(lab.work / run / "model")


def _ranked(run: str, *more: Any) -> Callable[[Lab], Ended]:
    return lambda lab: lab.run("predict", f"@{run}", "--input", "@lines.txt", "--device", "cpu", *more)


def _ranking(run: str, *more: Any) -> Callable[[Lab], Any]:
    return lambda lab: _ranked(run, *more)(lab).output


def _labels(lab: Lab) -> Any:
    """The changes of a run, and the ranking with them."""
    return lab.done("labels", "list", "@run").output, _ranking("run")(lab)


def _resumed(out: str, arguments: tuple[Any, ...]) -> Callable[[Lab], Ended]:
    def again(lab: Lab) -> Ended:
        if (lab.work / out / "run.json").exists():
            return lab.run("resume", f"@{out}", "--checkpoint-every", 0)
        return lab.run(*arguments)

    return again


def _unless_there(out: str, arguments: tuple[Any, ...]) -> Callable[[Lab], Ended]:
    """Of a command that makes a folder: it is given again where there is none."""
    there = Ended(0, "", "", 0, 0)
    return lambda lab: there if (lab.work / out / "dataset.json").exists() else lab.run(*arguments)


def _trained(recipe: str, *more: Any) -> Verb:
    arguments = train(recipe, "new", *more)
    name = f"train {recipe}{' of a transformer' if more else ''}"
    return Verb(name, "data", arguments, _model("new"), _resumed("new", arguments), _ranked("new"))


def _metrics(lab: Lab) -> Any:
    return {k: v for k, v in json.loads((lab.work / "metrics.json").read_text()).items() if "seconds" not in k}


def _compared(lab: Lab) -> Any:
    """The rankings of a comparison, and what it says of them, without times."""
    results = json.loads((lab.work / "new" / "results.json").read_text())
    (row,) = results["rows"].values()
    (rankings,) = lab.work.glob("new/runs/*/*/predictions.npz")
    return digest(rankings.parent)["predictions.npz"], row["headline"], row["bins"], results["failed"]


def _read(path: str) -> Callable[[Lab], Any]:
    return lambda lab: (lab.work / path).read_bytes()


IMPORT = ("data", "import", "@table.csv", "--out", "@new", "--test", "@table.csv", "--separator", ";")
COMPARE = ("compare", "@data", "dpr:epochs=1,width=8,batch=16,device=cpu", "--out", "@new", "--seeds", 1)
ADD = ("labels", "add", "@run", "--input", "@new.jsonl")
SPLIT = ("data", "split", "@data", "--out", "@new", "--rows", 10)
VERBS = [
    *map(_trained, RECIPES),
    _trained("ngame", "--encoder", "@bert", "--max-length", 16),
    Verb("resume", "half", ("resume", "@new", "--checkpoint-every", 0), _model("new"), None, _ranked("new")),
    Verb("ensemble", "two", ("ensemble", "@run", "@other", "--out", "@new"), _model("new"), None, _ranked("new")),
    Verb("evaluate", "run", ("evaluate", "@run", "--json", "@metrics.json", "--report", "@report"), _metrics),
    Verb(
        "predict", "run", ("predict", "@run", "--input", "@lines.txt", "--output", "@found.jsonl"), _read("found.jsonl")
    ),
    Verb("labels add", "run", ADD, _labels, None, _ranked("run"), atomic=True),
    Verb("labels add to changes", "changed", ADD, _labels, None, _ranked("run"), atomic=True),
    Verb("labels remove", "changed", ("labels", "remove", "@run", "green"), _labels, None, _ranked("run"), atomic=True),
    Verb("labels compact", "changed", ("labels", "compact", "@run"), _ranking("run"), None, _ranked("run")),
    Verb("index", "run", ("index", "@run", "--recall", 0.5), _ranking("run"), None, _ranked("run")),
    Verb("compare", "data", COMPARE, _compared),
    Verb("data import", "data", IMPORT, lambda lab: digest(lab.work / "new"), _unless_there("new", IMPORT)),
    Verb("data split", "data", SPLIT, lambda lab: digest(lab.work / "new"), _unless_there("new", SPLIT)),
]


# ---- folders to begin with ----


def _data(lab: Lab) -> None:
    planted(0, documents=80, test_documents=20, labels=40).dataset.write(lab.work / "data")
    write_tiny_bert(lab.work / "bert")
    texts = [f"red {i} fox" for i in range(8)]
    (lab.work / "lines.txt").write_text("\n".join(texts) + "\n")
    rows = [f"{i},{text},red;{'even' if i % 2 == 0 else 'odd'}" for i, text in enumerate(texts)]
    (lab.work / "table.csv").write_text("\n".join(["uid,title,labels", *rows]) + "\n")
    new = [{"uid": f"n{i}", "text": f"number {i}", "examples": texts[:i]} for i in range(3)]
    (lab.work / "new.jsonl").write_text("".join(json.dumps(x) + "\n" for x in new))


def _half(lab: Lab) -> None:
    calls = lab.run(*train("ngame", "new"), fault=Fault(Mode.COUNT)).calls
    lab.begin("data")
    ended = lab.run(*train("ngame", "new"), fault=Fault(Mode.SIGNAL, calls // 2, signal.SIGKILL))
    assert ended.status == -signal.SIGKILL, ended


def _run(lab: Lab) -> None:
    lab.done(*train("ngame", "run", "--validation", 0.2))


def _two(lab: Lab) -> None:
    lab.done(*train("siamesexml", "other", "--validation", 0.2))


def _changed(lab: Lab) -> None:
    lab.done("labels", "add", "@run", "--uid", "green", "--text", "green fox", "--example", "red 1 fox")
    lab.done("labels", "add", "@run", "--uid", "blue", "--text", "blue fox")
    lab.done("labels", "remove", "@run", "label-3", "blue")


def _indexed(lab: Lab) -> None:
    lab.done("labels", "compact", "@run")
    lab.done("labels", "add", "@run", "--uid", "late", "--text", "late fox")
    lab.done("index", "@run", "--recall", 0.5)
    lab.done("evaluate", "@run", "--json", "@run/evaluation.json")


def _cached(lab: Lab) -> None:
    lab.done(*train("ramen", "first", "--cache", "@cache"))


TEMPLATES: dict[str, tuple[str, Callable[[Lab], None]]] = {  # by name: what it begins with, and what makes it
    "data": ("", _data),
    "half": ("data", _half),
    "run": ("data", _run),
    "two": ("run", _two),
    "changed": ("run", _changed),
    "indexed": ("changed", _indexed),
    "cached": ("data", _cached),
}
