"""Where the real data sets lie: in the folder that RULEFIELD_DATA names. None is part of the project."""

import os
from collections.abc import Iterator
from pathlib import Path

from rulefield.data.source import Source
from rulefield.exceptions import InputError

VARIABLE = "RULEFIELD_DATA"


def data_folder(name: str | None = None) -> Path:
    """Folder of the data sets, or of one of them.

    Raises
    ------
    InputError
        The variable is not set, or the folder does not exist.
    """
    root = os.environ.get(VARIABLE)
    if not root:
        raise InputError(f"the environment variable {VARIABLE} must name the folder of the data sets; it is not set.")
    folder = Path(root) / name if name else Path(root)
    if not folder.is_dir():
        raise InputError(f"{VARIABLE} is {root!r}, but there is no folder {str(folder)!r}; put the data set there.")
    return folder


def find_file(folder: Path, name: str) -> Path:
    """Path of a file that may be compressed (``name`` or ``name.gz``)."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise InputError(f"there is no file {name!r} (nor {name + '.gz'!r}) in {str(folder)!r}.")


def read_lines(path: str | Path) -> Iterator[str]:
    """Lines of a text file (UTF-8, compressed where its name ends in .gz), without line ends."""
    return (line for _, line in Source(str(path)).lines())
