"""One model from scattered annotation: single tasks, latent joint, posterior regularization, oracle ([Goyal16]).

    RULEFIELD_DATA=... python benchmarks/papers/joint_pr.py --english [--features words] [--draws 5] [--sizes 1,2,4]

``--english`` is the paper's own task: sentences of CoNLL-2003 eng.train, some with names only, some with parts of speech
only; test is eng.testa (3,250 sentences). Row "pr" takes its ranges from the rest of eng.train, an upper bound on what
expectations can bring; "pr_spanish" from CoNLL-2002 Spanish, as the paper says it does. The ranges printed in its
table 2 are the shares of English (I-PER with NOUN .053 to .055; English has .053, Spanish .016). Without ``--english``
CoNLL-2002 Spanish is both (esp.testb).

Every model has its default settings but for the features: "words" describes each word by itself (word, shape, affixes,
classes), "default" its neighbors too, "caseless" words, affixes and neighbors without anything that says "capital letter".
The paper says "a standard set of indicator features". The last line is JSON.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import data_folder, kept, read_columns
from rulefield import ChainCRF, JointCRF
from rulefield.datasets import load_conll2003
from rulefield.encode.tokens import TokenFeatures
from rulefield.metrics import span_f1, span_precision, span_recall, token_accuracy
from rulefield.rules.expectations import share
from rulefield.rules.finding.estimate import expectations_from

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
PENN = {
    "NN": "NOUN", "VB": "VERB", "MD": "VERB", "JJ": "ADJ", "RB": "ADV", "WRB": "ADV", "DT": "DET", "PDT": "DET", "WDT": "DET",
    "EX": "DET", "PRP": "PRON", "WP": "PRON", "IN": "ADP", "CC": "CONJ", "CD": "NUM", "RP": "PRT", "TO": "PRT", "POS": "PRT",
}  # fmt: skip
FEATURES = {
    "words": TokenFeatures(window=0, position=False),
    "default": TokenFeatures(),
    "caseless": TokenFeatures(affixes=3, window=1, position=False, shapes=False, classes=False),
}
BASES = {"single": "single", "latent": "single", "pr_spanish": "latent", "pr": "latent", "oracle": "pr"}
"""Rows in the paper's order, and which row each is compared with."""
TASKS = ("ner", "pos")
Tagged = tuple[list, list]


def kinds(y) -> list:
    """The kinds of expectation of the paper's table 2: (O, NOUN), names by tag (here all), its six joint steps."""
    labels = {task: sorted({label for row in y for label in row[task]}) for task in TASKS}
    noun, stop = {"pos": "NOUN"}, {"ner": "O", "pos": "."}
    names = [share(ner=name, pos=tag) for name in labels["ner"] if name != "O" for tag in labels["pos"]]
    return [
        share(ner="O", **noun),
        *names,
        share(ner="I-PER", **noun, after={"ner": "B-PER", **noun}),
        share(ner="I-ORG", **noun, after={"ner": "B-ORG", **noun}),
        share(**stop, after={"ner": "B-LOC", **noun}),
        share(**stop, after={"ner": "B-PER", **noun}),
        share(ner="O", pos="NUM", after={"ner": "B-ORG", **noun}),
        share(ner="B-LOC", **noun, after=stop),
    ]


def universal(tag: str) -> str:
    """Return the universal tag of a Penn tag (Petrov et al., 2011)."""
    if not tag[0].isalpha():
        return "."
    return next((PENN[tag[:n]] for n in (3, 2) if tag[:n] in PENN), "X")


def load_spanish(part: str) -> Tagged:
    sentences = read_columns(data_folder() / "conll2002_es" / part)
    X = [[token[0] for token in s] for s in sentences]
    return X, [{"ner": [t[2] for t in s], "pos": [UNIVERSAL.get(t[1][0], "X") for t in s]} for s in sentences]


def load_english(part: str) -> Tagged:
    tokens, names = load_conll2003(part)
    y = [{"ner": own, "pos": [universal(t[1]) for t in s]} for s, own in zip(tokens, names)]
    return [[t[0] for t in s] for s in tokens], y


def evaluate(predicted, y) -> dict:
    ner, pos = [p["ner"] for p in predicted], [p["pos"] for p in predicted]
    gold_ner, gold_pos = [row["ner"] for row in y], [row["pos"] for row in y]
    return {
        "ner_precision": span_precision(gold_ner, ner, scheme="BIO"),
        "ner_recall": span_recall(gold_ner, ner, scheme="BIO"),
        "ner_f1": span_f1(gold_ner, ner, scheme="BIO"),
        "pos_accuracy": token_accuracy(gold_pos, pos),
    }


def single(X, y, test, features, jobs: int):
    """Each task alone, from its own sentences."""
    found = {}
    for task, scheme in (("ner", "BIO"), ("pos", None)):
        rows = [i for i, row in enumerate(y) if row.get(task) is not None]
        crf = ChainCRF(scheme=scheme, features=features, n_jobs=jobs)
        found[task] = crf.fit([X[i] for i in rows], [y[i][task] for i in rows]).predict(test)
    return [{"ner": a, "pos": b} for a, b in zip(found["ner"], found["pos"])]


