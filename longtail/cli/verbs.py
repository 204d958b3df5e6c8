"""The verbs of the command line, and how what goes wrong in them is said."""

from __future__ import annotations

import gc
import os
import re
import sys
from contextlib import suppress
from importlib import import_module
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TextIO

import typer
from rich.console import Console
from typer.core import TyperGroup
from typer.main import get_command, get_group

import longtail
from longtail.ending import nothing_is_left, what_remains
from longtail.errors import BadInput, LongtailError
from longtail.memory import is_out_of_memory
from longtail.units import printable

_LESS = "give it more memory, or ask for less: a lower --batch, --width or --max-length, fewer --threads, fewer lines"
_UsageError: Any = typer.BadParameter.__base__  # of click, or of the copy of it that typer brings


class _Verb(NamedTuple):
    home: str
    help: str
    panel: str


VERBS = {  # in the order of --help
    "new": _Verb(
        "new.new",
        "Ask a few questions, write the command that trains a model on your data, and offer to run it.",
        "Train",
    ),
    "train": _Verb(
        "train.train_app",
        "Train a model on a data set folder or a table, by a recipe; unidec if none is named.",
        "Train",
    ),
    "resume": _Verb("train.resume", "Go on with a run that was stopped, from its last checkpoint.", "Train"),
    "ensemble": _Verb(
        "ensemble.ensemble",
        "Rank by two trained runs at once: their scores are weighed on the documents that both held out.",
        "Train",
    ),
    "weigh": _Verb(
        "weigh.weigh",
        "Weigh the scores of a trained run anew, by what is preferred now: precision, the tail or coverage.",
        "Train",
    ),
    "distil": _Verb(
        "train.distil",
        "Train a cheap student of any trained run, which learns its scores beside the true pairs.",
        "Train",
    ),
    "rerank": _Verb(
        "rerank.rerank",
        "Rank the first labels of any trained run anew, by a cross-encoder that reads text and label together.",
        "Train",
    ),
    "plan": _Verb(
        "plan.plan_app",
        "Reckon memory, traffic, time and price of a run from its sizes, without data or training.",
        "Train",
    ),
    "predict": _Verb("predict.predict", "Rank labels for each line of a file, or for lines as they are typed.", "Use"),
    "serve": _Verb("serve.serve", "Serve a run's model over HTTP (docs/guides/serving.md), with a page at /.", "Use"),
    "labels": _Verb("labels.labels_app", "Add, remove, list and correct labels of a trained model.", "Use"),
    "index": _Verb(
        "serve.index",
        "Build an approximate index, which serve and predict then use: for 300,000 labels and more.",
        "Use",
    ),
    "export": _Verb(
        "export.export",
        "Write the transformers of a run as ONNX, which predict, serve and evaluate then use on a CPU.",
        "Use",
    ),
    "push": _Verb(
        "hub.push",
        "Push the model of a run, with a model card, to a repository of Hugging Face or another hub.",
        "Use",
    ),
    "pull": _Verb("hub.pull", "Pull a model that was pushed into a new run folder.", "Use"),
    "evaluate": _Verb("evaluate.evaluate", "Measure a trained run on the test split of its data set.", "Measure"),
    "offline": _Verb(
        "offline.offline",
        "Judge a run by records before it goes live: recall, density, coverage, what is new, judged, clicked.",
        "Measure",
    ),
    "errors": _Verb(
        "errors.errors",
        "Show where a trained run errs, and which labels of documents are likely wrong or missing.",
        "Measure",
    ),
    "runs": _Verb(
        "runs.runs",
        "List runs: recipe, data, state, epochs and, where they were evaluated, their scores; the newest last.",
        "Look",
    ),
    "show": _Verb(
        "runs.show",
        "Show a run: what it was asked, how its losses fell, what it took, its model and its evaluation.",
        "Look",
    ),
    "compare": _Verb(
        "compare.compare",
        "Train recipes and peers with several seeds each, and judge them and finished runs alike on the test split.",
        "Measure",
    ),
    "bench": _Verb("serve.bench_app", "Measure a server.", "Measure"),
    "data": _Verb("data.data_app", "Check, describe, import and split data sets.", "Look"),
    "list": _Verb(
        "tables.tables",
        "List recipes, encoders, losses, transforms, samplers, indexes, metrics, trackers and peers, a line each.",
        "Look",
    ),
}


