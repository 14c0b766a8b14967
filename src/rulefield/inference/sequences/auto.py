"""The walk from cheap to exact: a list of stages, each of which takes over what the ones before it learned.

Before the walk, one kernel runs Viterbi, Soft-DD and a short search over paths (:mod:`rulefield.kernels.lattice.first`),
which settles most problems. A stage may occur several times in the walk, with more work each time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from rulefield.inference.engines import covers
from rulefield.inference.sequences.progress import DualPotentials, Progress, dual_potentials, run_duals
from rulefield.inference.sequences.stages.columns import run_columns
from rulefield.inference.sequences.stages.counts import run_counts
from rulefield.inference.sequences.stages.dive import run_dive
from rulefield.inference.sequences.stages.facts import run_facts
from rulefield.inference.sequences.stages.farkas import run_farkas
from rulefield.inference.sequences.stages.ilp import run_feasible, run_windows, ties_labels
from rulefield.inference.sequences.stages.neighbors import run_neighbors
from rulefield.inference.sequences.stages.product import run_last_window, run_product
from rulefield.inference.sequences.stages.repair import run_repair
from rulefield.kernels.lattice.first import LEVELS

NODE_LIMIT = 6_000_000
"""Units of work (1 to 2 microseconds each) that one problem may cost by default: about ten seconds."""

UNITS_PER_SECOND = 500_000
"""Units of work that surely fit into a second, so that a stage is not given what a limit in seconds has no room for."""

DUAL_ITERATIONS, PATH_NODES = 30, 2_000
"""Viterbi passes and search nodes of the first levels: more settle few problems that these leave open."""

UNITS_PER_STEP, COMPILATION_SHARE = 8, 0.3
"""Units of work of compiling one step of an automaton (10 to 16 microseconds), and the largest share of the limit that
compilation takes, so that some work is left for a labeling."""

LONG_TOKENS = 300
"""Chains of so many tokens have many small conflicts, which integer programs decide faster than products."""

STATES, ROWS, ANY = frozenset({"tally", "counters", "automaton"}), frozenset({"tally", "rows"}), frozenset[str]()
"""Forms of rules that a stage must be able to read of every rule; ``ANY``: it ignores the rules that it cannot read."""


Stage = Callable[[Progress, DualPotentials, int], None]
"""(progress, dual potentials, limit): learns more of a problem until ``progress.nodes`` reaches the limit."""


def always(progress: Progress) -> bool:
    """Run in any case."""
    return True


def without_labeling(progress: Progress) -> bool:
    """Run if no labeling is known that obeys the hard rules."""
    return progress.best == -np.inf


def is_long(progress: Progress) -> bool:
    """Run on long chains."""
    return len(progress.labels) >= LONG_TOKENS


def is_short(progress: Progress) -> bool:
    """Run on chains that are not long."""
    return len(progress.labels) < LONG_TOKENS


def is_within(nats: float) -> Callable[[Progress], bool]:
    """Run if the best labeling is so close to the bound."""
    return lambda progress: progress.bound - progress.best <= nats


@dataclass(frozen=True)
class Step:
    """One entry of the walk."""

    name: str
    run: Stage
    reads: frozenset[str]  # forms of rules; the step is left out if a rule has none of them
    share: float = 1.0  # of the work left that it may use
    most_units: float = np.inf  # largest work
    pays: Callable[[Progress], bool] = always

    def limit(self, progress: Progress, node_limit: int) -> int:
        """Return the count of units at which it must stop, sooner if there is time for less and a labeling is known."""
        seconds = None if progress.best == -np.inf else progress.deadline.left
        left = min(max(node_limit - progress.nodes, 0), np.inf if seconds is None else seconds * UNITS_PER_SECOND)
        return int(progress.nodes + min(self.most_units, self.share * left))


WALK: tuple[Step, ...] = (
    Step("facts", run_facts, ANY, 0.3),
    Step("farkas", partial(run_farkas, most_passes=1), ANY),
    Step("product", run_product, STATES, most_units=15_000),
    Step("farkas", run_farkas, ANY),
    Step("dive", partial(run_dive, width=100), STATES),
    Step("repair", run_repair, STATES, most_units=60_000, pays=without_labeling),
    Step("last_window", run_last_window, STATES, 0.9, 50_000, is_within(2.0)),
    Step("product", run_product, STATES, most_units=90_000, pays=is_short),
    Step("ilp", run_feasible, ROWS, 0.1, pays=without_labeling),
    Step("counts", run_counts, ANY, 0.3),
    Step("columns", run_columns, ANY, 0.3),
    Step("ilp", run_windows, ROWS, 0.4, pays=is_long),
    Step("product", run_product, STATES, most_units=300_000),
    Step("ilp", run_windows, ROWS, 0.4, pays=ties_labels),
    Step("dive", partial(run_dive, width=500), STATES, 0.3),
    Step("repair", run_repair, STATES, 0.2, 400_000, pays=without_labeling),
    Step("neighbors", partial(run_neighbors, patience=150_000), STATES, 0.3, 400_000),
    Step("dive", partial(run_dive, width=2_000), STATES, 0.3, 600_000),
    Step("last_window", run_last_window, STATES, 0.9, pays=is_within(4.0)),
    Step("product", run_product, STATES, 0.8),
    Step("ilp", run_windows, ROWS, pays=is_within(0.5)),
    Step("neighbors", run_neighbors, STATES),
)
"""What follows the first levels, from cheap to expensive; each step is charged what it costs."""


def run_auto(progress: Progress, node_limit: int) -> str:
    """Run stages until one settles the problem or limits are met; return the name of the last one that learned something."""
    progress.most_nodes = node_limit
    offered = progress.prepared.flat.shared.offered
    by_states = covers(STATES, offered)
    last = LEVELS[run_duals(progress, DUAL_ITERATIONS, min(PATH_NODES, node_limit) if by_states else 0)]
    if progress.settled:
        return last
    progress.charge(int(min(UNITS_PER_STEP * len(progress.prepared.tables.arc_to), COMPILATION_SHARE * node_limit)))
    dual = dual_potentials(progress)
    for step in WALK:
        if progress.settled or progress.deadline.over or progress.nodes >= node_limit:
            break
        if covers(step.reads, offered) and (step.pays(progress) or not by_states):
            dual = dual if dual.current else dual_potentials(progress)
            known = progress.best, progress.bound
            step.run(progress, dual, step.limit(progress, node_limit))
            if known != (progress.best, progress.bound):
                last = step.name
    return last
