"""Two stages ([Fersini14]): the prices of the paper against residual ones, tau chosen on folds with a standard error.

The chain and the sets are those of learned_rules.py: Cora (300 to learn from), US50 (51) and names of companies (400).
Mined rules have the prices of eq. 30 or residual prices found together; both choose tau on the cross-fitted training part, a
standard error from the best. Beside them the same rules paid softly. Each test part is read once per row.

    RULEFIELD_DATA=... python benchmarks/papers/two_stage.py [--sets cora,us50,companies] [--splits 5] [--jobs 1]
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import data_folder
from families import interval
from learned_rules import SETS, gains_of
from rulefield import RuledCRF
from rulefield.estimators.ruled.held_out import cross_fit
from rulefield.rules import mine

STAGES, PAPER, SOFT, PAPER_SOFT = "two stages, residual", "two stages, eq. 30", "soft, residual", "soft, eq. 30"


def run_split(data, train, test, seed: int, jobs: int) -> dict[str, dict]:
    """Gains over the chain in tokens, whole sequences and spans, and each tau."""
    fitted = cross_fit(data.chain().set_params(n_jobs=jobs), *train, random_state=seed)
    crf = fitted.crf
    options = {"scheme": crf.scheme, "labels": [str(c) for c in crf.classes_]}
    paper = mine(*train, price="eq30", **options)
    weights = fitted.weights_of(paper).tolist()
    rules = {SOFT: [rule.soft(weight) for rule, weight in zip(paper, weights) if weight > 0], PAPER_SOFT: paper}
    staged = {STAGES: rules[SOFT], PAPER: rules[PAPER_SOFT]}
    models = {
        name: RuledCRF(fitted, rules=own, method="two-stage", random_state=seed, n_jobs=jobs).fit(*train)
        for name, own in staged.items()
    }
    before = list(crf.predict(test[0]))
    answers = {name: list(model.predict(test[0])) for name, model in models.items()}
    answers |= {name: list(crf.predict(test[0], rules=own)) for name, own in rules.items()}
    found = {name: gains_of(data, test, before, after, crf.scheme) for name, after in answers.items()}
    for name, model in models.items():
        found[name]["tau"] = (model.tau_, 0.0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", default="cora,us50,companies")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    data_folder()
    record: dict[str, dict[str, float]] = {}
    for name in options.sets.split(","):
        data = SETS[name]()
        runs = [
            run_split(data, train, test, seed, options.jobs)
            for seed, (train, test) in enumerate(data.splits(options.splits))
        ]
        for row in (STAGES, PAPER, SOFT, PAPER_SOFT):
            gained = {m: np.array([run[row][m][0] for run in runs]) for m in ("tokens", "whole", "spans")}
            low, high = interval(gained["tokens"])
            taus = ", ".join(f"{run[row]['tau'][0]:g}" for run in runs) if "tau" in runs[0][row] else "-"
            print(
                f"  {name:10s} {row:22s} tokens {gained['tokens'].mean():+.2f} [{low:+.2f}, {high:+.2f}], whole "
                f"{gained['whole'].mean():+.2f}, spans {gained['spans'].mean():+.2f}; tau {taus}",
                flush=True,
            )
            record[f"{name}: {row}"] = {m: round(float(v.mean()), 4) for m, v in gained.items()}
    print(json.dumps(record))


if __name__ == "__main__":
    main()
