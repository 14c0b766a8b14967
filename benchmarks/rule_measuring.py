"""Measuring candidate rules: one compiled pass over all labelings against a loop over rules and labelings.

5,000 candidates (counts by template, and every family of mined rules) on the 20 best labelings of 1,000 generated citations,
whose labels have no prefixes (as in files of parserator's users: segments are runs). The loop is what learning did before:
each rule reads each labeling in Python. It is timed on every 200th labeling and scaled; the amounts that it reads must be
those of the pass. CPU seconds, one thread.

    python benchmarks/rule_measuring.py [--sequences 1000] [--rules 5000]
"""

import argparse
import json
from itertools import pairwise
from time import process_time

import numpy as np

from rulefield import ChainCRF
from rulefield.datasets import make_citations
from rulefield.inference.sequences.exact import kbest
from rulefield.rules import RuleCompiler, propose
from rulefield.rules.chain.tallies import values_of
from rulefield.rules.finding.mine import FAMILIES, TOKEN_CLASS, mine_table


class Runner:
    """An automaton as lists: for each state and letter its arcs."""

    def __init__(self, automaton):
        arcs = list(zip(automaton.arc_to.tolist(), automaton.arc_amount.tolist()))
        self.cells = [tuple(arcs[a:b]) for a, b in pairwise(automaton.arc_ptr.tolist())]
        self.letters = automaton.n_letters
        self.start = [(s, amount) for s, amount in enumerate(automaton.initial.tolist()) if amount >= 0]
        self.final = automaton.final.tolist()

    def __call__(self, letters) -> int:
        """Amount of the only run over these letters that ends well."""
        runs = self.start
        for letter in letters:
            runs = [(to, so_far + more) for s, so_far in runs for to, more in self.cells[s * self.letters + letter]]
        (total,) = [so_far + self.final[s] for s, so_far in runs if self.final[s] >= 0]
        return total


class Loop:
    """Amounts rule by rule and labeling by labeling."""

    def __init__(self, compiler):
        self.compiler, self.runners = compiler, {}

    def __call__(self, tokens, labels) -> list[int]:
        return [self.amount(rule, labels) for rule in self.compiler(tokens)]

    def amount(self, rule, labels) -> int:
        if rule.tally is not None:
            return sum(values_of(rule.tally, rule.token_class, labels))
        if rule.counters:
            return sum(max(0, sum(values_of(c.tally, rule.token_class, labels)) - c.bound) for c in rule.counters)
        key = id(rule.automaton)  # the compiler keeps it
        runner = self.runners.get(key) or self.runners.setdefault(key, Runner(rule.automaton))
        return runner(rule.automaton.letter[rule.token_class, labels].tolist())


def candidates(X, y, n_rules: int) -> list:
    """As many mined rules as templates, at a price of 1 (measuring does not look at it)."""
    table = mine_table(X, y, scheme=None, families=(*FAMILIES, TOKEN_CLASS), min_support=0, min_confidence=0.0)
    mined = [row.rule for row in table]
    proposed = propose(y, scheme=None, min_share=0.0, bounds=range(12))
    half = n_rules // 2
    return [rule.soft(1.0) for rule in [*proposed[: n_rules - min(half, len(mined))], *mined[:half]]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sequences", type=int, default=1000)
    parser.add_argument("--rules", type=int, default=5000)
    options = parser.parse_args()
    X, y = make_citations(options.sequences, seed=0)
    y = [[label.split("-")[-1] for label in labels] for labels in y]
    crf = ChainCRF(tol=1e-2).fit(X[:200], y[:200])
    data, decoder = crf._encoder.transform(X), crf._decoder()
    lists = [[result.labels for result in kbest(decoder.potentials(data, i), 20)] for i in range(len(X))]
    labelings = [labels for some in lists for labels in some]
    owner = np.repeat(np.arange(len(X)), [len(some) for some in lists])
    rules = candidates(X, y, options.rules)
    compiler = RuleCompiler(rules, [str(c) for c in crf.classes_], None)
    begun = process_time()
    for i in range(2):  # what both need: tables of all rules, kernels
        compiler.amounts_of_all(X[i : i + 1], lists[i][:1])
        compiler(X[i])
    print(f"{len(rules)} rules compiled in {process_time() - begun:.1f} s")
    some = np.arange(0, len(labelings), 200)
    loop = Loop(compiler)
    loop(X[0], lists[0][0])
    begun = process_time()
    read = np.array([loop(X[owner[j]], labelings[j]) for j in some])
    by_loop = (process_time() - begun) * len(labelings) / len(some)
    begun = process_time()
    amounts = compiler.amounts_of_all(X, labelings, owner)
    in_one_pass = process_time() - begun
    assert (amounts[some].toarray() == read).all(), "the pass and the loop must agree"
    print(
        f"{len(rules)} rules on {len(labelings)} labelings: {in_one_pass:.2f} s in one pass, {by_loop:.0f} s by the loop "
        f"(from {len(some)} labelings); {by_loop / in_one_pass:.0f} times as fast (bar 50)"
    )
    record = {
        "rules": len(rules),
        "labelings": len(labelings),
        "pass_seconds": in_one_pass,
        "loop_seconds": by_loop,
    }
    print(json.dumps(record | {"ratio": by_loop / in_one_pass}))


if __name__ == "__main__":
    main()
