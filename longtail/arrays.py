"""Arrays in files: those of a folder vouched for by their checksums, and single ones of outside."""

from __future__ import annotations

import json
import lzma
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from zipfile import BadZipFile

import numpy as np
from safetensors.numpy import save_file

from longtail.errors import BadInput
from longtail.files import must_be_a_file, new_folder, read_json, write_json
from longtail.hashes import check_hashes, hashes
from longtail.topk import AnyArray

CHECKSUMS = "checksums.json"  # in a folder of arrays
_HEADER = 2**24  # bytes that the header of a .safetensors file may have
_BROKEN = (OSError, ValueError, TypeError, OverflowError, MemoryError, SyntaxError, TokenError)  # of a .npy header
_TYPES = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64}


def save_arrays(folder: Path, arrays: Mapping[str, AnyArray]) -> None:
    """Write arrays as ``.npy`` files, and their checksums, into a new folder, which appears whole or not at all."""
    with new_folder(folder) as path:
        for name, array in arrays.items():
            np.save(path / f"{name}.npy", array)
        write_json(path / CHECKSUMS, hashes(path, card=CHECKSUMS))


def load_arrays(
    folder: Path, names: Sequence[str], *, mapped: bool = False, remedy: str | None = None
) -> list[AnyArray]:
    """The arrays that `save_arrays` wrote. Those of earlier versions have no checksums, and are read without.

    Args:
        folder: which they are in.
        names: of the arrays.
        mapped: whether to map the files, read-only, and not to read them.
        remedy: what to do where one is not; to remove the folder, as what is made again, if left out.

    Raises:
        BadInput: one is missing, or is not what was written.
    """
    files = [f"{name}.npy" for name in names]
    remedy = remedy or remade(folder)
    if (folder / CHECKSUMS).exists():
        checksums = read_json(folder / CHECKSUMS, remedy=remedy, keys=files)
        check_hashes(folder, {file: checksums[file] for file in files}, remedy=remedy)
    arrays = [read_array(folder / file, remedy=remedy) for file in files]
    return arrays if mapped else [np.array(array) for array in arrays]


def remade(folder: Path) -> str:
    """What to do where a folder of what can be computed again is not as it was saved."""
    return f"remove {folder}; it is then made again"


def read_array(path: Path, *, remedy: str) -> AnyArray:
    """The array in a .npy file, memory-mapped and read-only.

    Args:
        path: of the file.
        remedy: what to do where it holds none.

    Raises:
        BadInput: there is no such file, or it does not hold an array of numbers.
    """
    must_be_a_file(path, remedy=remedy)
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except _BROKEN as error:
        problem = f"expected an array of numbers, found none ({' '.join(str(error).split())[:80]})"
        raise BadInput(path, problem, remedy=remedy) from error
    if array.dtype.kind not in "biuf":
        raise BadInput(path, f"expected an array of numbers, found one of {array.dtype}", remedy=remedy)
    return array


def read_archive(path: Path, names: Sequence[str], *, remedy: str) -> list[AnyArray]:
    """Arrays of a .npz file, of which nothing is unpickled.

    Args:
        path: of the file.
        names: of the arrays.
        remedy: what to do where it does not hold them.

    Raises:
        BadInput: there is no such file, or it does not hold arrays of numbers of these names.
    """
    must_be_a_file(path, remedy=remedy)
    try:
        with path.open("rb") as file:  # numpy leaves a broken file open
            arrays = np.load(file, allow_pickle=False)
            found = [arrays[name] for name in names]
        if wrong := [array.dtype for array in found if array.dtype.kind not in "biuf"]:
            raise BadInput(path, f"expected arrays of numbers, found one of {wrong[0]}", remedy=remedy)
    except (*_BROKEN, KeyError, IndexError, EOFError, RuntimeError, BadZipFile, zlib.error, lzma.LZMAError) as error:
        problem = f"expected arrays of numbers, found none ({' '.join(str(error).split())[:80]})"
        raise BadInput(path, problem, remedy=remedy) from error
    return found


def save_model_arrays(path: Path, arrays: Mapping[str, AnyArray]) -> None:
    """Write the arrays of a model into a .safetensors file.

    Raises:
        BadInput: one holds a value that is no number: nothing could be ranked by it.
    """
    for name, array in arrays.items():
        if not np.isfinite(array.sum(dtype=np.float64)):
            problem = f"expected finite numbers in {name}, found NaN or infinity; it is not written"
            raise BadInput(path.name, problem, remedy="train with a lower learning rate")
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)


def map_arrays(path: Path) -> dict[str, AnyArray]:
    """The arrays of a .safetensors file by name, memory-mapped and read-only.

    The format: the length of a header (8 bytes, little-endian), the header (JSON: type, shape and place of each array),
    the arrays one after the other.

    Raises:
        BadInput: the file is not in the format, or holds another type than float32, float64, int32 and int64.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, _HEADER)))
        blob = np.memmap(path, np.uint8, "r", offset=8 + length)
        header.pop("__metadata__", None)
        return {
            name: blob[slice(*entry["data_offsets"])].view(_TYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"expected arrays in the safetensors format, found none ({type(error).__name__})"
        raise BadInput(path, problem, remedy="copy the file again, whole") from error
