"""What trust costs: the checker's share of decoding, and the file check's share of opening a model.

    RULEFIELD_DATA=... python benchmarks/checks.py --only decoding [--sets counts_40x13 ...]
    python benchmarks/checks.py --only files [--rounds 15]

Runs as they are take turns with runs in which every check is measured where it stands, in CPU time, without what the clock
itself takes. Decoding: the sets of ``decoding_vs_highs.py``, every judgment of a labeling. Files: models of about a
megabyte, a small one and a large one; every check of arrays, metadata, parameters and attributes. The last line is JSON:
shares by set and by model.
"""

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np

import rulefield as rf
from common import data_folder
from decoding_vs_highs import SETS, TAU, load
from rulefield import forms
from rulefield.estimators import parameters, saving
from rulefield.inference.sequences import check
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.two_stage import decode_two_stage

JUDGES = (check.judge_labeling,)
FILE_CHECKS = (
    forms.check_arrays,
    forms.check_typed,
    forms.checked_flags,
    parameters.check_parameters,
    saving.check_attribute,
)


class Checks:
    """Measures the calls of some functions by modules of the library (not those that one of them makes itself)."""

    def __init__(self, functions: tuple[Callable[..., Any], ...]):
        self.functions = functions
        self.seconds = 0.0
        self.inside = False
        self.clock = 0.0
        timed = self._timed(lambda: None)
        for _ in range(20_000):
            timed()
        self.clock, self.seconds = self.seconds / 20_000, 0.0

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **more: Any) -> Any:
            if self.inside:
                return function(*args, **more)
            self.inside = True
            begun = process_time()
            try:
                return function(*args, **more)
            finally:
                self.seconds += process_time() - begun - self.clock
                self.inside = False

        return called

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure what is called inside."""
        changed = [
            (module, name, value)
            for module in [m for key, m in sys.modules.items() if key.startswith("rulefield")]
            for name, value in vars(module).items()
            if any(value is function for function in self.functions)
        ]
        for module, name, value in changed:
            setattr(module, name, self._timed(value))
        self.seconds = 0.0
        try:
            yield
        finally:
            for module, name, value in changed:
                setattr(module, name, value)


def share(work: Callable[[Any], Any], items: Sequence[Any], checks: Checks, rounds: int) -> tuple[float, float]:
    """Return the seconds that the work on all items takes, and the share of them that the checks take."""

    def run() -> float:
        begun = process_time()
        for item in items:
            work(item)
        return process_time() - begun

    run()
    whole, part = [], []
    for _ in range(rounds):
        whole.append(run())
        with checks.measured():
            run()
        part.append(checks.seconds)
    return median(whole), median(part) / median(whole)


def decoding(names: list[str], rounds: int) -> dict[str, float]:
    """The checker's share of decoding, by set."""
    found = {}
    for name in names:
        problems = load(data_folder() / "chain_problems", name)
        tau = TAU.get(name)

        work = decode if tau is None else partial(decode_two_stage, tau=tau)
        seconds, part = share(work, problems, Checks(JUDGES), rounds)
        print(
            f"{name}: {1e3 * seconds / len(problems):.3f} CPU ms per problem, checker {100 * part:.1f} %", flush=True
        )
        found[name] = round(part, 4)
    return found


def models() -> Iterator[tuple[str, Any]]:
    """Models of random data, so large that their files have about a megabyte (the last: ten)."""
    rng = np.random.default_rng(0)
    words = np.array([f"{a}{b}{c}" for a in "abcdefghij" for b in "klmnopqrst" for c in range(150)])

    def sentences(n: int) -> tuple[list[list[str]], list[list[str]]]:
        X = [rng.choice(words, size=20).tolist() for _ in range(n)]
        return X, [[f"{'BI'[len(w) % 2]}-{w[0]}" if w[0] < "f" else "O" for w in x] for x in X]

    X, y = sentences(170)
    yield "ChainCRF", rf.ChainCRF(max_iter=2).fit(X, y)
    yield "SegmentCRF", rf.SegmentCRF(max_iter=2).fit(*sentences(90))
    pairs = [{"a": labels, "b": [label[-1] for label in labels]} for labels in y]
    yield "JointCRF", rf.JointCRF(tasks=["a", "b"], max_iter=2).fit(X[:60], pairs[:60])
    rows, many = rng.normal(size=(300, 400)), (rng.random((300, 120)) < 0.3).astype(int)
    yield "MultiLabelCRF", rf.MultiLabelCRF(max_iter=2).fit(rows, many)
    yield "GaussianCRFClassifier", rf.GaussianCRFClassifier(max_iter=2).fit(rows[:, :40], many[:, :6])
    texts = [" ".join(x) for x in X]
    spans = [[(0, len(x[0]), "first"), (len(" ".join(x[:-1])) + 1, len(" ".join(x)), "last")] for x in X]
    yield "TextParser", rf.TextParser(model=rf.ChainCRF(max_iter=2)).fit(texts, spans)
    yield "ChainCRF, large", rf.ChainCRF(max_iter=2).fit(*sentences(2600))


def files(rounds: int) -> dict[str, float]:
    """The file check's share of opening a model, by model."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in models():
            path = Path(folder) / "model.rf"
            model.save(path)
            size = path.stat().st_size / 1e6
            times = max(1, round(10 / size))
            seconds, part = share(rf.load, [path] * times, Checks(FILE_CHECKS), rounds)
            print(
                f"{name}: {size:.2f} MB in {1e3 * seconds / times:.2f} CPU ms, check {100 * part:.1f} %", flush=True
            )
            found[name] = round(part, 4)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["decoding", "files"])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    told = {}
    if options.only != "files":
        told["checker"] = decoding(options.sets, options.rounds)
    if options.only != "decoding":
        told["file_check"] = files(options.rounds)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
