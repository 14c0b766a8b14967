"""Names in English news, Table 6 of [Fersini14]: documents of CoNLL-2003, rules by family, in one stage and in two.

    RULEFIELD_DATA=... python benchmarks/papers/conll2003.py [--documents 946] [--rows chain,segments] [--keep DIR]

The paper counts 945 documents for training and 246 for test, and 71.77 to 73.49 % of the tokens right. Labels that are
all "O" would have 83 %, so its measure cannot count them; the nearest reading is the share of entity tokens that get the
right type, which is what the rows show, with span F1 beside. Its features are not stated: here they are those of each word
alone. Its test part is not stated either (no published part has 246 documents): here it is eng.testa, 216 documents. Each
difference from the chain has a standard error over documents. The last line is JSON.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import data_folder, kept, read_columns, timed
from families import ALL, FIVE, mined_families, plain
from rulefield import ChainCRF, RuledCRF, SegmentCRF, TokenFeatures
from rulefield.encode.spans import convert
from rulefield.estimators.ruled.held_out import CrossFitted, cross_fit
from rulefield.metrics import span_f1
from rulefield.rules import mine

PAPER = {"chain": 71.77, "segments": 65.30, "one stage, eq. 30": 73.49}
FEATURES = TokenFeatures(window=0, affixes=0, position=False)
Documents = tuple[list[list[str]], list[list[str]]]
Answers = list[list[str]]


def load(part: str) -> Documents:
    """Words and BIO labels of each document."""
    documents: list[list[tuple[str, ...]]] = []
    for sentence in read_columns(data_folder() / "conll2003_en" / f"eng.{part}.gz"):
        if sentence[0][0] == "-DOCSTART-":
            documents.append([])
        else:
            documents[-1].extend(sentence)
    documents = [document for document in documents if document]
    return [[t[0] for t in d] for d in documents], [convert([t[-1] for t in d], "IOB1", "BIO") for d in documents]


def right_by_document(gold: Answers, guess: Answers) -> np.ndarray:
    """Entity tokens, and those of the right type, of each document."""
    return np.array(
        [
            [sum(a != "O" for a in g), sum(a == b != "O" for a, b in zip(g, p))]
            for g, p in zip(map(plain, gold), map(plain, guess))
        ]
    )


def scores(gold: Answers, guess: Answers, chain: Answers) -> dict[str, float]:
    """Share of entity tokens with the right type, its gain over the chain with a standard error, and span F1."""
    own, base = right_by_document(gold, guess), right_by_document(gold, chain)
    gain = own[:, 1] - base[:, 1]
    error = np.sqrt(len(gain)) * gain.std(ddof=1) / own[:, 0].sum()
    found = {"accuracy": own[:, 1].sum() / own[:, 0].sum(), "gain": gain.sum() / own[:, 0].sum(), "error": error}
    return {name: round(100 * float(v), 2) for name, v in (found | {"f1": span_f1(gold, guess)}).items()}


def rows(train: Documents, test: Documents) -> Iterator[tuple[str, Callable[[], Answers]]]:
    """Names and makers of the answers on the test part; the chain comes first."""
    labels = sorted({label for row in train[1] for label in row})

    @cache
    def fitted() -> CrossFitted:
        return cross_fit(ChainCRF(scheme="BIO", features=FEATURES), *train, random_state=0)

    @cache
    def residual() -> list:
        rules = mine(*train, scheme="BIO", labels=labels)
        weights = fitted().weights_of(rules).tolist()
        return [rule.soft(weight) for rule, weight in zip(rules, weights) if weight > 0]

    def one_stage(rules: Any) -> Answers:
        return fitted().crf.predict(test[0], rules=rules)

    def two_stages(rules: Any) -> Answers:
        return RuledCRF(fitted(), rules=rules, method="two-stage", random_state=0).fit(*train).predict(test[0])

    yield "chain", lambda: fitted().crf.predict(test[0])
    yield "found rules", lambda: RuledCRF(fitted(), random_state=0).fit(*train).predict(test[0])
    yield "found rules, two stages", lambda: two_stages("find")
    yield "segments", lambda: SegmentCRF(scheme="BIO", features=FEATURES).fit(*train).predict(test[0])
    families = mined_families(*train, "BIO", labels)
    for name, rules in families.items():
        if name not in (ALL, FIVE) and rules:
            yield f"one stage, eq. 30: {name}", lambda rules=rules: one_stage(rules)
    yield "one stage, eq. 30", lambda: one_stage(families[ALL])
    yield "two stages, eq. 30", lambda: two_stages(families[ALL])
    yield "one stage, residual", lambda: one_stage(residual())
    yield "two stages, residual", lambda: two_stages(residual())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=946)
    parser.add_argument("--rows")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    train, test = load("train"), load("testa")
    train = train[0][: options.documents], train[1][: options.documents]
    print(f"{len(train[0])} documents to learn from, {len(test[0])} to test", flush=True)
    table: dict[str, dict[str, float]] = {}
    chain: Answers = []
    for name, answers in rows(train, test):
        if options.rows and name != "chain" and name not in options.rows.split(","):
            continue
        guess, seconds = kept(options.keep, name, timed, lambda answers=answers: list(map(list, answers())))
        chain = chain or guess
        row = table[name] = scores(test[1], guess, chain) | {"cpu_s": round(seconds, 1)}
        print(
            f"  {name:36s} {row['accuracy']:6.2f}  {row['gain']:+.2f} ({row['error']:.2f})  F1 {row['f1']:.2f}  "
            f"{row['cpu_s']:.0f} CPU-s   paper {PAPER.get(name, '-')}",
            flush=True,
        )
    print(json.dumps({"rows": table, "paper": PAPER}))


if __name__ == "__main__":
    main()
