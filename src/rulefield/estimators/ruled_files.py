"""A fitted RuledCRF as one model file, and back."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulefield.estimators.chain import ChainCRF
from rulefield.estimators.chain_files import chain_state, restore_chain
from rulefield.exceptions import ModelFileError
from rulefield.persistence import load_model, save_model
from rulefield.rules import text as rules_text

if TYPE_CHECKING:
    from rulefield.estimators.ruled import RuledCRF

KIND = "ruled"


def ruled_to_file(ruled: "RuledCRF", path: str | Path) -> None:
    """Write a fitted model: its chain, its rules, what is known of them."""
    arrays, chain = chain_state(ruled.crf_)
    params = ruled.get_params(deep=False) | {"crf": None}
    params["rules"] = params["rules"] if isinstance(params["rules"], str) else rules_text.to_dicts(params["rules"])
    metadata = {
        "chain": chain,
        "params": params,
        "rules": rules_text.to_dicts(ruled.rules_),
        "tau": ruled.tau_,
        "counts": [ruled.n_candidates_, ruled.n_kept_],
        "report": [vars(row) for row in ruled.report_ if row.weight > 0],
    }
    save_model(path, KIND, arrays, metadata)


def ruled_from_file(ruled: "RuledCRF", source: str | Path | bytes, features: Any = None) -> "RuledCRF":
    """Fill ``ruled`` with the model in a file."""
    from rulefield.estimators.ruled import RuleReport

    kind, arrays, metadata = load_model(source)
    if kind != KIND:
        raise ModelFileError(f"this file holds a {kind!r} model, not a ruled chain; open it with rulefield.load().")
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
