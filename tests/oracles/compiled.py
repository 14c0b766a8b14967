"""Random compiled rules of every form, made by hand rather than by the language."""

from dataclasses import replace

import numpy as np

from oracles.chains import random_chain
from oracles.definition import amounts_of
from rulefield.inference.result import Status
from rulefield.problem.chain_rules import Automaton, ChainProblem, CompiledRule, Counter, Rows, Tally


def random_tally(rng, classes, m, least=-1, most=1):
    """A tally over nodes, and now and then over edges and with a first row of its own."""
    node = rng.integers(least, most + 1, size=(classes, m)).astype(np.int32)
    edge = rng.integers(least, most + 1, size=(classes, m, m)).astype(np.int32) if rng.random() < 0.4 else None
    first = rng.integers(least, most + 1, size=(classes, m)).astype(np.int32) if rng.random() < 0.3 else None
    return Tally(node, edge, first)


def random_automaton(rng, classes, m):
    """A complete deterministic automaton, or (unambiguous, guessing) one of these read backwards."""
    states, letters = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    letter = rng.integers(0, letters, size=(classes, m)).astype(np.uint16)
    to = rng.integers(0, states, size=(states, letters))
    amount = rng.integers(0, 3, size=(states, letters))
    ends = rng.integers(0, 2, size=states).astype(np.int32)
    start = np.where(np.arange(states) == 0, 0, -1).astype(np.int32)
    arcs = [(s, a, int(to[s, a]), int(amount[s, a])) for s in range(states) for a in range(letters)]
    if rng.random() < 0.5:
        arcs = [(t, a, s, w) for s, a, t, w in arcs]
        start, ends = ends, start
    arcs.sort()
    pointer = np.zeros(states * letters + 1, np.uint32)
    for s, a, _, _ in arcs:
        pointer[s * letters + a + 1 :] += 1
    arc_to = np.array([t for _, _, t, _ in arcs], dtype=np.uint32)
    arc_amount = np.array([w for _, _, _, w in arcs], dtype=np.int32)
    return Automaton(letter, letters, pointer, arc_to, arc_amount, start, ends)


def tally_entries(tally, classes, m):
    """(column, value) of every part that adds to a tally."""
    n = len(classes)
    for t, c in enumerate(classes):
        node = tally.first if t == 0 and tally.first is not None else tally.node
        for here in range(m):
            yield t * m + here, node[c, here]
        if t and tally.edge is not None:
            for before in range(m):
                for here in range(m):
                    yield n * m + ((t - 1) * m + before) * m + here, tally.edge[c, before, here]


def as_rows(entries, bounds, may_slack, n_auxiliary=0):
    row, column, value = (np.array(x) for x in zip(*entries, strict=True))
    return Rows(row, column, value.astype(float), np.array(bounds, float), np.array(may_slack), n_auxiliary)


def counter_rows(counters, classes, m):
    entries = [(i, j, v) for i, c in enumerate(counters) for j, v in tally_entries(c.tally, classes, m)]
    return as_rows(entries, [c.bound for c in counters], [True] * len(counters))


def automaton_rows(automaton, classes, m):
    """A unit of flow through the automaton's arcs, which reads the labels; its amount is the slack of row 0."""
    n, states = len(classes), automaton.n_states
    arcs = []
    for s in range(states):
        for a in range(automaton.n_letters):
            cell = s * automaton.n_letters + a
            arcs += [(s, a, i) for i in range(int(automaton.arc_ptr[cell]), int(automaton.arc_ptr[cell + 1]))]
    base = n * m + max(n - 1, 0) * m * m
    begin, end, flow = base, base + states, base + 2 * states
    entries, bounds, slack = [], [0.0], [True]

    def equal(pairs, value):
        for sign in (1, -1):
            entries.extend((len(bounds), j, sign * v) for j, v in pairs)
            bounds.append(sign * value)
            slack.append(False)

    for s in range(states):
        for start, amounts in ((begin, automaton.initial), (end, automaton.final)):
            entries.append((0, start + s, max(int(amounts[s]), 0)))
            if amounts[s] < 0:
                equal([(start + s, 1)], 0)
    equal([(begin + s, 1) for s in range(states)], 1)
    for t in range(n + 1):
        for s in range(states):
            inflow = [(begin + s, 1)] if t == 0 else []
            outflow = [(end + s, -1)] if t == n else []
            for number, (source, _, i) in enumerate(arcs):
                if t > 0 and automaton.arc_to[i] == s:
                    inflow.append((flow + (t - 1) * len(arcs) + number, 1))
                if t < n and source == s:
                    outflow.append((flow + t * len(arcs) + number, -1))
            equal(inflow + outflow, 0)
    for t, c in enumerate(classes):
        for number, (_, _, i) in enumerate(arcs):
            entries.append((0, flow + t * len(arcs) + number, int(automaton.arc_amount[i])))
        for letter in range(automaton.n_letters):
            used = [(flow + t * len(arcs) + number, 1) for number, (_, a, _) in enumerate(arcs) if a == letter]
            read = [(t * m + label, -1) for label in range(m) if automaton.letter[c, label] == letter]
            equal(used + read, 0)
    return as_rows(entries, bounds, slack, 2 * states + n * len(arcs))


