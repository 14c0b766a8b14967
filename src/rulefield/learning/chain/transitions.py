"""Transition weights as factors for the likelihood kernel, and its sums back as expected counts."""

from dataclasses import dataclass, field

import numpy as np

from rulefield.kernels.chain.train_steps import DenseSteps, SparseSteps
from rulefield.learning.chain.packing import padded
from rulefield.models.chain import ChainModel

# exp of it is 1e20: the bound that the kernel's watch over underflow needs
LARGEST_WEIGHT = 46.0
# entries cost about as much as eight places of a full matrix, which vectors work through
SPARSE_SHARE = 1 / 8


@dataclass(frozen=True)
class TransitionFactors:
    """Plan of the transitions of a model: full matrices, or the few entries that differ from 0 or 1.

    Parameters
    ----------
    model : ChainModel
    """

    model: ChainModel
    base: float = field(init=False)
    sparse: bool = field(init=False)
    entry: np.ndarray = field(init=False)
    by_target: np.ndarray = field(init=False)
    place: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        model, m = self.model, self.model.n_labels
        weighted = np.zeros((m, m), bool)
        weighted[model.transition_from, model.transition_to] = True
        differ_from_one = weighted | ~model.allowed
        base = 1.0 if differ_from_one.sum() < model.allowed.sum() else 0.0
        entry = np.flatnonzero(differ_from_one if base else model.allowed)
        transition = model.transition_from.astype(np.int64) * m + model.transition_to
        values = {
            "base": base,
            "sparse": bool(len(entry) < SPARSE_SHARE * m * m),
            "entry": entry,
            "by_target": np.lexsort((entry // m, entry % m)),
            "place": np.searchsorted(entry, transition),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def buffer_size(self) -> int:
        """Length of the kernel's sums over steps."""
        return len(self.entry) if self.sparse else self.model.n_labels * padded(self.model.n_labels)

    def steps(self, theta: np.ndarray) -> DenseSteps | SparseSteps | None:
        """Factors for the kernel; None if a weight is too large for probability space."""
        if np.abs(self.model.layout.transition(theta)).max(initial=0.0) > LARGEST_WEIGHT:
            return None
        m, width = self.model.n_labels, padded(self.model.n_labels)
        factor = np.exp(self.model.pairwise(theta))
        forward, backward = np.zeros((m, width)), np.zeros((m, width))
        forward[:, :m], backward[:, :m] = factor, factor.T
        if not self.sparse:
            return DenseSteps(forward.ravel(), backward.ravel())
        entry, by_target = self.entry, self.by_target
        excess = factor.ravel()[entry] - self.base
        return SparseSteps(
            base=self.base,
            forward=forward.ravel(),
            backward=backward.ravel(),
            by_from_ptr=_pointers(entry // m, m),
            to=(entry % m).astype(np.uint32),
            from_excess=excess,
            by_to_ptr=_pointers(entry[by_target] % m, m),
            source=(entry[by_target] // m).astype(np.uint32),
            to_excess=excess[by_target],
        )

    def expected_counts(self, theta: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return how often each transition weight is expected to be used, from the kernel's sums over steps."""
        model, m = self.model, self.model.n_labels
        factor = np.exp(model.layout.transition(theta))
        if self.sparse:
            return factor * sums[self.place]
        return factor * sums.reshape(m, -1)[model.transition_from, model.transition_to]


def _pointers(group: np.ndarray, n: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n))]).astype(np.uint64)
