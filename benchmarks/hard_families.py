"""Hard instances for decoding a chain under rules: 55 families of rule sets that people write, by seed.

Every family is a function of a seed and returns ``Instance``s: unary (n, m) and pairwise (m, m) scores, tokens, label
names, the label scheme and rules in the public language. ``benchmarks/hard_rules.py`` runs them.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rulefield import rules as r
from rulefield.inference.sequences.decode import decode
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem


@dataclass
class Instance:
    """One problem as a user states it."""

    unary: np.ndarray
    pairwise: np.ndarray
    tokens: list[str]
    labels: list[str]
    rules: list
    scheme: str | None = None


def names(m: int) -> list[str]:
    return [f"l{i}" for i in range(m)]


def noise(n: int, m: int, seed: int, scale: float = 2.0, sticky: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Independent normal scores; ``sticky`` favors staying in a label."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, m)) * scale, rng.normal(size=(m, m)) + sticky * np.eye(m)


def plain(rules: list, m: int, n: int, seed: int, **how) -> Instance:
    return Instance(*noise(n, m, seed, **how), ["x"] * n, names(m), rules)


def draws(seed: int, m: int, size: int, times: int) -> list[tuple[str, ...]]:
    """Tuples of different labels."""
    rng = np.random.default_rng([seed, 77])
    return [tuple(f"l{i}" for i in rng.choice(m, size, replace=False)) for _ in range(times)]


FAMILIES: dict[str, Callable[[int], list[Instance]]] = {}


def family(make: Callable[[int], Instance | list[Instance]]) -> Callable:
    def instances(seed: int) -> list[Instance]:
        made = make(seed)
        return made if isinstance(made, list) else [made]

    instances.__doc__ = make.__doc__
    FAMILIES[make.__name__] = instances
    return make


# --- order ------------------------------------------------------------------------------------------


def before_all(m: int, weight: float | None) -> list:
    pairs = [r.before(f"l{i}", f"l{j}") for i, j in itertools.combinations(range(m), 2)]
    return pairs if weight is None else [rule.soft(weight) for rule in pairs]


@family
def before_hard(seed):
    """Labels come in one order: before(i, j) for all i < j; 20 labels, 60 tokens."""
    return plain(before_all(20, None), 20, 60, seed)


@family
def before_soft(seed):
    """The same, each at weight 1."""
    return plain(before_all(20, 1.0), 20, 60, seed)


@family
def before_soft_large(seed):
    """40 labels, 100 tokens, weight 0.3."""
    return plain(before_all(40, 0.3), 40, 100, seed)


@family
def before_soft_small(seed):
    """10 labels, 40 tokens, weight 1."""
    return plain(before_all(10, 1.0), 10, 40, seed)


@family
def eventually_cycle(seed):
    """After every l_i an l_(i+7 mod 20): the last segment always lacks its successor, so infeasible; 20 labels, 60 tokens."""
    return plain([r.eventually(f"l{i}", f"l{(i + 7) % 20}") for i in range(20)], 20, 60, seed)


@family
def precedences_mixed(seed):
    """15 random before (half of them hard), 15 random eventually (soft), 10 soft segment limits; 15 labels, 60 tokens."""
    rules = []
    for k, (a, b) in enumerate(draws(seed, 15, 2, 30)):
        rule = (r.before if k % 2 else r.eventually)(a, b)
        rules.append(rule if k % 4 == 1 else rule.soft(0.5 + k % 3))
    rules += [(r.segments(f"l{i}") <= 1).soft(1.0) for i in range(10)]
    return plain(rules, 15, 60, seed)


# --- each so many times -----------------------------------------------------------------------------


@family
def once_each(seed):
    """Every label has exactly one segment: 30 labels, 60 tokens."""
    return plain([r.segments(f"l{i}") == 1 for i in range(30)], 30, 60, seed)


@family
def permutation(seed):
    """Every label exactly once: 30 labels, 30 tokens."""
    return plain([r.count(f"l{i}") == 1 for i in range(30)], 30, 30, seed)


@family
def once_each_scheme(seed):
    """BIO, 15 types: every type at most one segment (hard), 8 pairs exclude each other (soft)."""
    types = [f"t{i}" for i in range(15)]
    labels = ["O"] + [f"{p}-{t}" for t in types for p in "BI"]
    unary, pairwise = noise(80, len(labels), seed)
    for j, name in enumerate(labels):
        if name[0] == "I":
            for i, other in enumerate(labels):
                if other not in (name, "B" + name[1:]):
                    pairwise[i, j] = -np.inf
            unary[0, j] = -np.inf
    rules = [r.segments(t) <= 1 for t in types]
    rules += [(r.segments(types[i]) + r.segments(types[i + 7]) <= 1).soft(2.0) for i in range(8)]
    return Instance(unary, pairwise, ["x"] * 80, labels, rules, "BIO")


# --- how many of several facts hold -----------------------------------------------------------------


@family
def exactly_6_of_12(seed):
    """Exactly 6 of 12 labels occur; 60 tokens."""
    return plain([r.exactly(6, *[r.present(f"l{i}") for i in range(12)])], 12, 60, seed)


@family
def exactly_10_of_20(seed):
    """Exactly 10 of 20 labels occur; refused today (more than 10,000 states)."""
    return plain([r.exactly(10, *[r.present(f"l{i}") for i in range(20)])], 20, 60, seed)


@family
def exactly_5_counts(seed):
    """Exactly 5 of 10 labels occur at least twice; refused today."""
    return plain([r.exactly(5, *[r.count(f"l{i}") >= 2 for i in range(10)])], 12, 60, seed)


@family
def nested_logic(seed):
    """20 implications over facts of 4 labels each, hard, 12 labels, 60 tokens; present(...) demands make them bite."""
    rules = [
        r.implies(r.all_of(r.present(a), r.segments(b) <= 3), r.any_of(r.before(c, d), r.segments(a) <= 1))
        for a, b, c, d in draws(seed, 12, 4, 20)
    ]
    return plain(rules + [r.present(f"l{i}") for i in range(6)], 12, 60, seed)


@family
def counts_imply(seed):
    """implies(count <= count, count <= count) x 3 on 100 tokens; refused today."""
    rules = [r.implies(r.count(a) <= r.count(b), r.count(c) + 3 <= r.count(d)) for a, b, c, d in draws(seed, 6, 4, 3)]
    return plain(rules, 6, 100, seed)


# --- comparisons of counts --------------------------------------------------------------------------


@family
def difference_hard(seed):
    """segments(a) - segments(b) <= 1 for 200 random pairs; 40 labels, 100 tokens."""
    return plain([r.segments(a) - r.segments(b) <= 1 for a, b in draws(seed + 2, 40, 2, 200)], 40, 100, seed)


@family
def difference_count_hard(seed):
    """count(a) - count(b) <= 0 for 105 random pairs; 40 labels, 60 tokens."""
    return plain([r.count(a) - r.count(b) <= 0 for a, b in draws(seed + 3, 40, 2, 105)], 40, 60, seed)


@family
def difference_soft(seed):
    """segments(a) - segments(b) <= 0 for 300 random pairs at 0.2 .. 1.5 a unit; 40 labels, 80 tokens."""
    weights = np.random.default_rng(seed + 7).uniform(0.2, 1.5, 300)
    pairs = draws(seed + 7, 40, 2, 300)
    return plain(
        [(r.segments(a) - r.segments(b) <= 0).soft(float(w)) for (a, b), w in zip(pairs, weights)], 40, 80, seed
    )


@family
def difference_once(seed):
    """100 of them, paid once, at 0.5 .. 4."""
    weights = np.random.default_rng(seed + 8).uniform(0.5, 4.0, 100)
    pairs = draws(seed + 8, 40, 2, 100)
    return plain(
        [(r.segments(a) - r.segments(b) <= 0).soft(float(w), per="once") for (a, b), w in zip(pairs, weights)],
        40,
        80,
        seed,
    )


@family
def equal_pairs(seed):
    """count(l_2i) == count(l_2i+1) for 20 pairs; 40 labels, 60 tokens."""
    return plain([r.count(f"l{2 * i}") == r.count(f"l{2 * i + 1}") for i in range(20)], 40, 60, seed)


@family
def equal_all(seed):
    """All 40 counts equal (39 equations); 80 tokens, so each label twice."""
    return plain([r.count(f"l{i}") == r.count(f"l{i + 1}") for i in range(39)], 40, 80, seed)


@family
def sums_soft(seed):
    """segments(a) + segments(b) <= 1 for 300 pairs at 0.2 .. 1; 40 labels, 80 tokens."""
    weights = np.random.default_rng(seed + 6).uniform(0.2, 1.0, 300)
    pairs = itertools.islice(itertools.combinations(range(40), 2), 300)
    return plain(
        [(r.segments(f"l{i}") + r.segments(f"l{j}") <= 1).soft(float(w)) for (i, j), w in zip(pairs, weights)],
        40,
        80,
        seed,
    )


@family
def knapsack(seed):
    """One equation with weights 1 .. 999 over 20 counts, 60 tokens."""
    weights = np.random.default_rng(seed + 5).integers(1, 1000, 20)
    return plain([sum(int(w) * r.count(f"l{i}") for i, w in enumerate(weights)) == 25001], 20, 60, seed)


@family
def knapsacks(seed):
    """Three equations with weights 1 .. 49 over 20 counts, 60 tokens."""
    rng = np.random.default_rng(seed + 5)
    rules = [sum(int(w) * r.count(f"l{i}") for i, w in enumerate(rng.integers(1, 50, 20))) == 1499 for _ in range(3)]
    return plain(rules, 20, 60, seed)


# --- nothing obeys ----------------------------------------------------------------------------------


@family
def pigeons(seed):
    """count(l) <= 2 for 25 labels, 60 tokens: infeasible by 10."""
    return plain([r.count(f"l{i}") <= 2 for i in range(25)], 25, 60, seed)


@family
def pigeons_small(seed):
    """count(l) <= 1 for 20 labels, 25 tokens."""
    return plain([r.count(f"l{i}") <= 1 for i in range(20)], 20, 25, seed)


@family
def rising_counts(seed):
    """count(l_i) + 1 <= count(l_i+1) along 13 labels, 60 tokens: infeasible (needs 78)."""
    return plain([r.count(f"l{i}") + 1 <= r.count(f"l{i + 1}") for i in range(12)], 13, 60, seed)


# --- size -------------------------------------------------------------------------------------------


def long_chain(n: int, seed: int) -> Instance:
    """20 count rules (10 hard caps, 10 soft floors and comparisons) over 10 labels; bounds near what Viterbi has."""
    rules = []
    for i in range(10):
        rules.append(r.segments(f"l{i}") <= n // 14)
        rule = r.count(f"l{i}") - r.count(f"l{(i + 3) % 10}") <= n // 50
        rules.append(rule.soft(0.7 + 0.1 * i))
    return plain(rules, 10, n, seed)


@family
def long_500(seed):
    """500 tokens, 10 labels, 20 count rules."""
    return long_chain(500, seed)


@family
def long_2000(seed):
    """2,000 tokens."""
    return long_chain(2000, seed)


@family
def long_10000(seed):
    """10,000 tokens."""
    return long_chain(10000, seed)


@family
def labels_200(seed):
    """200 labels, 60 tokens: 60 hard segment caps on triples, 40 soft differences, 10 present."""
    rules = [r.segments([f"l{3 * i}", f"l{3 * i + 1}", f"l{3 * i + 2}"]) <= 1 for i in range(60)]
    rules += [(r.count(a) - r.count(b) <= 0).soft(1.0) for a, b in draws(seed, 200, 2, 40)]
    rules += [r.present(f"l{199 - i}") for i in range(10)]
    return plain(rules, 200, 60, seed)


# --- mixtures ---------------------------------------------------------------------------------------


@family
def hierarchy(seed):
    """Two-level BIO (3 outer types x 3 inner): counts of levels compared, hard and soft; 28 labels, 60 tokens."""
    labels = ["O"]
    for outer in "abc":
        for inner in "xyz":
            labels += [f"B-{outer}/B-{inner}", f"I-{outer}/B-{inner}", f"I-{outer}/I-{inner}"]
    m = len(labels)
    unary, pairwise = noise(60, m, seed)
    for j, name in enumerate(labels):
        if name == "O" or name.startswith("B-"):
            continue
        outer, inner = name.split("/")
        for i, other in enumerate(labels):
            ok = other != "O" and other.split("/")[0][2:] == outer[2:]
            if inner.startswith("I-"):
                ok = ok and other.split("/")[1][2:] == inner[2:]
            if not ok:
                pairwise[i, j] = -np.inf
        unary[0, j] = -np.inf
    rules = [r.segments(o) <= 2 for o in "abc"]
    rules += [r.segments(f"a/{i}") == r.segments(f"b/{i}") for i in "xyz"]
    rules += [(r.segments(i) - r.segments(o) <= 0).soft(1.5) for i in "xyz" for o in "abc"]
    rules += [r.before("a", "b"), r.before("b", "c").soft(2.0), r.implies(r.present("c/x"), r.present("a/z"))]
    return Instance(unary, pairwise, ["x"] * 60, labels, rules, "BIO")


@family
def windows(seed):
    """40 `at` rules around 8 kinds of token (a quarter hard) and 12 count rules; 15 labels, 80 tokens."""
    rng = np.random.default_rng(seed + 9)
    tokens = [f"w{i}" for i in rng.integers(0, 8, 80)]
    rules = []
    for k, (a, b, c) in enumerate(draws(seed + 9, 15, 3, 40)):
        condition = r.token_equals(f"w{k % 8}")
        rule = r.at(condition, prev=[a, b], next=[c, a]) if k % 2 else r.at(condition, here=a, next=[b, c])
        rules.append(rule if k % 4 == 0 else rule.soft(1.0))
    rules += [r.count(f"l{i}", where=r.token_in("w0", "w1", "w2")) <= 1 for i in range(6)]
    rules += [(r.segments(f"l{i}") == r.segments(f"l{i + 6}")).soft(1.0) for i in range(6)]
    return Instance(*noise(80, 15, seed), tokens, names(15), rules)


@family
def mixture(seed):
    """30 hard and soft rules of all kinds; 15 labels, 60 tokens."""
    d = draws(seed + 11, 15, 3, 30)
    rules = [r.segments(a) + r.segments(b) <= 3 for a, b, _ in d[:5]]
    rules += [r.present(a) for a, _, _ in d[5:9]]
    rules += [r.before(a, b).soft(1.5) for a, b, _ in d[9:15]]
    rules += [r.eventually(a, b).soft(1.0) for a, b, _ in d[15:19]]
    rules += [r.implies(r.present(a), r.before(b, c)) for a, b, c in d[19:23]]
    rules += [(r.count(a) == r.count(b)).soft(0.5) for a, b, _ in d[23:27]]
    rules += [r.exactly(1, r.first(a), r.last(b), r.segments(c) >= 2).soft(3.0) for a, b, c in d[27:]]
    return plain(rules, 15, 60, seed)


# --- rule sets of applications ----------------------------------------------------------------------


def spans(types: list[str]) -> tuple[list[str], np.ndarray]:
    """BIO labels of some types, and steps (m, m) that forbid an I that continues nothing."""
    labels = ["O"] + [f"{p}-{t}" for t in types for p in "BI"]
    steps = np.zeros((len(labels), len(labels)))
    for j, name in enumerate(labels):
        if name[0] == "I":
            steps[[other not in (name, "B" + name[1:]) for other in labels], j] = -np.inf
    return labels, steps


@family
def invoice(seed):
    """BIO, 12 types: as many quantities, prices, names and sums as lines, one head in order; 130 tokens."""
    types = ["line", "quantity", "price", "item", "sum", "number", "date", "seller", "buyer", "tax", "total", "note"]
    labels, steps = spans(types)
    unary, pairwise = noise(130, len(labels), seed)
    unary[0, 2::2] = -np.inf
    rules = [r.segments(t) == r.segments("line") for t in types[1:5]]
    rules += [r.segments(t) == 1 for t in types[5:9]]
    rules += [r.segments(t) <= 1 for t in types[9:11]]
    rules += [r.before("number", "line"), r.before("date", "line"), r.before("line", "total")]
    rules += [r.before("seller", "buyer").soft(1.0), r.followed_by("tax", "total").soft(2.0)]
    return Instance(unary, pairwise + steps, ["x"] * 130, labels, rules, "BIO")


def days(count: int, length: int) -> list[str]:
    """Tokens that name their week."""
    return [f"week{i // length}" for i in range(count)]


@family
def shifts(seed):
    """84 days, 6 shifts: each week at least one of each of 4 shifts, totals equal, no late shift before an early one."""
    rules = [r.count(f"l{i}", where=r.token_equals(f"week{week}")) >= 1 for week in range(12) for i in range(1, 5)]
    rules += [r.count("l1") == r.count("l2"), r.count("l3") == r.count("l4"), r.count("l0") >= 20]
    rules += [r.followed_by("l3", ["l0", "l2", "l3", "l4", "l5"], level="token")]
    return Instance(*noise(84, 6, seed), days(84, 7), names(6), rules)


@family
def year_schedule(seed):
    """364 days, 8 duties: 5 rules for each week, 4 equal totals over the year."""
    rules = []
    for week in range(52):
        of_week = r.token_equals(f"week{week}")
        rules += [r.count(f"l{i}", where=of_week) >= 1 for i in range(3)]
        rules += [r.count(f"l{i}", where=of_week) <= 2 for i in (3, 4)]
    rules += [r.count(f"l{i}") == r.count(f"l{i + 4}") for i in range(4)]
    return Instance(*noise(364, 8, seed), days(364, 7), names(8), rules)


@family
def genes(seed):
    """300 bases in 7 states: exons read in frames, introns between them, lengths and numbers of both bounded."""
    steps = np.full((7, 7), -np.inf)  # 0: between genes; 1, 2, 3: frames; 4: intron; 5, 6: start and stop
    for a, b in [(0, 0), (0, 5), (5, 1), (1, 2), (2, 3), (3, 1), (3, 4), (4, 4), (4, 1), (3, 6), (6, 0)]:
        steps[a, b] = 0.0
    unary, pairwise = noise(300, 7, seed)
    rules = [r.segments("l5") == r.segments("l6"), r.segments("l5") >= 3, r.segments("l4") <= 8]
    rules += [r.count("l4") >= 40, r.count(["l1", "l2", "l3"]) <= 120]
    rules += [(r.count("l4") - 2 * r.count("l0") <= 0).soft(0.5), r.first("l0"), r.last("l0")]
    return Instance(unary, pairwise + steps, ["x"] * 300, names(7), rules)


@family
def nested_people(seed):
    """Two levels of BIO: 55 tokens, people with as many first as last names, in 4 roles."""
    labels = ["O"]
    for outer in ("author", "editor", "advisor", "referee"):
        for inner in ("first", "middle", "last", "title", "suffix"):
            labels += [f"B-{outer}/B-{inner}", f"I-{outer}/B-{inner}", f"I-{outer}/I-{inner}"]
    unary, pairwise = noise(55, len(labels), seed)
    for j, name in enumerate(labels):
        if name.startswith("I-"):
            outer, inner = (part[2:] for part in name.split("/"))
            for i, other in enumerate(labels):
                parts = [part[2:] for part in other.split("/")]
                if parts[0] != outer or ("/I-" in name and parts[1:] != [inner]):
                    pairwise[i, j] = -np.inf
            unary[0, j] = -np.inf
    roles = ("author", "editor", "advisor", "referee")
    rules = [r.segments(f"{role}/first") == r.segments(f"{role}/last") for role in roles]
    rules += [r.segments(role) <= 3 for role in roles] + [r.segments("suffix") <= r.segments("last")]
    rules += [r.before("author", "editor").soft(1.0), r.implies(r.present("advisor"), r.present("referee"))]
    return Instance(unary, pairwise, ["x"] * 55, labels, rules, "BIO")


@family
def document_200(seed):
    """200 tokens, 25 labels: 30 soft orders, 10 caps of segments."""
    rules = [r.before(a, b).soft(0.5 + k % 3) for k, (a, b) in enumerate(draws(seed, 25, 2, 30))]
    rules += [r.segments(f"l{i}") <= 4 for i in range(10)]
    return plain(rules, 25, 200, seed)


@family
def cues_100(seed):
    """100 soft and hard rules about the labels after 40 cue words, 8 counts; 20 labels, 150 tokens."""
    tokens = [f"w{i}" for i in np.random.default_rng(seed + 9).integers(0, 60, 150)]
    rules = []
    for k, (a, b) in enumerate(draws(seed, 20, 2, 100)):
        rule = r.at(r.token_equals(f"w{k % 40}"), here=a, next=b)
        rules.append(rule if k % 5 == 0 else rule.soft(1.0))
    rules += [r.count(f"l{i}") <= 5 for i in range(8)]
    return Instance(*noise(150, 20, seed), tokens, names(20), rules)


@family
def level_implications(seed):
    """14 hard implies(count >= a, count <= b); 10 labels, 80 tokens."""
    rng = np.random.default_rng(seed + 12)
    rules = [
        r.implies(r.count(a) >= int(rng.integers(4, 9)), r.count(b) <= int(rng.integers(3, 8)))
        for a, b in draws(seed, 10, 2, 14)
    ]
    return plain(rules, 10, 80, seed)


@family
def compare_implications(seed):
    """6 hard implies(count >= count, count <= b); 8 labels, 70 tokens."""
    rules = [r.implies(r.count(a) >= r.count(b), r.count(c) <= 6) for a, b, c in draws(seed, 8, 3, 6)]
    return plain(rules, 8, 70, seed)


@family
def equal_and_order(seed):
    """5 equal counts, 8 hard orders, 5 soft eventually; 20 labels, 80 tokens."""
    rules = [r.count(f"l{2 * i}") == r.count(f"l{2 * i + 1}") for i in range(5)]
    rules += [r.before(a, b) for a, b in draws(seed, 20, 2, 8)]
    rules += [r.eventually(a, b).soft(1.0) for a, b in draws(seed + 1, 20, 2, 5)]
    return plain(rules, 20, 80, seed)


@family
def quotas(seed):
    """At least 4 of 6 quotas in each of 5 stretches of 20 tokens, totals bounded, a pair paid once; 8 labels."""
    tokens = days(100, 20)
    rules = []
    for week in range(5):
        of_week = r.token_equals(f"week{week}")
        rules.append(r.at_least(4, *[r.count(f"l{i}", where=of_week) >= 3 for i in range(6)]))
    rules += [r.count(f"l{i}") <= 14 for i in range(8)]
    rules += [(r.count(f"l{i}") == r.count(f"l{i + 4}")).soft(3.0, per="once") for i in range(4)]
    return Instance(*noise(100, 8, seed), tokens, names(8), rules)


@family
def balanced_speakers(seed):
    """9 speakers in 3 groups, each within a range, groups equal, few turns; 150 tokens."""
    rules = [rule for i in range(9) for rule in (r.count(f"l{i}") >= 12, r.count(f"l{i}") <= 22)]
    groups = [[f"l{3 * g + i}" for i in range(3)] for g in range(3)]
    rules += [r.count(groups[0]) == r.count(groups[1]), r.count(groups[1]) == r.count(groups[2])]
    rules += [(r.segments(f"l{i}") <= 8).soft(0.7) for i in range(9)]
    return plain(rules, 9, 150, seed)


@family
def rounds(seed):
    """Every one of 12 labels once in each of 5 blocks of 12 tokens."""
    rules = [r.count(f"l{i}", where=r.token_equals(f"week{block}")) == 1 for block in range(5) for i in range(12)]
    return Instance(*noise(60, 12, seed), days(60, 12), names(12), rules)


@family
def exclusions(seed):
    """60 soft at_most(1, present, present); 30 labels, 100 tokens."""
    weights = np.random.default_rng(seed + 13).uniform(1.0, 6.0, 60)
    pairs = draws(seed, 30, 2, 60)
    rules = [r.at_most(1, r.present(a), r.present(b)).soft(float(w)) for (a, b), w in zip(pairs, weights)]
    return plain(rules, 30, 100, seed)


@family
def budgets(seed):
    """5 budgets: weighted sums of 25 counts, weights up to 500, at most 0.6 of what scores alone would take; 100 tokens."""
    rng = np.random.default_rng(seed + 14)
    made = plain([], 25, 100, seed)
    counts = np.bincount(made.unary.argmax(axis=1), minlength=25)
    for _ in range(5):
        prices = rng.integers(1, 501, 25)
        total = sum(int(p) * r.count(f"l{i}") for i, p in enumerate(prices))
        made.rules.append(total <= int(0.6 * prices @ counts))
    return made


@family
def groups_exactly(seed):
    """Exactly 2 of 5 labels occur at least 3 times, for 8 groups; 20 labels, 80 tokens."""
    rules = [r.exactly(2, *[r.count(a) >= 3 for a in group]) for group in draws(seed, 20, 5, 8)]
    return plain(rules, 20, 80, seed)


@family
def dialogue(seed):
    """30 soft followed_by, 8 eventually; 18 labels, 60 tokens."""
    rules = [r.followed_by(a, b).soft(1.0) for a, b in draws(seed, 18, 2, 30)]
    rules += [r.eventually(a, b).soft(1.0) for a, b in draws(seed + 1, 18, 2, 8)]
    return plain(rules, 18, 60, seed)


# --- real data --------------------------------------------------------------------------------------


def fitted(load: Callable, scheme: str, train: int, max_iter: int) -> tuple:
    from rulefield import ChainCRF, TokenFeatures

    X, y = load()
    crf = ChainCRF(scheme=scheme, l2=0.5, features=TokenFeatures(), max_iter=max_iter, n_jobs=1)
    crf.fit(X[:train], y[:train])
    return crf, X, y


def real_instances(crf, X: list, rules: list, most: int) -> list[Instance]:
    """The inputs whose own best labeling breaks most rules."""
    data, decoder = crf._encoder.transform(X), crf._decoder()
    labels = [str(c) for c in crf.classes_]
    found = []
    for i, tokens in enumerate(X):
        potentials = decoder.potentials(data, i)
        compiled = r.RuleCompiler([rule.soft(1e-9) for rule in rules], labels, crf.scheme)(tokens)
        broken = len(decode(ChainProblem(potentials, compiled), "viterbi").broken)
        found.append(
            (-broken, i, Instance(potentials.unary, potentials.pairwise, list(tokens), labels, rules, crf.scheme))
        )
    found.sort(key=lambda row: row[:2])
    return [instance for _, _, instance in found[:most]]


def cora(share: float, most: int, soft: bool) -> list[Instance]:
    from rulefield.datasets import load_cora

    crf, X, y = fitted(load_cora, "BIO", 150, 30)
    labels = [str(c) for c in crf.classes_]
    rules = r.propose(y[:150], scheme="BIO", labels=labels, min_share=share) + r.mine(X[:150], y[:150], price="eq30")
    rules = [rule.hard() for rule in rules]
    held = r.check(rules, X[:150], y[:150], scheme="BIO", labels=labels)
    kept = [rule for rule, found in zip(rules, held) if found.holds >= share]
    if soft:
        kept = [rule.soft(0.3) for rule in kept]
    return real_instances(crf, X[300:360], kept, most)


@family
def cora_hard(seed):
    """Cora: proposed and mined rules that hold in 97 % of training citations, all hard; the 8 worst of 60 citations."""
    return cora(0.97, 8, False)


@family
def cora_soft(seed):
    """Cora: those that hold in 90 %, at 0.3 a unit; the 8 worst of 60 citations."""
    return cora(0.90, 8, True)


def umass(share: float, most: int, seed: int) -> list[Instance]:
    from rulefield.datasets import load_umass

    crf, X, y = fitted(lambda: load_umass("training"), "BIO", 200, 25)
    labels = [str(c) for c in crf.classes_]
    rules = [rule.hard() for rule in r.propose(y[:200], scheme="BIO", labels=labels, min_share=share)]
    order = np.random.default_rng(seed).permutation(len(rules))[:600]
    return real_instances(crf, load_umass("dev")[0][:60], [rules[i] for i in sorted(order)], most)


@family
def umass_hard(seed):
    """UMass: 600 proposed rules that hold in 97 % of 200 training citations, hard; the 6 worst of 60 of dev.docs."""
    return umass(0.97, 6, seed)


@family
def umass_forced(seed):
    """UMass: 600 proposed rules that hold in 75 %, hard all the same; the 6 worst."""
    return umass(0.75, 6, seed)


# --- problems and judgment ------------------------------------------------------------------------


def compiled(instance: Instance) -> ChainProblem:
    """Rules compiled for the instance."""
    rules = r.RuleCompiler(instance.rules, instance.labels, instance.scheme)(instance.tokens)
    return ChainProblem(ChainPotentials(instance.unary, instance.pairwise), rules)


def judged(instance: Instance, labels: np.ndarray) -> tuple[float, int]:
    """Objective by the rules' own words, and how many hard rules are broken."""
    score = ChainPotentials(instance.unary, instance.pairwise).score(labels)
    said = [instance.labels[k] for k in labels]
    cost, broken = 0.0, 0
    for rule in instance.rules:
        amount = rule.violation(instance.tokens, said)
        if amount and not np.isfinite(float(rule.weight)):
            broken += 1
        elif amount:
            cost += float(rule.weight) * (1 if rule.per == "once" else amount)
    return score - cost, broken
