"""A transformer as an ONNX file: how it is written, and what runs it in the transformer's place, on a CPU."""

from __future__ import annotations

import hashlib
import logging
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from longtail.cards import read_card, write_card
from longtail.errors import BadInput, MissingExtra
from longtail.hashes import sha256
from longtail.memory import is_out_of_memory
from longtail.modules.cross_encoder import CrossEncoder
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.topk import IntArray

Exportable: TypeAlias = TransformerEncoder | CrossEncoder

FOLDER = "onnx"  # of an encoder's folder, where sentence-transformers and Optimum look for it, too
FILES = {"float32": "model.onnx", "int8": "model_quantized.onnx"}  # as Optimum names them
_CARD = "export.json"  # what an export says of itself, with the hash of its file
_STATES = "hidden_states."  # begins the name of an output that is the states of a layer
_WEIGHTS = "model*.safetensors*"  # files of a transformer
_OPSET = 17
_ERRORS = 3  # the level of the log of onnxruntime that has errors alone
_LARGEST = 2**31 - 2**24  # bytes of a file of protocol buffers, and room for what is not weights
_REMEDY = "export it again (longtail export), or remove the folder"
_log = logging.getLogger(__name__)


class _Traced(nn.Module):
    """What is exported: a transformer whose inputs, (B, T) int64, are given in their order, and its outputs.

    Args:
        backbone: the transformer.
        inputs: their names.
        outputs: their names, as `_outputs_of` has them.
    """

    def __init__(self, backbone: nn.Module, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        super().__init__()
        self.backbone, self.inputs, self.outputs = backbone, inputs, outputs

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        layers = [int(name.removeprefix(_STATES)) for name in self.outputs[1:]]
        asked = {"output_hidden_states": True} if layers else {}
        found = self.backbone(**dict(zip(self.inputs, given, strict=True)), **asked)
        return found[self.outputs[0]], *(found.hidden_states[layer] for layer in layers)


def _inputs_of(encoder: Exportable) -> list[str]:
    types = isinstance(encoder, CrossEncoder) and encoder.reads_types
    return ["input_ids", "attention_mask", *["token_type_ids"] * types]


def _outputs_of(encoder: Exportable) -> list[str]:
    if isinstance(encoder, CrossEncoder):
        return ["logits"]
    return ["last_hidden_state", *(f"{_STATES}{layer}" for layer in encoder.layers)]


def write_export(encoder: Exportable, folder: Path, numbers: str) -> None:
    """Write the transformer of an encoder as ONNX, and beside it what says of which weights it is.

    The file reads ``input_ids`` and ``attention_mask``, int64 of any batch and length, and gives ``last_hidden_state``;
    of an encoder that joins layers, their states, too. That of a cross-encoder may read ``token_type_ids``, too, and
    gives ``logits``. Weights are float32, or have 8 bits and a scale a column, by which onnxruntime multiplies
    activations that it rounds to 8 bits as they come (dynamic quantisation).

    Args:
        encoder: opened from the folder that is its name.
        folder: an existing one.
        numbers: a key of `FILES`.

    Raises:
        BadInput: PyTorch cannot export such a transformer, or it is too large.
        MissingExtra: a package is not installed.
    """
    for package in ("onnx", "onnxruntime"):
        if find_spec(package) is None:
            raise MissingExtra(package, extra="onnx", purpose="longtail export")
    own = Path(encoder.name)
    if (size := 4 * sum(weight.numel() for weight in encoder.backbone.parameters())) > _LARGEST:
        problem = f"expected a transformer of less than 2 GiB in float32, found {size / 2**30:.1f} GiB"
        raise BadInput(own, problem, remedy="use it as it is")
    inputs, outputs = _inputs_of(encoder), _outputs_of(encoder)
    model = _Traced(deepcopy(encoder.backbone).float(), inputs, outputs).eval()
    given = [torch.ones((2, 3), dtype=torch.int64) for _ in inputs]
    given[1][1, 2] = 0  # padding
    file = folder / FILES["float32"]
    try:
        with _quiet():
            torch.onnx.export(
                model,
                tuple(given),
                str(file),
                dynamo=False,  # the newer exporter takes twenty times as long, and writes the same
                opset_version=_OPSET,
                input_names=inputs,
                output_names=outputs,
                dynamic_axes={name: {0: "batch", 1: "length"} for name in (*inputs, *outputs)},
            )
    except Exception as error:
        if isinstance(error, OSError) or is_out_of_memory(error):
            raise
        kind, said = type(encoder.backbone).__name__, " ".join(str(error).split())[:120]
        problem = f"expected a transformer that PyTorch exports, found {kind} ({type(error).__name__}: {said})"
        raise BadInput(own, problem, remedy="use it as it is") from error
    if numbers == "int8":
        _quantise(file, folder / FILES[numbers])
        file.unlink()
    write_card(folder / _CARD, {"numbers": numbers, "weights": _digest_of(own)})


def _quantise(file: Path, into: Path) -> None:
    """Round weights to 7 bits of 8: with all of them, sums overflow on processors without VNNI."""
    with _quiet():
        import_module("onnxruntime.quantization").quantize_dynamic(file, into, per_channel=True, reduce_range=True)


class ExportedBackbone(nn.Module):
    """Stands in the place of an encoder's transformer, without its weights: onnxruntime gives the outputs.

    Word embeddings are in the file, so what the encoder takes for those of its tokens are their ids. There are as many
    threads as PyTorch has. In 8 bits, activations are rounded by the largest of a call: each text is then a call of its
    own, so that its vector does not depend on the texts beside it.

    Args:
        file: the export.
        encoder: whose transformer it is of, with its folder as its name.
    """

    def __init__(self, file: Path, encoder: Exportable) -> None:
        super().__init__()
        self.config, self._file, self._weights = encoder.backbone.config, file, Path(encoder.name)
        self._inputs, self._outputs = _inputs_of(encoder), _outputs_of(encoder)
        self._opened: tuple[int, Any] = (0, None)

    def get_input_embeddings(self) -> nn.Module:
        """What makes of ids what `forward` reads, which is the same."""
        return nn.Identity()

    def forward(
        self,
        *,
        attention_mask: Tensor,
        input_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **_: Any,
    ) -> SimpleNamespace:
        """The outputs for (B, T) ids, as the transformer names them; states of layers by their number."""
        read = (ids for ids in (input_ids, inputs_embeds, attention_mask, token_type_ids) if ids is not None)
        given = [tensor.numpy() for tensor in read]
        if self._file.name == FILES["float32"]:
            found = self._run(given)
        else:
            lengths = attention_mask.sum(1).tolist()
            rows = [self._run([ids[i : i + 1, :length] for ids in given]) for i, length in enumerate(lengths)]
            found = [pad_sequence([one[0] for one in of_all], batch_first=True) for of_all in zip(*rows, strict=True)]
        first, *others = self._outputs
        joined = {int(name.removeprefix(_STATES)): states for name, states in zip(others, found[1:], strict=True)}
        return SimpleNamespace(**{first: found[0]}, hidden_states=joined)

    def _run(self, given: Sequence[IntArray]) -> list[Tensor]:
        found = self._session().run(self._outputs, dict(zip(self._inputs, given, strict=True)))
        return [torch.from_numpy(output) for output in found]

    def _session(self) -> Any:
        """What runs the file, with as many threads as PyTorch has by now."""
        threads, session = self._opened
        if threads != (wanted := torch.get_num_threads()):
            session = _session_of(self._file, wanted)
            self._opened = wanted, session
        return session

    def save_pretrained(self, folder: Path, **_: Any) -> None:
        """Copy the transformer; an export is of the folder that it is in."""
        for path in (self._weights / "config.json", *self._weights.glob(_WEIGHTS)):
            shutil.copyfile(path, folder / path.name)


def encode_by(encoder: Exportable, folder: Path) -> None:
    """Let an encoder on a CPU take what its transformer gives from an export, if that is there and onnxruntime, too.

    Args:
        encoder: opened from the folder that is its name.
        folder: that `write_export` wrote into.

    Raises:
        BadInput: the export is not as it was written.
    """
    if not folder.is_dir():
        return
    if find_spec("onnxruntime") is None:
        _log.warning(f"{folder}: left aside, as it needs the package onnxruntime; pip install 'longtail[onnx]'")
        return
    card = read_card(folder / _CARD, remedy=_REMEDY, keys={"numbers": str, "weights": str})
    if card["weights"] != _digest_of(Path(encoder.name)):
        _log.warning(f"{folder}: left aside, as it is of other weights; {_REMEDY}")
        return
    if card["numbers"] not in FILES:
        problem = f"expected one of {', '.join(FILES)}, found {card['numbers']}"
        raise BadInput(folder / _CARD, problem, remedy=_REMEDY)
    encoder.backbone = ExportedBackbone(folder / FILES[card["numbers"]], encoder)


def _session_of(file: Path, threads: int) -> Any:
    """A session of onnxruntime, on the CPU."""
    package = import_module("onnxruntime")
    options = package.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, _ERRORS
    options.enable_mem_pattern = False  # which would be kept of each shape, and shapes are many
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # no fight with others for cores
    try:
        return package.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        said = " ".join(str(error).split())[:160]
        raise BadInput(file, f"expected a model that onnxruntime opens, found none ({said})", remedy=_REMEDY) from error


def _digest_of(folder: Path) -> str:
    """A hash of the weights of a transformer."""
    said = (f"{path.name} {sha256(path)}" for path in sorted(folder.glob(_WEIGHTS)))
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


@contextmanager
def _quiet() -> Iterator[None]:
    """No advice of the exporter, which is for who writes models, and none of the quantiser."""
    level = logging.root.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.root.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logging.root.setLevel(level)
