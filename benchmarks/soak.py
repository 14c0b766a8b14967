"""Use every estimator again and again: answers stay the same, memory, descriptors and threads do not grow.

    python benchmarks/soak.py                  # 20 CPU-minutes
    python benchmarks/soak.py --minutes 2

Each round loads a model from its bytes, predicts, decodes, gives marginals, samples and saves, and now and then fits.
Growth of memory is counted from the end of the first minute (or of the first tenth), when everything is compiled. The
last line is JSON.
"""

import argparse
import gc
import json
import os
import sys
import threading
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import numpy as np

import rulefield as rf
from fuzzing.models import CASES, targets
from rulefield.exceptions import RulefieldError
from rulefield.persistence import model_to_bytes

FIT_EVERY = 50
METHODS = ("predict", "decode", "predict_marginals", "predict_proba", "predict_kbest", "sample", "to_bytes")


def resident_mb():
    """Resident memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def answers(model, X):
    """What all methods say, as text (models are deterministic; samples are made without a seed and only run)."""
    found = {}
    for name in METHODS:
        if not hasattr(model, name):
            continue
        try:
            answer = getattr(model, name)() if name == "to_bytes" else getattr(model, name)(X)
        except RulefieldError as error:
            answer = str(error)
        if name != "sample":
            found[name] = hash(answer) if isinstance(answer, bytes) else repr(answer)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0, help="CPU-minutes")
    minutes = parser.parse_args().minutes
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    models = {name: (model_to_bytes(*state), X) for name, (state, X, _) in targets().items()}
    expected = {name: answers(rf.load(data), X) for name, (data, X) in models.items()}
    for case in CASES:
        case.make().fit(*case.data())
    begun, settled, tried, wrong = time.process_time(), None, 0, 0
    end = begun + 60 * minutes
    while time.process_time() < end:
        name = str(rng.choice(sorted(models)))
        data, X = models[name]
        wrong += answers(rf.load(data), X) != expected[name]
        tried += 1
        if tried % FIT_EVERY == 0:
            case = CASES[int(rng.integers(len(CASES)))]
            case.make().fit(*case.data())
        if settled is None and time.process_time() - begun > min(60, 6 * minutes):
            gc.collect()
            settled = resident_mb(), descriptors(), threading.active_count()
    gc.collect()
    last = resident_mb(), descriptors(), threading.active_count()
    first = settled or last
    print(f"{tried} rounds over {len(models)} models, {wrong} wrong answers")
    print(
        f"memory {first[0]:.0f} -> {last[0]:.0f} MB, descriptors {first[1]} -> {last[1]}, threads {first[2]} -> {last[2]}"
    )
    growth = round(last[0] - first[0], 1)
    same = first[1:] == last[1:]
    print(
        json.dumps({"tried": tried, "wrong": int(wrong), "growth_mb": growth, "same_descriptors_and_threads": same})
    )
    sys.exit(bool(wrong or growth > 10 or not same))


if __name__ == "__main__":
    main()
