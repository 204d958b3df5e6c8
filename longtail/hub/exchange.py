"""Push the model of a run to a repository of a hub, and pull one into a run folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from json import dumps
from pathlib import Path
from typing import Any

import torch

from longtail.errors import BadInput, LongtailError, MissingExtra
from longtail.files import new_folder, read_json, remove_folder, scratch_folder
from longtail.hub.card import front_matter, model_card
from longtail.model import open_model
from longtail.model.label_set import LabelSet
from longtail.report.run_summary import EVALUATION, RunSummary
from longtail.train.progress import settings_of

_OF_RUN = ("run.json", EVALUATION, "README.md")  # what is taken beside the model
_OF_MODEL = re.compile(r"model/(?:\w[\w.-]*/)*\w[\w.-]*\.(?:json|jsonl|safetensors|txt|model)")  # no pickle, no index
_BUILT = re.compile(r"model/(?:index|(?:.*/)?onnx)/")  # which another's program reads, and is soon built anew
_REMEDY = "check the name, the network, and that you are logged in (hf auth login, or HF_TOKEN)"


def push(run: Path, repo: str, *, endpoint: str | None = None, private: bool = True, licence: str | None = None) -> str:
    """Put the model of a run, as it answers now, and a model card into a repository, as one commit.

    Label changes are folded in. What is in ``run.json`` goes along, without the path of the data set.

    Args:
        run: the run folder.
        repo: ``owner/name``; made if it is not there.
        endpoint: of the hub; HF_ENDPOINT, or Hugging Face's, if left out.
        private: whether a repository that is made is.
        licence: of the model, for its card.

    Returns:
        The address of the repository.

    Raises:
        BadInput: the run has no model, or is not as it was written.
        LongtailError: the hub did not take it.
        MissingExtra: the package is not installed.
    """
    hub = _hub()
    with ExitStack() as stack:
        folder, labels = _as_it_answers(run, stack)
        summary = RunSummary.of(run)
        card = model_card(summary, repo, labels=labels, front_matter=front_matter(hub, summary, repo, licence))
        settings = {**read_json(run / "run.json", remedy="put the file back as it was"), "data": None}
        content: dict[str, Any] = {"README.md": card.encode(), "run.json": dumps(settings, indent=1).encode()}
        if summary.evaluation:
            content[EVALUATION] = str(run / EVALUATION)
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        names = {f"model/{path.relative_to(folder).as_posix()}": str(path) for path in files}
        ours = {name: path for name, path in names.items() if not _BUILT.match(name)}
        if strange := next((path for name, path in ours.items() if not _OF_MODEL.fullmatch(name)), None):
            problem = "expected a model of JSON, text and safetensors, found another file"
            raise BadInput(strange, problem, remedy="take it out of the folder")
        content |= ours
        with _errors_of(hub, repo):
            api = hub.HfApi(endpoint=endpoint, library_name="longtail")
            made = api.create_repo(repo, private=private, exist_ok=True)
            earlier = {name for name in _names(api, repo) if name in _OF_RUN or name.startswith("model/")}
            gone = earlier - content.keys()
            operations = [hub.CommitOperationAdd(name, value) for name, value in content.items()]
            operations += [hub.CommitOperationDelete(name) for name in sorted(gone)]
            api.create_commit(repo, operations, commit_message=f"Model of the recipe {summary.recipe}")
    return str(made)


def pull(repo: str, out: Path, *, revision: str | None = None, endpoint: str | None = None) -> None:
    """Get a model that `push` put into a repository: a run folder, which appears whole or not at all.

    Only files that a model is made of are taken, none of which is a pickle, an index or an export, and the model is
    opened once with the checks of any other.

    Args:
        repo: ``owner/name``.
        out: the run folder to make.
        revision: a branch, tag or commit; the newest if left out.
        endpoint: of the hub; HF_ENDPOINT, or Hugging Face's, if left out.

    Raises:
        BadInput: the folder is not free; or what is in the repository is no model, or leads out of the folder.
        LongtailError: the hub did not give it.
        MissingExtra: the package is not installed.
    """
    hub = _hub()
    with new_folder(out) as folder:
        with _errors_of(hub, repo):
            found = hub.HfApi(endpoint=endpoint, library_name="longtail").model_info(repo, revision=revision)
            for name in _wanted(repo, [file.rfilename for file in found.siblings or []]):
                hub.hf_hub_download(repo, name, revision=found.sha, local_dir=folder, endpoint=endpoint)
        remove_folder(folder / ".cache")  # what the package keeps for itself
        settings_of(folder)
        open_model(folder / "model", device=torch.device("cpu"))


def _wanted(repo: str, names: Sequence[str]) -> list[str]:
    """The files of a repository that a run folder is made of."""
    for name in names:
        if ".." in name.split("/") or name.startswith("/") or "\\" in name or ":" in name:
            raise BadInput(repo, f"expected names of files in the repository, found {name!r}", remedy="do not use it")
    wanted = [name for name in names if name in _OF_RUN or _OF_MODEL.fullmatch(name)]
    kept = [name for name in wanted if not _BUILT.match(name)]
    if missing := {"run.json", "model/bundle.json"} - {*kept}:
        problem = f"expected a model that longtail push wrote, found no {', '.join(sorted(missing))}"
        raise BadInput(repo, problem, remedy="check the name and the revision")
    return kept


def _as_it_answers(run: Path, stack: ExitStack) -> tuple[Path, int]:
    """The folder of the model with its label changes, for as long as the stack, and how many labels it has."""
    labels = LabelSet(run, device="cpu", exact=True)
    stack.callback(labels.close)
    model = labels.model
    if labels.snapshot.is_base:
        return labels.run / labels.state.folder, len(model.labels)
    folder = stack.enter_context(scratch_folder("longtail-push")) / "model"
    labels.folded(labels.snapshot).save(folder)
    return folder, len(model.labels)


def _names(api: Any, repo: str) -> list[str]:
    return [file.rfilename for file in api.model_info(repo).siblings or []]


def _hub() -> Any:
    try:
        import_module("huggingface_hub.errors")  # which the package does not import by itself
        return import_module("huggingface_hub")
    except ImportError:
        raise MissingExtra("huggingface-hub", extra="hub", purpose="a model on a hub") from None


@contextmanager
def _errors_of(hub: Any, repo: str) -> Iterator[None]:
    """Say what a hub refuses, or a network does, in one line."""
    of_http = getattr(hub.errors, "HTTPError", OSError)
    try:
        yield
    except (OSError, ValueError, RuntimeError, of_http) as error:
        if isinstance(error, LongtailError):
            raise
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise LongtailError(f"{repo}: the hub said: {said}; {_REMEDY}") from error
