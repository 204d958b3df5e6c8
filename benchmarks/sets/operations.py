"""Operations of web services and the parameters that a request has.

    pip download --no-deps botocore==1.40.0
    python benchmarks/sets/operations.py botocore-1.40.0-py3-none-any.whl DIR

A document is an operation of one of some 400 services, its title service and name ("Amazon S3: PutObject"), its content
the documentation, which is long. Its labels are the parameters of its request, those of one name being one label
whatever the service; a label's title is the name, its content the documentation in the first service that has it. Of a
service with several versions the newest counts. Operations and parameters are never one thing, so there is no filter.

The documentation names some of the parameters, so with content a part of the task is reading. Operations that differ by
a word ("ListX", "ListY") are on both sides of the split.

Licence: Apache 2.0.
"""

from __future__ import annotations

import gzip
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from making import Material, Source, Text, files, main

TAG = re.compile(r"<[^<>]*>")


def services(package: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and model of each service, in its newest version: versions are dates."""
    newest = dict[str, bytes]()
    for path, raw in files(package, "*botocore/data/*/service-2.json*"):
        newest[path.split("/")[-3]] = raw  # in the order of paths, so that the last version stays
    for name, raw in newest.items():
        yield name, json.loads(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw)


def plain(documentation: str) -> str:
    """A text without the tags of HTML."""
    return html.unescape(TAG.sub(" ", documentation))


def read(package: Path) -> Material:
    """Operations and parameters of the package botocore."""
    documents, labels, pairs = dict[str, Text](), dict[str, Text](), dict[str, list[str]]()
    for service, model in services(package):
        said = model["metadata"]
        title = said.get("serviceAbbreviation") or said.get("serviceFullName") or service
        for name, operation in model["operations"].items():
            uid = f"{service}.{name}"
            request = model["shapes"][operation["input"]["shape"]] if "input" in operation else {}
            members = request.get("members", {})
            documents[uid] = Text(f"{title}: {name}", plain(operation.get("documentation", "")))
            pairs[uid] = [_label(member) for member in members]
            for member, details in members.items():
                labels.setdefault(_label(member), Text(member, plain(details.get("documentation", ""))))
    return Material(documents, labels, pairs)


def _label(member: str) -> str:
    """The uid of a parameter: services differ in the case of letters, and in nothing else."""
    return f"parameter {member.casefold()}"


SOURCE = Source(
    name="operations",
    description="Operations of web services by service and name; the labels of an operation are the parameters of its "
    "request.",
    licence="Apache 2.0 (botocore)",
    packages=("botocore",),
    read=read,
)

if __name__ == "__main__":
    main(SOURCE, __doc__)
