"""Arrays in safetensors files, mapped into memory: nothing is read before it is used, nothing stays when it is let go."""

import json
import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from rulefield.data.plain_json import read_json
from rulefield.exceptions import InputError
from rulefield.outputs import whole_file

_KEY = "rulefield"
_TYPES = {
    "F64": np.float64,
    "I64": np.int64,
    "U64": np.uint64,
    "I32": np.int32,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
_NAMES = {np.dtype(kind): name for name, kind in _TYPES.items()}


class MappedArrays(Mapping[str, np.ndarray]):
    """The arrays of one file by name; pages are read when they are touched.

    The map is private: writing to an array changes no file (kernels are compiled for arrays that can be written to). It
    goes when the last array that stands on it is let go.

    Attributes
    ----------
    metadata : dict
        What :func:`write_arrays` was given.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        try:
            with open(self.path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:
            raise InputError(f"the file {str(path)!r} cannot be read ({error}); write the corpus again.") from None
        try:
            size = int.from_bytes(self._map[:8], "little")
            header = read_json(self._map[8 : 8 + size])
            self.metadata: dict[str, Any] = read_json(header.pop("__metadata__")[_KEY])
            self._arrays = {name: self._view(entry, 8 + size) for name, entry in header.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"the file {str(path)!r} is damaged ({error}); write the corpus again.") from None

    def _view(self, entry: Mapping[str, Any], begin: int) -> np.ndarray:
        dtype, (first, last) = np.dtype(_TYPES[entry["dtype"]]), entry["data_offsets"]
        if first == last:
            return np.zeros(entry["shape"], dtype)
        return np.frombuffer(self._map, dtype, (last - first) // dtype.itemsize, begin + first).reshape(
            entry["shape"]
        )

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def array_bytes(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file that :class:`MappedArrays` reads."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(whole, metadata={_KEY: json.dumps(metadata, sort_keys=True)})


def write_arrays(
    path: str | Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any], *, lasting: bool = True
) -> None:
    """Write a file that appears when it is whole, array by array: its bytes are never held together.

    ``lasting`` as in :func:`rulefield.outputs.whole_file`.
    """
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    ordered = sorted(whole, key=lambda name: -whole[name].itemsize)  # so that all of them are aligned
    header: dict[str, Any] = {"__metadata__": {_KEY: json.dumps(metadata, sort_keys=True)}}
    place = 0
    for name in ordered:
        array = whole[name]
        stop = place + array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [place, stop]}
        place = stop
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with whole_file(path, lasting=lasting) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in ordered:
            file.write(whole[name].reshape(-1).view(np.uint8).data)
