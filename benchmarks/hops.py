"""Files on the way from a user's call to the first kernel that scores labels.

Follows ``TextParser.parse`` and ``ChainCRF.fit`` (after a first call, so that imports do not count) and prints
the files in the order in which the calls enter them, until a function of ``rulefield/kernels`` that scores labels begins.
The last line is JSON: ``parse_files``, ``fit_files``.

    python benchmarks/hops.py
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import rulefield
from rulefield import ChainCRF, TextParser
from rulefield.datasets import make_addresses, make_citations
from rulefield.kernels import jit

ROOT = Path(rulefield.__file__).parent
FAMILIES = ("kernels/chain/", "kernels/lattice/", "kernels/light")
LAYOUT = ("kernels/chain/train_features", "kernels/chain/train_pack")
"""Kernels that lay out weights; they score nothing."""


class ScoredError(Exception):
    """Ends a walk: the first kernel that scores labels was reached."""


class Walk:
    """Files that a call enters, in order, each once."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.kernel = ""

    def enter(self, file: str) -> None:
        """Note a file of the library."""
        if file not in self.files:
            self.files.append(file)

    def trace(self, frame: FrameType, event: str, _: Any) -> None:
        """Note the file of each Python function that is called."""
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            file = str(path.relative_to(ROOT))
            if not file.startswith("kernels/"):
                self.enter(file)

    def reach(self, kernel: Any) -> None:
        """End the walk if a compiled function that is called scores labels."""
        file = kernel.__module__.removeprefix("rulefield.").replace(".", "/")
        if file.startswith(FAMILIES) and not file.startswith(LAYOUT):
            self.kernel = f"{file}.py: {kernel.__name__}"
            raise ScoredError


def walk(call: Callable[[], Any]) -> Walk:
    """Follow a call until labels are scored."""
    made, plain = Walk(), jit.Kernel.__call__

    def watched(kernel: Any, *args: Any, **options: Any) -> Any:
        made.reach(kernel)
        return plain(kernel, *args, **options)

    jit.Kernel.__call__ = watched  # type: ignore[method-assign]
    sys.settrace(made.trace)
    try:
        call()
    except ScoredError:
        pass
    finally:
        sys.settrace(None)
        jit.Kernel.__call__ = plain  # type: ignore[method-assign]
    return made


def report(name: str, made: Walk) -> int:
    """Print a walk; return the number of its files."""
    print(f"{name}: {len(made.files)} files, then {made.kernel or 'no kernel'}")
    for file in made.files:
        print(f"  {file}")
    return len(made.files)


if __name__ == "__main__":
    texts, spans = make_addresses(60, seed=0, messy=True)
    parser = TextParser(model=ChainCRF(scheme="BIO", max_iter=5)).fit(texts[:50], spans[:50])
    parser.parse(texts[50])
    X, y = make_citations(30, seed=0)
    ChainCRF(max_iter=2).fit(X, y)
    parse = report("TextParser.parse", walk(lambda: parser.parse(texts[51])))
    fit = report("ChainCRF.fit", walk(lambda: ChainCRF(max_iter=2).fit(X, y)))
    print(json.dumps({"parse_files": parse, "fit_files": fit}))
