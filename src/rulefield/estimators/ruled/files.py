"""A fitted RuledCRF as one model file, and back."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.estimators.base import State
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.chain.files import chain_state, restore_chain
from rulefield.rules import text as rules_text

if TYPE_CHECKING:
    from rulefield.estimators.ruled.estimator import RuledCRF


def ruled_state(ruled: "RuledCRF") -> State:
    """Return a fitted model as arrays and metadata: its chain, its rules, what is known of them."""
    arrays, chain = chain_state(ruled.crf_)
    params = ruled.get_params(deep=False) | {"crf": None}
    params["rules"] = params["rules"] if isinstance(params["rules"], str) else rules_text.to_dicts(params["rules"])
    return arrays, {
        "chain": chain,
        "params": params,
        "rules": rules_text.to_dicts(ruled.rules_),
        "tau": ruled.tau_,
        "counts": [ruled.n_candidates_, ruled.n_kept_],
        "report": [vars(row) for row in ruled.report_ if row.weight > 0],
    }


def restore_ruled(
    ruled: "RuledCRF", arrays: dict[str, np.ndarray], metadata: dict[str, Any], features: Any = None
) -> "RuledCRF":
    """Undo :func:`ruled_state`."""
    from rulefield.estimators.ruled.estimator import RuleReport

    params = metadata["params"]
    params["rules"] = params["rules"] if isinstance(params["rules"], str) else rules_text.from_dicts(params["rules"])
    ruled.set_params(**params)
    ruled.crf_ = restore_chain(ChainCRF(), arrays, metadata["chain"], features)
    ruled.crf = ruled.crf_
    ruled.rules_ = rules_text.from_dicts(metadata["rules"])
    ruled.tau_ = metadata["tau"]
    ruled.n_candidates_, ruled.n_kept_ = metadata["counts"]
    ruled.report_ = [RuleReport(**row) for row in metadata["report"]]
    ruled.log_, ruled.gap_ = [], None
    return ruled
