"""What the site is built of: the pages, and those of the reference that are made of the code's own tables.

    python docs/stage.py build/docs

The pages that are made are not kept: they say what the code says on the day the site is built.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from longtail.calls import options_of_call
from longtail.cli.tables import TABLES
from longtail.cli.verbs import VERBS, command_of
from longtail.losses import LOSSES
from longtail.options import Option, options_of
from longtail.recipes import RECIPES
from longtail.serve import corrections
from longtail.serve.app import api, operation
from longtail.stages.recipe import options_class
from longtail.transforms import TRANSFORMS

DOCS = Path(__file__).parent
_MADE = "This page is made from the code when the site is built.\n"
_HOW = """`longtail train RECIPE DATA --out RUN` takes each option as `--name value`, with dashes, and a switch as
`--name` or `--no-name`; `longtail.recipes.RECIPE(dataset, out=run, name=value)` takes it as an argument, with
underscores; `longtail compare` as `RECIPE:name=value`. Options of the command itself (`--out`, `--dry-run`,
`--threads`) are on the [page of commands](commands.md#longtail-train).
"""
_KINDS = {int: "integer", float: "number", bool: "yes or no", str: "text"}


def recipes() -> str:
    """Every recipe: its own options, and the groups of options that it shares with others."""
    known = {name: options_of(options_class(recipe)) for name, recipe in RECIPES.items()}
    shared = _shared(known.values())
    parts = [f"# Recipes and their options\n\n{_MADE}", _HOW]
    for name, options in known.items():
        groups = list(dict.fromkeys(o.group for o in options.values() if o.group in shared))
        own = [o for o in options.values() if o.group not in shared]
        parts.append(f"## {name}\n\n{_prose(inspect.getdoc(RECIPES[name]) or '')}\n")
        parts.extend([_option_table(own)] if own else [])
        links = ", ".join(f"[{group}](#{anchor(group)})" for group in groups)
        parts.append(f"Shared options: {links}.\n")
        other = [o for o in options.values() if o.group in shared and o.default != shared[o.group][o.name].default]
        if other:
            said = ", ".join(f"`--{_flag(o.name)}` {_default(o) or 'left out'}" for o in other)
            parts.append(f"Defaults of its own: {said}.\n")
    parts.append("## Shared options\n\nThe default is that of most recipes; a recipe names those that differ.\n")
    parts += [f"### {group}\n\n{_option_table(options.values())}" for group, options in shared.items()]
    return "\n".join(parts)


def _shared(known: Iterable[Mapping[str, Option]]) -> dict[str, dict[str, Option]]:
    """The options of groups that several recipes have, by group and name, each with the default that most have."""
    everywhere = list(known)
    recipes_of = Counter(group for options in everywhere for group in {o.group for o in options.values()})
    found: dict[str, dict[str, Option]] = {}
    for group, count in recipes_of.items():
        if count > 1:
            names = dict.fromkeys(o.name for options in everywhere for o in options.values() if o.group == group)
            found[group] = {
                name: _usual([options[name] for options in everywhere if name in options]) for name in names
            }
    return found


def _usual(options: Sequence[Option]) -> Option:
    """The one of several recipes' options of a name whose default most of them have."""
    defaults = Counter(repr(option.default) for option in options).most_common(1)[0][0]
    return next(option for option in options if repr(option.default) == defaults)


def _option_table(options: Iterable[Option]) -> str:
    rows = [(_whole(f"--{_flag(o.name)}"), _kind(o), _default(o), _cell(o.about)) for o in options]
    return table(("option", "value", "default", "what it is"), rows)


def _kind(option: Option) -> str:
    """The type of an option for people."""
    kind = "time" if option.time else _KINDS[option.kind]
    return kind + (", several with commas" if option.several else "") + (" or `auto`" if option.auto else "")


def _default(option: Option) -> str:
    """The default of an option as it is given on a command line."""
    value = option.default
    if option.kind is bool:
        return "yes" if value else "no"
    text = ",".join(map(str, value)) if option.several and value is not None else value
    return "" if text in (None, "") else _whole(str(text))


def commands() -> str:
    """Every verb, its arguments and options."""
    parts = [f"# Commands\n\n{_MADE}", "`longtail --help`, and `--help` behind each verb, print the same.\n"]
    for verb in VERBS:
        parts += _command(f"longtail {verb}", command_of(verb))
    return "\n".join(parts)


def _command(title: str, command: Any, depth: int = 2) -> Iterator[str]:
    """A verb, and those below it; recipes have a page of their own."""
    yield f"{'#' * depth} {title}\n\n{_prose(command.help or '')}\n"
    below = getattr(command, "commands", {})
    if title == "longtail train":
        yield "Each recipe is a verb below it, with the options of its [section](recipes.md), and these:\n"
        one = below[next(iter(RECIPES))]
        known = {f"--{_flag(name)}" for name in options_of(options_class(RECIPES[next(iter(RECIPES))]))}
        yield _parameters([p for p in one.params if not known & set(p.opts)])
        return
    if own := _parameters(command.params):
        yield own
    for name, inner in below.items():
        yield from _command(f"{title} {name}", inner, depth + 1)


def _parameters(parameters: Iterable[Any]) -> str:
    rows = []
    for one in parameters:
        name = ", ".join(map(_whole, (*one.opts, *one.secondary_opts)))
        given = one.default if isinstance(one.default, (int, float, str)) and not isinstance(one.default, bool) else ""
        shown = "required" if one.required else f"`{given}`" if given != "" else ""
        rows.append((name, shown, _cell(getattr(one, "help", None) or "")))
    return table(("option or argument", "default", "what it is"), rows) if rows else ""


def kinds() -> str:
    """Every row of the other tables, with the options that a name may have."""
    parts = [f"# Encoders, losses, transforms and other kinds\n\n{_MADE}"]
    parts.append("`longtail list` prints the same. Of metrics there are [definitions](metrics.md), too.\n")
    calls: dict[str, Mapping[str, tuple[Callable[..., Any], Collection[str]]]] = {
        "losses": {name: (row.function, ("scores", "targets", "mask")) for name, row in LOSSES.items()},
        "transforms": {name: (row.function, ("dataset", "seed")) for name, row in TRANSFORMS.items()},
    }
    for kind, rows in TABLES.items():
        if kind == "recipes":
            continue
        found = []
        for name, about in rows().items():
            function = calls.get(kind, {}).get(name)
            options = {} if function is None else options_of_call(function[0], besides=function[1])
            said = ", ".join(f"`{key}={default}`" for key, (_, default) in options.items())
            found.append((f"`{name}{'@k' if kind == 'metrics' else ''}`", _cell(about), said))
        with_options = kind in calls
        header = ("name", "what it is", "options, as `name:option=value`")
        parts.append(f"## {kind.capitalize()}\n")
        parts.append(table(header if with_options else header[:2], [row if with_options else row[:2] for row in found]))
    return "\n".join(parts)


def http() -> str:
    """Every route of the server, from its OpenAPI schema."""
    app = FastAPI()
    for router in (api, corrections.api, operation):
        app.include_router(router)
    schema = app.openapi()
    parts = [f"# HTTP\n\n{_MADE}"]
    parts.append(
        "A running server has the whole schema at `/openapi.json`; how to run one: [serving](../guides/serving.md).\n"
    )
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            parts.append(
                f"## {method.upper()} {path}\n\n{_prose(route.get('description') or route.get('summary', ''))}\n"
            )
            parameters = [
                (f"`{p['name']}`", p["in"], _cell(_type(p["schema"])), _cell(p.get("description", "")))
                for p in route.get("parameters", [])
            ]
            if parameters:
                parts.append(table(("parameter", "in", "value", "what it is"), parameters))
            bodies = route.get("requestBody", {}).get("content", {}).values()
            parts.extend(f"Body: {_type(content['schema'])}.\n" for content in bodies)
            parts.append(table(("status", "answer", "body"), list(_responses(route["responses"]))))
    parts.append("## Bodies\n")
    for name, model in schema["components"]["schemas"].items():
        if not name.endswith("ValidationError"):
            parts.append(f"### {name}\n\n{_prose(model.get('description', ''))}\n")
            needed = model.get("required", ())
            rows = [
                (f"`{key}`", _cell(_type(value)), "yes" if key in needed else "", _cell(value.get("description", "")))
                for key, value in model.get("properties", {}).items()
            ]
            parts.append(table(("field", "value", "required", "what it is"), rows))
    return "\n".join(parts)


def _responses(responses: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for status, response in responses.items():
        bodies = [_type(content["schema"]) for content in response.get("content", {}).values() if content.get("schema")]
        yield status, _cell(response["description"]), _cell(", ".join(bodies))


def _type(schema: Mapping[str, Any]) -> str:
    """What a JSON schema asks for, in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{anchor(name)})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(_type(one) for one in schema[key])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}" + _bounds(schema)
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    return f"{schema.get('type', 'anything')}{_bounds(schema)}"


def _bounds(schema: Mapping[str, Any]) -> str:
    names = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "minLength": "at least",
             "maxLength": "at most", "minItems": "at least", "maxItems": "at most"}  # fmt: skip
    said = [f"{words} {schema[key]:,}" for key, words in names.items() if key in schema]
    unit = " characters" if "maxLength" in schema else ""
    return f" ({' and '.join(said)}{unit})" if said else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def anchor(title: str) -> str:
    """What a heading is called in a link."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip())


def _whole(code: str) -> str:
    """Code that no line is broken in: `docs/site.css` knows the class."""
    return f"`{code}`{{.whole}}"


def _flag(name: str) -> str:
    return name.replace("_", "-")


def _cell(text: str) -> str:
    text = re.sub(r"(?<![`\w/])docs/[\w/-]+\.md", r"`\g<0>`", " ".join(text.split()))
    return text.replace("|", "\\|").replace("<", "&lt;")


def _prose(docstring: str) -> str:
    """The paragraphs of a docstring, without its sections; pages that it names are in code, for `linked`."""
    text = re.split(r"\n\n(?:Args|Returns|Raises|Attributes):\n", docstring)[0].replace("``", "`").strip()
    return re.sub(r"(?<![`\w/])docs/[\w/-]+\.md", r"`\g<0>`", text)


MADE = {
    "reference/recipes.md": recipes,
    "reference/commands.md": commands,
    "reference/kinds.md": kinds,
    "reference/http.md": http,
}


def linked(page: str, text: str, titles: Mapping[str, str]) -> str:
    """The text of a page, in which `docs/a/b.md` is a link to that page with its title."""

    def link(match: re.Match[str]) -> str:
        path = match[1]
        if path not in titles:
            return match[0]
        return f"[{titles[path]}]({os.path.relpath(path, Path(page).parent)})"

    return re.sub(r"(?<!\[)`docs/([\w/-]+\.md)`", link, text)


def stage(out: Path) -> None:
    """Write everything that the site is built of to a folder, in place of what was there."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(DOCS, out, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for page, make in MADE.items():
        (out / page).write_text(make(), encoding="utf-8")
    texts = {path.relative_to(out).as_posix(): path.read_text(encoding="utf-8") for path in out.rglob("*.md")}
    titles = {page: text.partition("\n")[0].lstrip("# ").rstrip("?") for page, text in texts.items()}
    for page, text in texts.items():
        (out / page).write_text(linked(page, text, titles), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    stage(parser.parse_args().out)
