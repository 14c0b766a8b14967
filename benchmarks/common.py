"""What the benchmarks share: the data folder, feature sets, kept results, CPU times, and workers in fresh processes."""

import gzip
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def data_folder() -> Path:
    """Return the folder of the real data sets, or end with a sentence that says how to name it."""
    folder = os.environ.get("RULEFIELD_DATA")
    if not folder or not Path(folder).is_dir():
        print("Set RULEFIELD_DATA to the folder that holds the data sets (conll2000/, umass_citation/, ...).")
        raise SystemExit(2)
    return Path(folder)


def read_columns(path: Path) -> list[list[tuple[str, ...]]]:
    """Sentences of a column file (gzipped or not), one tuple of columns per token."""
    opener = gzip.open if path.suffix == ".gz" else open
    sentences: list[list[tuple[str, ...]]] = [[]]
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            columns = tuple(line.split())
            if columns:
                sentences[-1].append(columns)
            elif sentences[-1]:
                sentences.append([])
    return [sentence for sentence in sentences if sentence]


def crfpp_features(sentence: list[tuple[str, ...]]) -> list[list[str]]:
    """The 19 features per token of the CRF++ chunking set: words and tags in a window of five."""
    n = len(sentence)
    w = ["__B2", "__B1", *(token[0] for token in sentence), "__E1", "__E2"]
    p = ["__B2", "__B1", *(token[1] for token in sentence), "__E1", "__E2"]
    features = []
    for t in range(2, n + 2):
        a, b, c, d, e = p[t - 2 : t + 3]
        features.append(
            [
                f"w-2={w[t - 2]}",
                f"w-1={w[t - 1]}",
                f"w0={w[t]}",
                f"w+1={w[t + 1]}",
                f"w+2={w[t + 2]}",
                f"w-1w0={w[t - 1]}/{w[t]}",
                f"w0w+1={w[t]}/{w[t + 1]}",
                f"p-2={a}",
                f"p-1={b}",
                f"p0={c}",
                f"p+1={d}",
                f"p+2={e}",
                f"p-2p-1={a}/{b}",
                f"p-1p0={b}/{c}",
                f"p0p+1={c}/{d}",
                f"p+1p+2={d}/{e}",
                f"p-2p-1p0={a}/{b}/{c}",
                f"p-1p0p+1={b}/{c}/{d}",
                f"p0p+1p+2={c}/{d}/{e}",
            ]
        )
    return features


def conll2000(part: str) -> tuple[list[list[list[str]]], list[list[str]]]:
    """Feature lists and labels of the chunking set; ``part`` is ``train`` or ``test``."""
    name = "train.txt.gz" if part == "train" else "test.txt"
    sentences = read_columns(data_folder() / "conll2000" / name)
    return [crfpp_features(s) for s in sentences], [[token[2] for token in s] for s in sentences]


def kept(folder: Path | None, name: str, compute: Callable[..., Any], *arguments: Any) -> Any:
    """Return what ``compute`` returns (JSON), or what an earlier run kept under this name in the folder."""
    path = None if folder is None else folder / f"{name}.json"
    if path is not None and path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    result = compute(*arguments)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result), encoding="utf-8")
    return result


def timed(compute: Callable[[], Any]) -> tuple[Any, float]:
    """Return what ``compute`` returns, and the CPU seconds that it took."""
    begin = time.process_time()
    return compute(), time.process_time() - begin


def worker(script: str, *arguments: str) -> dict:
    """Run ``script arguments`` in a fresh process and read the JSON on its last line."""
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{script} {' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def peak_megabytes() -> float:
    """Peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
