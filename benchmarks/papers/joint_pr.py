"""One model from scattered annotation: single tasks, latent joint, posterior regularization, oracle ([Goyal16]).

CoNLL-2002 Spanish has names and parts of speech on the same sentences. A draw takes some sentences with names only, some
with parts of speech only, and estimates expectations on the rest of the training file. Test is esp.testb, read once.

Features are words, prefixes, suffixes and neighboring words; nothing says "capital letter", or parts of speech would have
nothing to add. Joint models begin at the single tasks and are trained to the end, by gradient, with weights of features with
joint labels (section 3.1 of the paper); the expectations speak of each of the two corpora.

    RULEFIELD_DATA=... python benchmarks/papers/joint_pr.py [--draws 5] [--sizes 1,2,4] [--jobs 2]
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from distant import recovery

from common import data_folder, read_columns
from rulefield import ChainCRF, JointCRF, PosteriorRegularization
from rulefield.encode.tokens import TokenFeatures
from rulefield.metrics import span_f1, span_precision, span_recall, token_accuracy
from rulefield.rules.expectations import share
from rulefield.rules.finding.estimate import expectations_from, joint_counts

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
FEATURES = TokenFeatures(affixes=3, window=1, bigrams=False, position=False, shapes=False, classes=False)
L2 = 0.5
SLACK = 0.001
MAX_ITER = 500
"""Far more than any of these fits needs: they end by themselves."""
ERRORS = 0.5
"""Half the width of ranges, in standard errors of a share in a corpus of that size."""


def kinds(y) -> list:
    """The kinds of expectation of the paper's table 2: (O, NOUN), names by tag (here all), its six joint steps."""
    labels = {task: sorted({label for row in y for label in row[task] or ()}) for task in ("ner", "pos")}
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


def widened(expectations: list, y, rest) -> list:
    """Ranges of joint labels widened by what a corpus itself says: its share of names times P(tag | name), or likewise.

    Names are bursty. A corpus with few organisations cannot hold many of them whatever the latent tags are.
    """
    counts = joint_counts(rest)
    total = {task: Counter(label for row in rest for label in row[task]) for task in ("ner", "pos")}
    known = {task: Counter(label for row in y for label in row[task] or ()) for task in ("ner", "pos")}
    out = []
    for e in expectations:
        if e.quantity.after is None:
            pair = {task: pattern.alternatives[0] for task, pattern in e.quantity.here}
            n = counts[pair["ner"], pair["pos"]]
            likely = [known[t][pair[t]] / known[t].total() * n / max(total[t][pair[t]], 1) for t in known]
            low, high = min(e.low, *likely), max(e.high, *likely)
            e = e.quantity.between(low, high) if low > 0 else e.quantity.at_most(high)
        out.append(e)
    return out


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
        crf = ChainCRF(l2=L2, scheme=scheme, features=FEATURES, all_states=True, tol=1e-4, n_jobs=jobs)
        crf.fit([X[i] for i in rows], [y[i][task] for i in rows])
        found[task] = crf.predict(test)
    return [{"ner": a, "pos": b} for a, b in zip(found["ner"], found["pos"])]


def joint(X, y, test, jobs: int, **options):
    crf = JointCRF(
        tasks=["ner", "pos"], scheme={"ner": "BIO"}, l2=L2, features=FEATURES, all_states=True, n_jobs=jobs, **options
    )
    crf.fit(X, y)
    return crf, crf.predict(test)


def held(crf) -> list[bool]:
    return [e.low - SLACK - 1e-4 <= e.under_q <= e.high + SLACK + 1e-4 for e in crf.expectations_]


