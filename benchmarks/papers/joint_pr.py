"""One model from scattered annotation: single tasks, latent joint, posterior regularisation, oracle (paper 003).

CoNLL-2002 Spanish has names and parts of speech on the same sentences. A draw takes some sentences with names only, some
with parts of speech only, and estimates expectations on the rest of the training file. Test is esp.testb, read once.

    RULEFIELD_DATA=... python benchmarks/papers/joint_pr.py [--draws 5] [--sizes 1,2,4] [--jobs 2]
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from distant import recovery

from common import data_folder, read_columns
from rulefield import ChainCRF, JointCRF
from rulefield.encode.tokens import TokenFeatures
from rulefield.metrics import span_f1, span_precision, span_recall, token_accuracy
from rulefield.rules.estimate import expectations_from
from rulefield.rules.expectations import share

SIZES = {1: (219, 223), 2: (442, 444), 4: (886, 873)}
PAPER = {
    1: {"single": (0.50, 0.83), "latent": (0.52, 0.84), "pr": (0.55, 0.84), "oracle": (0.65, 0.88)},
    2: {"single": (0.62, 0.87), "latent": (0.63, 0.87), "pr": (0.64, 0.87), "oracle": (0.72, 0.90)},
    4: {"single": (0.69, 0.89), "latent": (0.70, 0.90), "pr": (0.70, 0.90), "oracle": (0.77, 0.92)},
}
UNIVERSAL = {
    "N": "NOUN", "V": "VERB", "A": "ADJ", "R": "ADV", "D": "DET", "P": "PRON", "S": "ADP", "C": "CONJ", "F": ".",
    "Z": "NUM", "W": "NUM", "I": "PRT", "Y": "X",
}  # fmt: skip
FEATURES = TokenFeatures(affixes=3, window=1, bigrams=False, position=True)
L2 = 1.0


def kinds() -> list:
    """The eleven kinds of expectation of the paper's table 2, in this corpus's B-/I- labels."""
    noun, stop = {"pos": "NOUN"}, {"ner": "O", "pos": "."}
    return [
        share(ner="O", **noun),
        share(ner="B-PER", **noun),
        share(ner="B-ORG", **noun),
        share(ner="B-LOC", **noun),
        share(ner="B-MISC", **noun),
        share(ner="I-PER", **noun, after={"ner": "B-PER", **noun}),
        share(ner="I-ORG", **noun, after={"ner": "B-ORG", **noun}),
        share(**stop, after={"ner": "B-LOC", **noun}),
        share(**stop, after={"ner": "B-PER", **noun}),
        share(ner="O", pos="NUM", after={"ner": "B-ORG", **noun}),
        share(ner="B-LOC", **noun, after=stop),
    ]


def load(name: str):
    sentences = read_columns(data_folder() / "conll2002_es" / name)
    X = [[token[0] for token in s] for s in sentences]
    y = [{"ner": [t[2] for t in s], "pos": [UNIVERSAL.get(t[1][0], "X") for t in s]} for s in sentences]
    return X, y


def evaluate(predicted, y) -> dict:
    ner, pos = [p["ner"] for p in predicted], [p["pos"] for p in predicted]
    gold_ner, gold_pos = [row["ner"] for row in y], [row["pos"] for row in y]
    return {
        "ner_precision": span_precision(gold_ner, ner, scheme="BIO"),
        "ner_recall": span_recall(gold_ner, ner, scheme="BIO"),
        "ner_f1": span_f1(gold_ner, ner, scheme="BIO"),
        "pos_accuracy": token_accuracy(gold_pos, pos),
    }


def single(X, y, test, jobs: int):
    """Each task alone, from its own sentences."""
    found = {}
    for task, scheme in (("ner", "BIO"), ("pos", None)):
        rows = [i for i, row in enumerate(y) if row.get(task) is not None]
        crf = ChainCRF(l2=L2, scheme=scheme, features=FEATURES, n_jobs=jobs)
        crf.fit([X[i] for i in rows], [y[i][task] for i in rows])
        found[task] = crf.predict(test)
    return [{"ner": a, "pos": b} for a, b in zip(found["ner"], found["pos"])]


def joint(X, y, test, jobs: int, expectations=None):
    crf = JointCRF(
        ["ner", "pos"],
        scheme={"ner": "BIO"},
        l2=L2,
        features=FEATURES,
        expectations=expectations,
        slack=0.0005,
        n_jobs=jobs,
    )
    crf.fit(X, y)
    return crf, crf.predict(test)


def held(crf) -> list[bool]:
    return [e.low - crf.slack - 1e-4 <= e.under_q <= e.high + crf.slack + 1e-4 for e in crf.expectations_]


def draw(size: int, seed: int, X, y, test, gold, jobs: int) -> tuple[dict, list[bool]]:
    n_ner, n_pos = SIZES[size]
    order = np.random.default_rng(seed).permutation(len(X))
    ner, pos, rest = order[:n_ner], order[n_ner : n_ner + n_pos], order[n_ner + n_pos :]
    rows = [*ner, *pos]
    X_train = [X[i] for i in rows]
    scattered = [{"ner": y[i]["ner"], "pos": None} for i in ner] + [{"ner": None, "pos": y[i]["pos"]} for i in pos]
    expectations = expectations_from([y[i] for i in rest], kinds(), width=0.05)
    found = {"single": evaluate(single(X_train, scattered, test, jobs), gold)}
    found["latent"] = evaluate(joint(X_train, scattered, test, jobs)[1], gold)
    begun = time.perf_counter()
    crf, predicted = joint(X_train, scattered, test, jobs, expectations)
    seconds = time.perf_counter() - begun
    found["pr"] = evaluate(predicted, gold) | {"fit_s": seconds}
    found["oracle"] = evaluate(joint(X_train, [y[i] for i in rows], test, jobs)[1], gold)
    print(f"  {size}x, draw {seed}: PR fit {seconds:.0f} s; expectations under q, model, range:")
    for e in crf.expectations_:
        print(
            f"    {e.under_q:.4f} {e.under_model:.4f} [{e.low:.4f}, {e.high:.4f}] pull {e.pull:+.2f}  {e.expectation}"
        )
    return found, held(crf)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--sizes", default="1,2,4")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--test", default="esp.testb", help="esp.testa while tuning")
    options = parser.parse_args()
    X, y = load("esp.train.gz")
    test, gold = load(options.test)
    figures: dict = {}
    all_held: list[bool] = []
    for size in map(int, options.sizes.split(",")):
        runs = []
        for seed in range(options.draws):
            found, ok = draw(size, seed, X, y, test, gold, options.jobs)
            runs.append(found)
            all_held += ok
        figures[f"x{size}"] = summary(size, runs)
    figures["expectations_held"] = float(np.mean(all_held))
    figures["distant_recovery"] = recovery(options.draws, test=options.test, jobs=options.jobs)["recovery"][0]
    print(json.dumps(figures))


def summary(size: int, runs: list[dict]) -> dict:
    out: dict = {}
    print(f"{size}x: mean (spread) of NER F1 and PoS accuracy, the paper's beside")
    for method in ("single", "latent", "pr", "oracle"):
        values = {key: [run[method][key] for run in runs] for key in runs[0][method]}
        out[method] = {key: [round(float(np.mean(v)), 4), round(float(np.std(v)), 4)] for key, v in values.items()}
        f1, accuracy = out[method]["ner_f1"], out[method]["pos_accuracy"]
        ours = f"P {np.mean(values['ner_precision']):.3f} R {np.mean(values['ner_recall']):.3f}"
        paper = PAPER[size][method]
        print(
            f"  {method:8s} {ours} F1 {f1[0]:.3f} ({f1[1]:.3f}) PoS {accuracy[0]:.3f} ({accuracy[1]:.3f}) | {paper}"
        )
    gain = {a: np.mean([run[a]["ner_f1"] for run in runs]) for a in ("single", "latent", "pr")}
    out["latent_gain_over_single"] = round(float(gain["latent"] - gain["single"]), 4)
    out["pr_gain_over_latent"] = round(float(gain["pr"] - gain["latent"]), 4)
    return out


if __name__ == "__main__":
    main()
