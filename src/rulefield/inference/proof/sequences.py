"""Proofs of answers to problems over sequences: chains, joint chains, segments."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from rulefield.inference.flatten import Flat, flatten, fold
from rulefield.inference.proof.proof import Proof, Text, make_text
from rulefield.inference.proof.search import MOST_ARCS, LeafSearch, Step, multiplier_caps
from rulefield.inference.proof.segment_lattice import segment_lattice
from rulefield.inference.proof.statement import is_stated, state_chain, state_lattice, state_rule
from rulefield.inference.result import TOLERANCE, Result, Status
from rulefield.kernels.lattice.lattice import Lattice
from rulefield.kernels.lattice.rule_tables import take_out_maxima
from rulefield.problem.chain_rules import ChainProblem, CompiledRule
from rulefield.problem.segments import SegmentProblem

NOTHING = 2.0**-24
"""A labeling that obeys the hard rules is worth 0 if all scores are 0: bringing all paths this far below 0 is enough."""


def prove_chain(
    problem: ChainProblem, result: Result, words: Sequence[str] = (), most_arcs: int = MOST_ARCS
) -> Proof | None:
    """Return a proof of what an engine answers to a chain; None if none was found within so many arcs.

    ``words`` are the rules in words, as the file names them.
    """
    if problem.potentials.n_steps == 0:
        return None

    def steps(flat: Flat, floor: float, zero: bool) -> list[Step] | None:
        unary, arriving, paid = fold(problem.potentials.flat() if zero else problem.potentials, flat)
        offset, _ = take_out_maxima(unary, arriving)
        search = _search(flat, len(unary), unary.shape[1], floor - (float(offset) - paid), most_arcs)
        known = None if zero or result.engine == "ilp" else result.multipliers  # not what a solver's claim rests on
        return search.steps if search.on_chain(unary, arriving, known) else None

    scores = partial(state_chain, problem.potentials)
    return _proof(problem.rules, problem.potentials.n_states, result, words, scores, steps)


def prove_segments(
    problem: SegmentProblem, result: Result, words: Sequence[str] = (), most_arcs: int = MOST_ARCS
) -> Proof | None:
    """Return a proof of what an engine answers to a segment problem, as :func:`prove_chain` does."""
    if problem.potentials.n_steps == 0:
        return None
    lattice, m = segment_lattice(problem), problem.spelling.n_labels

    def steps(flat: Flat, floor: float, zero: bool) -> list[Step] | None:
        search = _search(flat, problem.potentials.n_steps, m, floor, most_arcs)
        return search.steps if search.on_segments(_flattened(lattice) if zero else lattice) else None

    return _proof(problem.rules, m, result, words, partial(state_lattice, lattice, m), steps)


def _proof(
    rules: tuple[CompiledRule, ...],
    m: int,
    result: Result,
    words: Sequence[str],
    scores: Callable[[], Text],
    steps: Callable[[Flat, float, bool], list[Step] | None],
) -> Proof | None:
    """Return a proof of one leaf; ``steps`` finds them for rules, what is to be proved, and whether scores are 0."""
    flat = flatten(rules, m)
    flat = flat.together or flat
    if result.upper_bound == np.inf or not all(map(is_stated, flat.rules)):
        return None
    zero = result.status is Status.infeasible
    bound = None if zero else proved_bound(result)
    found = steps(_without_soft(flat), -NOTHING, True) if bound is None else steps(flat, bound - TOLERANCE / 2, False)
    if found is None:
        return None
    tree: Text = {"steps": found} | ({"zero": True} if zero else {})

    def write() -> Text:
        text = {"words": list(words)} | scores() | {"rules": [state_rule(rule) for rule in flat.rules]}
        return make_text(text, result.labels.tolist() if len(result.labels) else None, bound, tree)

    return Proof(bound, write)


def proved_bound(result: Result) -> float:
    """Return the bound that a proof claims: what *optimal* means above the objective, or the engine's bound and as much."""
    top = result.objective if result.status is Status.optimal else result.upper_bound
    return float(top) + TOLERANCE


def _without_soft(flat: Flat) -> Flat:
    """Return the same rules, of which soft ones cost nothing."""
    weight = np.where(np.isfinite(flat.tables.weight), 0.0, np.inf)
    return flat._replace(tables=flat.tables._replace(weight=weight))


def _flattened(lattice: Lattice) -> Lattice:
    reach, score = (np.where(x > -np.inf, 0.0, -np.inf) for x in (lattice.reach, lattice.arc_score))
    return lattice._replace(reach=reach, arc_score=score)


def _search(flat: Flat, n: int, m: int, floor: float, most_arcs: int) -> LeafSearch:
    return LeafSearch(flat, flat.classes.reshape(len(flat.rules), n), multiplier_caps(flat), m, floor, most_arcs)