def draw(size: int, seed: int, X, y, test, gold, jobs: int) -> tuple[dict, list[bool]]:
    order = np.random.default_rng(seed).permutation(len(X))
    n_ner, n_pos = SIZES[size]
    parts = [("ner", order[:n_ner]), ("pos", order[n_ner : n_ner + n_pos])]
    parts.sort(
        key=lambda part: -len(part[1])
    )  # the larger corpus first: batches of its size then are the two corpora
    batch, rows = len(parts[0][1]), [i for _, own in parts for i in own]
    tokens, full = [X[i] for i in rows], [y[i] for i in rows]
    scattered = [{"ner": None, "pos": None} | {task: y[i][task]} for task, own in parts for i in own]
    half = sum(map(len, tokens)) // 2
    rest = [y[i] for i in order[n_ner + n_pos :]]
    expectations = expectations_from(rest, kinds(scattered), sample=half, errors=ERRORS)
    expectations = widened(expectations, scattered, rest)
    found = {"single": evaluate(single(tokens, scattered, test, jobs), gold)}
    latent = PosteriorRegularization(learning="gradient")
    keeper = PosteriorRegularization(expectations, batch=batch, slack=SLACK, learning="gradient")
    for name, labels, how in (("latent", scattered, latent), ("pr", scattered, keeper), ("oracle", full, latent)):
        begun = time.process_time()
        crf, predicted = joint(tokens, labels, test, jobs, expectations=how, max_iter=MAX_ITER)
        found[name] = evaluate(predicted, gold) | {"fit_cpu_s": time.process_time() - begun, "ended": crf.converged_}
        if name == "pr":
            kept = crf
    ok = held(kept)
    show(size, seed, found, kept, ok)
    return found, ok


def show(size: int, seed: int, found: dict, crf, ok: list[bool]) -> None:
    ours = ", ".join(f"{name} {row['ner_f1']:.4f}/{row['pos_accuracy']:.4f}" for name, row in found.items())
    print(
        f"  {size}x, draw {seed}: {ours}; PR fit {found['pr']['fit_cpu_s']:.0f} CPU-s, {np.mean(ok):.3f} held",
        flush=True,
    )
    if seed:
        return
    strongest = sorted(crf.expectations_, key=lambda e: -abs(e.multiplier))[:11]
    print("  the eleven with the largest multipliers: under q, model, predictions, range, multiplier")
    for e in strongest:
        print(
            f"    {e.under_q:.4f} {e.under_model:.4f} {e.predicted:.4f} [{max(e.low, 0):.4f}, {e.high:.4f}] "
            f"{e.multiplier:+.2f}  {e.expectation}"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--sizes", default="1,2,4")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--test", default="esp.testb", help="esp.testa while tuning")
    parser.add_argument("--no-distant", action="store_true", help="leave distant supervision out")
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
    if not options.no_distant:
        figures["distant_recovery"] = recovery(options.draws, test=options.test, jobs=options.jobs)["recovery"][0]
    print(json.dumps(figures))


def summary(size: int, runs: list[dict]) -> dict:
    out: dict = {}
    print(f"{size}x: mean (spread) of NER F1 and PoS accuracy, the paper's beside")
    for method in runs[0]:
        values = {key: [run[method][key] for run in runs] for key in runs[0][method]}
        out[method] = {key: [round(float(np.mean(v)), 4), round(float(np.std(v)), 4)] for key, v in values.items()}
        f1, accuracy = out[method]["ner_f1"], out[method]["pos_accuracy"]
        ours = f"P {np.mean(values['ner_precision']):.3f} R {np.mean(values['ner_recall']):.3f}"
        paper = PAPER[size].get(method, "")
        print(
            f"  {method:17s} {ours} F1 {f1[0]:.3f} ({f1[1]:.3f}) PoS {accuracy[0]:.3f} ({accuracy[1]:.3f}) | {paper}"
        )
    gain = {a: np.mean([run[a]["ner_f1"] for run in runs]) for a in ("single", "latent", "pr")}
    out["latent_gain_over_single"] = round(float(gain["latent"] - gain["single"]), 4)
    out["pr_gain_over_latent"] = round(float(gain["pr"] - gain["latent"]), 4)
    return out


if __name__ == "__main__":
    main()
