"""What learners of sequences check: labels that the scheme permits, and weights of sequences."""

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.exceptions import InputError, LabelError
from rulefield.models.chain import ChainModel


def check_allowed(model: ChainModel, sequences: Sequences, labels: Labels) -> None:
    """Raise unless the model's scheme permits all labels, every one of which is known."""
    first, last = sequences.offsets[:-1][sequences.lengths > 0], sequences.offsets[1:][sequences.lengths > 0] - 1
    inner = np.ones(len(labels.ids), bool)
    inner[first] = False
    arrive = np.flatnonzero(inner)
    ids = labels.ids
    for permitted, place in (
        (model.allowed_start[ids[first]], first),
        (model.allowed_end[ids[last]], last),
        (model.allowed[ids[arrive - 1], ids[arrive]], arrive),
    ):
        if not permitted.all():
            token = int(place[np.flatnonzero(~permitted)[0]])
            sequence = int(np.searchsorted(sequences.offsets, token, side="right")) - 1
            raise LabelError(
                f"the labels of sequence {sequence} break the label scheme at token "
                f"{token - int(sequences.offsets[sequence])}; correct them or choose another scheme."
            )


def as_rates(sample_weight: np.ndarray | None, n: int) -> np.ndarray:
    """Return one weight for each sequence, 1 by default; raise on negative or missing ones."""
    if sample_weight is None:
        return np.ones(n)
    rates = np.ascontiguousarray(sample_weight, np.float64)
    if rates.shape != (n,) or not np.isfinite(rates).all() or (rates < 0).any():
        raise InputError(f"sample_weight must be {n} finite numbers >= 0, one for each sequence.")
    return rates
