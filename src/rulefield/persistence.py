"""One file per model: safetensors arrays plus one JSON text. Opening a file never runs code.

The JSON stands in the safetensors header under the key ``rulefield`` and says what the file is (``kind``),
which format it follows, and a digest over arrays and metadata, so that a damaged or edited file is refused
with a sentence instead of predicting nonsense.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from rulefield.data.plain_json import read_json
from rulefield.exceptions import InputError, ModelFileError
from rulefield.outputs import write_whole

FORMAT = 1
_KEY = "rulefield"
_HEADER = {"format": int, "kind": str, "metadata": str, "digest": str}


def save_model(path: str | Path, kind: str, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> None:
    """Write a model file; the old file stays whole until the new one is complete."""
    write_whole(path, model_to_bytes(kind, arrays, metadata))


def load_model(source: str | Path | bytes) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
    """Read a model file (a path, or its bytes): kind, arrays, metadata."""
    if isinstance(source, bytes):
        return model_from_bytes(source, "the given bytes")
    path = Path(source)
    if not path.is_file():
        raise ModelFileError(f"there is no model file at {path}; check the path.")
    return model_from_bytes(path.read_bytes(), str(path))


def model_to_bytes(kind: str, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> bytes:
    """Return the file's bytes. ``metadata`` must be JSON-able, and is read back: what is saved can be loaded."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = _as_json(metadata)
    header = {"format": FORMAT, "kind": kind, "metadata": text, "digest": _digest(kind, arrays, text)}
    return save_tensors(arrays, metadata={_KEY: json.dumps(header, sort_keys=True)})


def model_from_bytes(data: bytes, name: str) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
    """Read and check the bytes of a model file; ``name`` stands for it in errors."""
    header = _read_header(data, name)
    if header["format"] > FORMAT:
        raise ModelFileError(
            f"{name} has model format {header['format']}, this version of rulefield reads up to {FORMAT}; "
            "update rulefield, or save the model again with this version."
        )
    try:
        arrays = load_tensors(data)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{name} is damaged or cut short ({error}); copy or save it again.") from None
    if header["digest"] != _digest(header["kind"], arrays, header["metadata"]):
        raise ModelFileError(f"{name} was changed after it was saved (its digest differs); save the model again.")
    try:
        metadata = read_json(header["metadata"])
    except ValueError as error:
        raise ModelFileError(f"the metadata of {name} cannot be read ({error}); save the model again.") from None
    return header["kind"], arrays, metadata


def pack_strings(strings: Iterable[str]) -> dict[str, np.ndarray]:
    """Strings as two arrays, ``text`` (uint8, UTF-8) and ``stop`` (where each ends): no object per string."""
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    stops = np.cumsum([len(piece) for piece in encoded], dtype=np.int64)
    return {"text": np.frombuffer(b"".join(encoded), dtype=np.uint8), "stop": stops.reshape(-1)}


def unpack_strings(text: np.ndarray, stop: np.ndarray) -> list[str]:
    """Undo :func:`pack_strings`."""
    data = text.tobytes()
    starts = [0, *stop[:-1].tolist()] if len(stop) else []
    return [data[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, stop.tolist())]


def _as_json(metadata: dict[str, Any]) -> str:
    try:
        text = json.dumps(metadata, sort_keys=True)
        read_json(text)
    except ValueError as error:
        raise InputError(
            f"this model cannot be saved: {str(error).rstrip('.')}, in {_culprit(metadata)}; rename it, and fit again."
        ) from None
    return text


def _culprit(value: Any) -> str:
    """Return the first name or value that a file cannot hold."""
    if isinstance(value, dict):
        inner: Iterable[Any] = (part for item in value.items() for part in item)
    elif isinstance(value, (list, tuple)):
        inner = value
    else:
        try:
            read_json(json.dumps(value))
        except ValueError:
            return ascii(value)[:60] if isinstance(value, str) else f"a number of type {type(value).__name__}"
        return ""
    return next((found for part in inner if (found := _culprit(part))), "")


def _read_header(data: bytes, name: str) -> dict[str, Any]:
    try:
        size = int.from_bytes(data[:8], "little")
        if len(data) < 8 + size:
            raise ValueError("header is cut short")
        header = read_json(read_json(data[8 : 8 + size])["__metadata__"][_KEY])
        if any(type(header[key]) is not kind for key, kind in _HEADER.items()):
            raise TypeError("fields")
    except (ValueError, KeyError, TypeError):
        raise ModelFileError(
            f"{name} is not a rulefield model, or its beginning is damaged; give a file written by save()."
        ) from None
    return header


def _digest(kind: str, arrays: dict[str, np.ndarray], metadata: str) -> str:
    digest = hashlib.sha256(f"{kind}\n{metadata}\n".encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
