"""Files of other tools, as bytes and as something that can be read without leaving them."""

from pathlib import Path

from rulefield.data.limits import is_whole
from rulefield.exceptions import ModelFileError


def bytes_of(source: str | Path | bytes) -> tuple[bytes, str]:
    """Return the content of a file (or bytes as they are), and what errors call it."""
    if isinstance(source, bytes):
        return source, "the model"
    path = Path(source)
    if not path.is_file():
        raise ModelFileError(f"there is no model file {str(path)!r}.")
    return path.read_bytes(), repr(str(path))


def whole_number(text: str | bytes, what: str, where: str) -> int:
    """Return a number >= 0 that a text file holds."""
    if not is_whole(text):
        shown = text[:20].decode("latin-1") if isinstance(text, bytes) else text[:20]
        raise ModelFileError(f"{where} is damaged: {what} must be a whole number; got {shown!r}.")
    return int(text)