def random_rule(rng, number, n, m, hard=0.25):
    """A rule of a random form: local tally, counters, or automaton; hard or soft, by the unit or once."""
    classes = int(rng.integers(1, 3))
    token_class = rng.integers(0, classes, size=n).astype(np.uint16)
    weight = np.inf if rng.random() < hard else float(np.round(rng.exponential(1.5), 3))
    once = bool(rng.random() < 0.4)
    tally, counters, automaton, every = None, (), None, np.arange(m)
    form = rng.choice(["tally", "counters", "automaton"], p=[0.2, 0.45, 0.35])
    if form == "tally":
        tally = random_tally(rng, classes, m, 0)
        most = 4 * n

        def make_rows(letter=every):
            return counter_rows([Counter(tally.relabeled(letter), 0)], token_class, len(letter))
    elif form == "counters":
        counters = tuple(
            Counter(random_tally(rng, classes, m), int(rng.integers(-2, 3))) for _ in range(rng.integers(1, 3))
        )
        most = len(counters) * (2 * n + 3)

        def make_rows(letter=every):
            read = [Counter(c.tally.relabeled(letter), c.bound) for c in counters]
            return counter_rows(read, token_class, len(letter))
    else:
        automaton = random_automaton(rng, classes, m)
        most = 2 * n + 2

        def make_rows(letter=every):
            read = replace(automaton, letter=automaton.letter[:, letter])
            return automaton_rows(read, token_class, len(letter))

    return CompiledRule(number, weight, once, token_class, tally, counters, automaton, lambda: most, make_rows)


def random_problem(rng, max_steps=6, max_states=4, max_rules=5, hard=0.25):
    """A small chain with rules, small enough to enumerate; scores at times tied, labels at times forbidden."""
    n, m = int(rng.integers(1, max_steps + 1)), int(rng.integers(1, max_states + 1))
    scale = rng.choice([0.0, 1.0, 3.0], p=[0.1, 0.6, 0.3])
    chain = random_chain(rng, n, m, rng.choice([0.0, 0.15]), bool(rng.random() < 0.3), scale)
    rules = tuple(random_rule(rng, 10 * i, n, m, hard) for i in range(rng.integers(0, max_rules + 1)))
    return ChainProblem(chain, rules)


def check_word(problem, result, exact):
    """A result keeps its word: its labeling earns its figures, its bound holds, its status is true."""
    assert result.upper_bound >= exact.objective - 1e-6 * max(1.0, abs(exact.objective))
    if result.status is Status.infeasible:
        assert exact.status is Status.infeasible
    if not len(result.labels):
        assert result.objective == -np.inf
        return
    score = problem.potentials.score(result.labels)
    assert score > -np.inf
    np.testing.assert_allclose(result.score, score)
    cost = 0.0
    broken = {b.rule: b for b in result.broken}
    for rule in problem.rules:
        amount = amounts_of(rule, result.labels[None])[0]
        assert not (amount > 0 and rule.weight == np.inf), "a hard rule is broken"
        assert (rule.rule in broken) == (amount > 0)
        if amount > 0:
            price = rule.weight * (1 if rule.once else amount)
            assert broken[rule.rule].amount == amount
            np.testing.assert_allclose(broken[rule.rule].cost, price)
            cost += price
    np.testing.assert_allclose(result.objective, score - cost, atol=1e-9)
    if result.status is Status.optimal:
        np.testing.assert_allclose(result.objective, exact.objective, rtol=1e-6, atol=1e-6)