def joint(X, y, expectations, test: Tagged, features, jobs: int) -> dict:
    """Scores of a JointCRF, and how its expectations fared."""
    begun = time.process_time()
    crf = JointCRF(scheme={"ner": "BIO"}, features=features, expectations=expectations, n_jobs=jobs).fit(X, y)
    seconds = time.process_time() - begun
    strongest = sorted(crf.expectations_, key=lambda e: -abs(e.multiplier))[:11]
    return evaluate(crf.predict(test[0]), test[1]) | {
        "fit_cpu_s": seconds,
        "ended": crf.converged_,
        "held": [e.low - 1e-3 <= e.under_q <= e.high + 1e-3 for e in crf.expectations_],
        "strongest": [
            f"{e.under_q:.4f} {e.under_model:.4f} {e.predicted:.4f} [{max(e.low, 0):.4f}, {e.high:.4f}] "
            f"{e.multiplier:+.2f}  {e.expectation}"
            for e in strongest
        ],
    }


def draw(size: int, seed: int, train: Tagged, test: Tagged, other: Tagged | None, options) -> dict[str, dict]:
    """Scores of every row on one draw of sentences."""
    X, y = train
    order = np.random.default_rng(seed).permutation(len(X))
    n_ner, n_pos = SIZES[size]
    rows, rest = order[: n_ner + n_pos], [y[i] for i in order[n_ner + n_pos :]]
    tokens, full = [X[i] for i in rows], [y[i] for i in rows]
    scattered = [{task: row[task]} for task, row in zip(["ner"] * n_ner + ["pos"] * n_pos, full)]
    sample = sum(map(len, tokens)) // 2
    features, jobs = FEATURES[options.features], options.jobs

    def ranges(labels):
        return expectations_from(labels, kinds(full), sample=sample, errors=0.5)

    makers = {
        "single": lambda: evaluate(single(tokens, scattered, test[0], features, jobs), test[1]),
        "latent": lambda: joint(tokens, scattered, None, test, features, jobs),
        "pr": lambda: joint(tokens, scattered, ranges(rest), test, features, jobs),
        "oracle": lambda: joint(tokens, full, None, test, features, jobs),
    }
    if other is not None:
        makers["pr_spanish"] = lambda: joint(tokens, scattered, ranges(other[1]), test, features, jobs)
    language = "en" if options.english else "es"
    wanted = options.rows.split(",") if options.rows else list(makers)
    found = {}
    for name in wanted:
        found[name] = kept(options.keep, f"{language} {options.features} {size}x {seed} {name}", makers[name])
    show(size, seed, found)
    return found


def show(size: int, seed: int, found: dict[str, dict]) -> None:
    ours = ", ".join(f"{name} {row['ner_f1']:.4f}/{row['pos_accuracy']:.4f}" for name, row in found.items())
    print(f"  {size}x, draw {seed}: {ours}", flush=True)
    if seed or "pr" not in found:
        return
    print("  the eleven with the largest multipliers: under q, model, predictions, range, multiplier")
    for line in found["pr"]["strongest"]:
        print(f"    {line}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--sizes", default="1,2,4")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--english", action="store_true")
    parser.add_argument("--features", default="words", choices=FEATURES)
    parser.add_argument("--rows", help="some of the rows, such as single,latent")
    parser.add_argument("--keep", type=Path, help="keep the figures of each row and draw here, and go on from them")
    options = parser.parse_args()
    spanish = load_spanish("esp.train.gz")
    train, test = spanish, load_spanish("esp.testb")
    if options.english:
        train, test = load_english("train"), load_english("testa")
    other = spanish if options.english else None
    rows: dict[str, dict[str, float]] = {}
    all_held: list[bool] = []
    for size in map(int, options.sizes.split(",")):
        runs = []
        for seed in range(options.first, options.first + options.draws):
            runs.append(draw(size, seed, train, test, other, options))
            all_held += runs[-1].get("pr", {}).get("held", [])
        rows |= summary(size, runs)
    paper = {f"{size}x {name}": f1 for size, own in PAPER.items() for name, (f1, _) in own.items()}
    held = round(float(np.mean(all_held)), 4) if all_held else None
    shared = {"features": options.features, "draws": options.draws, "held": held}
    print(json.dumps({"rows": rows, "paper": {name: paper[name] for name in rows if name in paper}} | shared))


def summary(size: int, runs: list[dict]) -> dict[str, dict[str, float]]:
    """Means over draws of every row, the gain in F1 over the row before it in the paper's order, and its standard error."""
    out: dict[str, dict[str, float]] = {}
    print(f"{size}x: mean of NER F1 and PoS accuracy, the paper's beside")
    for method, base in BASES.items():
        if method not in runs[0] or base not in runs[0]:
            continue
        measures = [key for key, value in runs[0][method].items() if not isinstance(value, list)]
        row = {key: float(np.mean([run[method][key] for run in runs])) for key in measures}
        gains = np.array([run[method]["ner_f1"] - run[base]["ner_f1"] for run in runs])
        row |= {"gain": float(gains.mean())}
        row |= {"error": float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else float("nan")}
        out[f"{size}x {method}"] = {key: round(value, 4) for key, value in row.items()}
        print(
            f"  {method:12s} P {row['ner_precision']:.3f} R {row['ner_recall']:.3f} F1 {row['ner_f1']:.3f} PoS "
            f"{row['pos_accuracy']:.3f}, over {base} {row['gain']:+.4f} ({row['error']:.4f}) | {PAPER[size].get(method, '')}"
        )
    return out


if __name__ == "__main__":
    main()