_AT_ONCE = ("data", "new")  # their options are known without importing PyTorch


class _Verbs(TyperGroup):
    """Imports a verb when it is given: a list of them, and verbs that need no PyTorch, do not wait for it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name is None or (ctx.resilient_parsing and name not in _AT_ONCE):
            return name, command, rest  # a shell completes file names by itself, and does not wait for PyTorch
        gc.disable()  # what is imported stays: to look through it again and again takes a tenth of the start
        command = command_of(name)
        gc.freeze()
        gc.enable()
        return name, command, rest


def command_of(verb: str) -> Any:
    """The command of a verb."""
    module, _, name = VERBS[verb].home.partition(".")
    found = getattr(import_module(f"longtail.cli.{module}"), name)
    if isinstance(found, typer.Typer):
        return get_group(found)
    single = typer.Typer(add_completion=False)
    single.command(verb)(found)
    return get_command(single)


def _not_yet() -> None:
    """Stands for a verb until it is given."""


app = typer.Typer(
    cls=_Verbs,
    help="Rank the few relevant labels of a text out of very many.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"longtail {longtail.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Nothing but what its options do."""


for _name, _verb in VERBS.items():
    app.command(_name, help=_verb.help, rich_help_panel=_verb.panel)(_not_yet)


def run() -> None:
    """Do what the arguments of this process ask for, and end it: see `longtail.cli.main`."""
    sys.stdin = sys.stdin or TextIOWrapper(BytesIO())  # where there is none
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - where there is none
    _take_every_letter(sys.stdout)
    try:
        status = app(prog_name="longtail", standalone_mode=False)
        sys.stdout.flush()
        nothing_is_left()
        sys.exit(status)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help has been printed, or is the message
            error.show()
            sys.exit(error.exit_code)
        _refuse(_of_usage(error))
    except typer.Abort:
        _refuse("stopped")
    except BrokenPipeError:  # the reader of our output has seen enough; Click and Rich end with 1 and no word, too
        _leave_output()
        sys.exit(1)
    except LongtailError as error:
        _refuse(_as_given(error))
    except (MemoryError, RuntimeError, OSError, ImportError) as error:
        if is_out_of_memory(error):
            _refuse(f"out of memory ({_first_line(error)}); {_LESS}{what_remains()}")
        if not isinstance(error, OSError):
            raise
        _leave_output()
        _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _take_every_letter(output: TextIO) -> None:
    """Have an output take text that its locale has no letters for: lines for programs are UTF-8, as files are."""
    if isinstance(output, TextIOWrapper):
        if output.isatty():
            output.reconfigure(errors="backslashreplace")
        else:
            output.reconfigure(encoding="utf-8", errors=output.errors)


def _as_given(error: LongtailError) -> str:
    """The line of an error. An option that it is of has its dashes, as it was given here."""
    verb = next(iter(sys.argv[1:]), "")
    if isinstance(error, BadInput) and error.is_argument and verb in VERBS:
        flag = f"--{error.where.replace('_', '-')}"
        if flag in _flags(command_of(verb)):
            return f"{flag}{str(error).removeprefix(error.where)}"
    return str(error)


def _flags(command: Any) -> set[str]:
    """The options of a verb and of the verbs below it."""
    below = (_flags(one) for one in getattr(command, "commands", {}).values())
    return {flag for one in command.params for flag in one.opts}.union(*below)


def _first_line(error: BaseException) -> str:
    """What an error says, without the place in torch's sources."""
    said = re.sub(r"^\[enforce .*?(?=DefaultCPUAllocator)", "", str(error).strip())
    return next(iter(said.splitlines()), type(error).__name__)[:200]


def _leave_output() -> None:
    """Have nothing more to do with an output that takes nothing, also at the end of the process."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _of_usage(error: Any) -> str:
    """One line: what is wrong with the arguments, names that are near, and where to look."""
    said = " ".join(error.format_message().split())
    command = "longtail" if error.ctx is None else error.ctx.command_path  # an option without its value knows none
    return f"{said.rstrip('.')}{'' if said.endswith('?') else '.'} See {command} --help"


def _refuse(message: str) -> None:
    Console(stderr=True).print(
        f"longtail: {printable(message)}", style="red", highlight=False, markup=False, soft_wrap=True
    )
    nothing_is_left()
    sys.exit(1)
