"""A fitted RuledCRF as arrays and metadata, and back."""

from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from rulefield.estimators.base import State
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.types import Transformer
from rulefield.forms import check_typed, part_of

if TYPE_CHECKING:
    from rulefield.estimators.ruled.estimator import RuledCRF


class RuledMetadata(TypedDict):
    """What :func:`ruled_state` gives beside arrays."""

    chain: dict[str, Any]
    given: bool


def ruled_state(ruled: "RuledCRF") -> State:
    """Return the fitted chain: its rules and what is known of them are attributes."""
    arrays, chain = ruled.estimator_._whole_state()
    return {f"chain.{name}": array for name, array in arrays.items()}, {
        "chain": chain,
        "given": ruled.estimator is not None,
    }


def restore_ruled(
    ruled: "RuledCRF", arrays: dict[str, np.ndarray], metadata: dict[str, Any], features: Transformer | None = None
) -> None:
    """Undo :func:`ruled_state`."""
    check_typed(metadata, RuledMetadata, "the model")
    given = {} if features is None else {"features": features}
    ruled.estimator_ = ChainCRF._from_state(part_of(arrays, "chain."), metadata["chain"], **given)
    ruled.estimator = ruled.estimator_ if metadata["given"] else None
