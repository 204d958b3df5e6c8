"""What a recipe shows of its options: to Python, and in its docstring."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any, get_type_hints

from longtail.data.dataset import Dataset
from longtail.options import options_of


def signature(options: type, made: Any) -> inspect.Signature:
    """Of a recipe: its options as keyword-only arguments."""
    hints, positional = get_type_hints(options), inspect.Parameter.POSITIONAL_OR_KEYWORD
    defaults = {"out": None} | {name: known.default for name, known in options_of(options).items()}
    given = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in defaults.items()
    ]
    first = inspect.Parameter("dataset", positional, annotation=Dataset)
    return inspect.Signature([first, *given], return_annotation=made)


def arguments(options: type) -> str:
    """The section of a docstring on the arguments."""
    lines = {"dataset": "its training documents and labels; the test split is not read"}
    lines["out"] = "the run folder, for checkpoints, the log and the model; nothing is written if left out"
    lines |= {name: known.about for name, known in options_of(options).items()}
    wrapped = (
        textwrap.fill(f"{name}: {about}.", 112, initial_indent="    ", subsequent_indent="        ")
        for name, about in lines.items()
    )
    return "Args:\n" + "\n".join(wrapped)
