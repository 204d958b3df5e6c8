"""Options of the Linux kernel, and the options that they depend on or select.

    apt-get download linux-source-6.1
    python benchmarks/sets/kconfig.py linux-source-6.1_*.deb DIR

A document is an option of any architecture, its title name and prompt ("E1000E: Intel(R) PRO/1000 PCI-Express Gigabit
Ethernet support"), its content the help. Its labels are the options that its own lines `depends on`, `select` and
`imply` name, with or without a condition, but for those right behind a `!`; what an enclosing `if` or menu asks for is
not among them. An option that several files define is one document, with the labels of all and the first prompt and
help. Hidden options have no prompt: their title is a name. Labels are documents, so there is a filter. A help now and
then names an option that it depends on.

Licence: GNU General Public License 2.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from making import Material, Source, Text, file, main

BEGIN = re.compile(r"^\s*(?:menu)?config\s+(\w+)\s*$")
END = re.compile(r"^\s*(?:if|endif|menu|endmenu|choice|endchoice|comment|source|mainmenu)\b")
PROMPT = re.compile(r"""^\s*(?:bool|tristate|string|int|hex|prompt)\s+(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")
RELATION = re.compile(r"^\s*(depends\s+on|select|imply)\s+(.*)$")
HELP = re.compile(r"^\s*(?:help|---help---)\s*$")
NAME = re.compile(r"(?<![\w!])\w+")


@dataclass(slots=True)
class Option:
    """An option: its first prompt and help, and the names in its relations."""

    prompt: str = ""
    help: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


def kconfigs(package: Path) -> Iterator[str]:
    """The Kconfig files of the archive in the package, by path."""
    found = dict[str, str]()
    with tarfile.open(fileobj=io.BytesIO(file(package, "usr/src/linux-source-*.tar.*")), mode="r|*") as archive:
        for member in archive:
            known = Path(member.name).name.startswith("Kconfig") and member.isfile()
            if known and (opened := archive.extractfile(member)) is not None:
                found[member.name] = opened.read().decode("utf-8", "replace")
    yield from (found[name] for name in sorted(found))


def _indent(line: str) -> int:
    """Columns before the first character; a tab leads to the next multiple of 8."""
    wide = line.expandtabs()
    return len(wide) - len(wide.lstrip())


def parse(text: str, options: dict[str, Option]) -> None:
    """Add the options of a Kconfig file (Documentation/kbuild/kconfig-language.rst) to those that are known."""
    option, help_lines, help_indent = Option(), list[str](), -1  # what stands before the first option belongs to none
    for line in text.replace("\\\n", " ").splitlines():
        if help_indent >= 0 and line.strip():
            help_indent = help_indent or _indent(line)  # 0 until its first line
            if help_indent and _indent(line) >= help_indent:
                help_lines.append(line)
                continue
            help_indent = -1
        if begun := BEGIN.match(line):
            option = options.setdefault(begun[1], Option())
        elif HELP.match(line):
            help_indent, help_lines = 0, [] if option.help else option.help
        elif END.match(line):
            option = Option()
        elif (prompt := PROMPT.match(line)) and not option.prompt:
            option.prompt = (prompt[1] or prompt[2] or "").replace('\\"', '"')
        elif relation := RELATION.match(line):
            said = relation[2].partition("#")[0]
            option.names |= set(NAME.findall(said if relation[1].startswith("depends") else said.partition(" if ")[0]))


def read(package: Path) -> Material:
    """Options of the package linux-source-6.1, or of another version's."""
    options = dict[str, Option]()
    for text in kconfigs(package):
        parse(text, options)
    texts = {
        name: Text(f"{name}: {option.prompt}" if option.prompt else name, " ".join(option.help))
        for name, option in options.items()
    }
    return Material(texts, texts, {name: option.names for name, option in options.items()})


SOURCE = Source(
    name="kconfig",
    description="Options of the Linux kernel by name, prompt and help; the labels of an option are the options that it "
    "depends on or selects.",
    licence="GPL 2 (Linux kernel)",
    packages=("linux_source",),
    read=read,
)

if __name__ == "__main__":
    main(SOURCE, __doc__)
