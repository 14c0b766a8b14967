"""First use: fit and predict 100 short sentences with nothing compiled, and again in a second process.

    python benchmarks/cold_start.py

The second process is compared with one that imports the dependencies only.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

USE = """
from rulefield import ChainCRF
X = [[["w=" + w, "s=" + w[-1]] for w in f"the cat number {i} sat on mat {i % 7}".split()] for i in range(100)]
y = [["O", "B-a", "I-a", "B-n", "O", "O", "B-m", "B-n"] for _ in X]
crf = ChainCRF(scheme="BIO").fit(X, y)
crf.predict(X)
"""
DEPENDENCIES = (
    "import numpy, scipy.sparse, scipy.optimize, sklearn.base, sklearn.model_selection, numba, safetensors, rich"
)


def run(code: str, cache: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "NUMBA_CACHE_DIR": cache})
    return time.perf_counter() - begun


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        dependencies = min(run(DEPENDENCIES, cache) for _ in range(4))
        first = run(USE, cache)
        second = min(run(USE, cache) for _ in range(3))
    print(
        f"first use {first:.1f} s; second process {second:.2f} s, {second - dependencies:.2f} s beyond the dependencies"
    )
    print(json.dumps({"first_s": round(first, 2), "second_beyond_imports_s": round(second - dependencies, 3)}))


if __name__ == "__main__":
    main()
