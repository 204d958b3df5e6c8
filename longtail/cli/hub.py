"""``longtail push`` and ``longtail pull``: models on a hub of Hugging Face."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from longtail.cli.run_folder import NewFolder, RunFolder
from longtail.hub.exchange import pull as pulled
from longtail.hub.exchange import push as pushed

_Repo = Annotated[str, typer.Argument(help="The repository, owner/name.", show_default=False)]
_Endpoint = Annotated[str | None, typer.Option(help="Of the hub; HF_ENDPOINT, or Hugging Face's, if left out.")]


def push(
    run: RunFolder,
    repo: _Repo,
    public: Annotated[bool, typer.Option("--public", help="Make a repository that all can read.")] = False,
    licence: Annotated[str | None, typer.Option(help="Of the model, for its card, as apache-2.0.")] = None,
    endpoint: _Endpoint = None,
) -> None:
    """Push the model of a run, with a model card, to a repository of Hugging Face or another hub."""
    address = pushed(run, repo, endpoint=endpoint, private=not public, licence=licence)
    console = Console(highlight=False)
    console.print(f"The model is at {address}.", markup=False, soft_wrap=True)
    console.print(f"Next: longtail pull {repo} --out RUN", markup=False, soft_wrap=True)


def pull(
    repo: _Repo,
    out: NewFolder,
    revision: Annotated[str | None, typer.Option(help="A branch, tag or commit; the newest if left out.")] = None,
    endpoint: _Endpoint = None,
) -> None:
    """Pull a model that was pushed into a new run folder."""
    pulled(repo, out, revision=revision, endpoint=endpoint)
    console = Console(highlight=False)
    console.print(f"The model is in {out}.", markup=False, soft_wrap=True)
    console.print(f"Next: longtail predict {out}", markup=False, soft_wrap=True)
