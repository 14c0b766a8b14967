"""Joint labeling under rules against the same model's plain labeling: CoNLL-2002 Spanish, names and parts of speech.

A JointCRF (9 x 12 joint labels) learned from 800 sentences of esp.train labels esp.testb with and without rules about names,
about parts of speech, and across both. CPU seconds of one thread, best of several runs: from encoded sentences (scores,
labels, and with rules their conditions on tokens), and from tokens. Every answer under rules is proved best.

    RULEFIELD_DATA=... python benchmarks/joint_rules.py [--repeats 3]
"""

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "papers"))

from joint_pr import FEATURES, evaluate, load_spanish

from rulefield import JointCRF
from rulefield import rules as r

SENTENCES = 800
RULES = [
    r.absent({"ner": "B-*", "pos": "."}, level="token").named("no name begins with punctuation"),
    r.absent({"ner": "B-*", "pos": "ADP"}, level="token").soft(2.0),
    r.absent({"ner": "PER", "pos": ["VERB", "NUM"]}, level="token").soft(1.5),
    r.at(r.token_matches(r"^[.,;:()]$"), here=".", task="pos").named("punctuation is punctuation"),
    r.at(r.token_matches(r"^\d+$"), here="NUM", task="pos").soft(2.0),
    r.at(r.token_equals("de"), prev={"ner": "PER"}, next={"ner": ["PER", "O"]}).soft(1.0),
    r.last(".", task="pos").soft(1.0),
    r.present("VERB", task="pos").soft(1.0),
    r.implies(r.present("PER", task="ner"), r.present({"pos": "VERB"})).soft(0.5),
    r.eventually({"ner": "PER"}, {"pos": "VERB"}).soft(0.3),
    (r.segments("PER", task="ner") <= 5).soft(0.5),
    (r.count("NUM", task="pos") <= 8).soft(0.3),
    (r.segments("LOC", task="ner") <= r.count("NOUN", task="pos")).named("no more places than nouns"),
]


def fit() -> JointCRF:
    X, y = load_spanish("esp.train.gz")
    crf = JointCRF(scheme={"ner": "BIO"}, l2=0.5, features=FEATURES["caseless"], max_iter=300, tol=1e-3)
    return crf.fit(X[:SENTENCES], y[:SENTENCES])


def best_cpu(repeats: int, work) -> float:
    work()  # compiles
    seconds = []
    for _ in range(repeats):
        begun = time.process_time()
        work()
        seconds.append(time.process_time() - begun)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    crf = fit()
    X, y = load_spanish("esp.testb")
    batch = crf._encode(X)

    def encoded(rules):
        crf._answers(rules, crf.on_infeasible, 1).ids(batch)

    found = crf.decode(X, rules=RULES)
    engines: dict[str, int] = {}
    for labeling in found:
        engines[labeling.engine] = engines.get(labeling.engine, 0) + 1
    proved = sum(labeling.status == "optimal" for labeling in found)
    broken = sum(bool(labeling.broken) for labeling in found)
    plain_s, ruled_s = best_cpu(repeats, lambda: encoded([])), best_cpu(repeats, lambda: encoded(RULES))
    tokens_s = best_cpu(1, lambda: crf.predict(X, rules=[]))
    ruled_tokens_s = best_cpu(1, lambda: crf.predict(X, rules=RULES))
    free, ruled = evaluate(crf.predict(X, rules=[]), y), evaluate([labeling.labels for labeling in found], y)
    changed = sum(a != labeling.labels for a, labeling in zip(crf.predict(X, rules=[]), found))
    print(
        f"{len(X)} sentences, {batch.data.n_tokens} tokens, {len(RULES)} rules; {changed} changed, {broken} still pay"
    )
    print(f"engines {engines}; proved {proved}")
    print(f"encoded: plain {plain_s:.3f} s, under rules {ruled_s:.3f} s: {ruled_s / plain_s:.2f}x")
    print(f"from tokens: plain {tokens_s:.3f} s, under rules {ruled_tokens_s:.3f} s")
    for name in ("ner_f1", "pos_accuracy"):
        print(f"{name} {free[name]:.4f} -> {ruled[name]:.4f}")
    figures = {
        "ratio": round(ruled_s / plain_s, 2),
        "ratio_from_tokens": round(ruled_tokens_s / tokens_s, 2),
        "plain_cpu_s": round(plain_s, 3),
        "ruled_cpu_s": round(ruled_s, 3),
        "sentences": len(X),
        "proved": proved,
        "changed": changed,
        "ner_f1": [round(free["ner_f1"], 4), round(ruled["ner_f1"], 4)],
        "pos_accuracy": [round(free["pos_accuracy"], 4), round(ruled["pos_accuracy"], 4)],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
