"""Problems as a proof file states them: numbers, lists and names, nothing else."""

from math import isfinite
from typing import Any

import numpy as np

from rulefield.kernels.lattice.lattice import Lattice
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import Automaton, CompiledRule, Counter, Tally

Text = dict[str, Any]
MOST_COUNTERS = 4
"""A rule with more counters than this is stated by its automaton, if it has one: engines read it so."""


def state_number(value: float) -> float | None:
    """Return a number; None for one that is infinite."""
    return float(value) if isfinite(value) else None


def state_numbers(table: np.ndarray) -> Any:
    """Return nested lists of scores; None stands for ``-inf``."""
    if np.isfinite(table).all():
        return table.tolist()
    if table.ndim == 1:
        return [state_number(x) for x in table.tolist()]
    return [state_numbers(row) for row in table]


def state_chain(potentials: ChainPotentials) -> Text:
    """State the scores of a chain."""
    pairwise = potentials.pairwise_stack
    return {"chain": {"unary": state_numbers(potentials.unary), "pairwise": state_numbers(pairwise)}}


def state_lattice(lattice: Lattice, n_labels: int) -> Text:
    """State a layered lattice; ``reach`` of its first layer holds the scores of that layer's nodes."""
    layer, n = lattice.layer, len(lattice.layer) - 1
    source = np.repeat(np.arange(len(lattice.label)), np.diff(lattice.arc_ptr))
    first = lattice.reach[layer[0] : layer[1]].tolist()
    arcs = [[[0, j, score] for j, score in enumerate(first) if isfinite(score)]]
    for t in range(n - 1):
        span = slice(int(lattice.arc_ptr[layer[t]]), int(lattice.arc_ptr[layer[t + 1]]))
        ends = (source[span] - layer[t]).tolist(), (lattice.arc_to[span] - layer[t + 1]).tolist()
        arcs.append([list(arc) for arc in zip(*ends, lattice.arc_score[span].tolist(), strict=True)])
    labels = [lattice.label[layer[t] : layer[t + 1]].tolist() for t in range(n)]
    return {"lattice": {"n_labels": n_labels, "labels": labels, "arcs": arcs}}


def is_stated(rule: CompiledRule) -> bool:
    """Whether more is known of a rule than its linear rows."""
    return rule.tally is not None or bool(rule.counters) or rule.automaton is not None


def state_rule(rule: CompiledRule) -> Text:
    """State a rule by the form that engines read."""
    text: Text = {"weight": state_number(rule.weight), "classes": rule.token_class.tolist()}
    if rule.once:
        text["once"] = True
    if rule.tally is not None:
        return text | {"tally": _tally(rule.tally)}
    if rule.counters and (len(rule.counters) <= MOST_COUNTERS or rule.automaton is None):
        return text | {"counters": [_counter(counter) for counter in rule.counters]}
    assert rule.automaton is not None
    return text | {"automaton": _automaton(rule.automaton)}


def _tally(tally: Tally) -> Text:
    tables = {"node": tally.node, "edge": tally.edge, "first": tally.first}
    return {name: table.tolist() for name, table in tables.items() if table is not None}


def _counter(counter: Counter) -> Text:
    return _tally(counter.tally) | {"bound": int(counter.bound)}


def _automaton(automaton: Automaton) -> Text:
    pointer, to, amount = (x.tolist() for x in (automaton.arc_ptr, automaton.arc_to, automaton.arc_amount))
    cells = [
        [[to[a], amount[a]] for a in range(begin, end)] for begin, end in zip(pointer, pointer[1:], strict=False)
    ]
    width = automaton.n_letters
    return {
        "letter": automaton.letter.tolist(),
        "initial": automaton.initial.tolist(),
        "final": automaton.final.tolist(),
        "arcs": [cells[q * width : (q + 1) * width] for q in range(automaton.n_states)],
    }
