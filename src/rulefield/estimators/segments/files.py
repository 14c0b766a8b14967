"""A fitted SegmentCRF as arrays and metadata, and back."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.estimators.base import State
from rulefield.estimators.inputs import InputEncoder, SequenceMetadata
from rulefield.estimators.packing import Packer
from rulefield.estimators.segments.coding import LexiconMatcher, SegmentCoder
from rulefield.estimators.types import Transformer
from rulefield.forms import Form, Label, check_arrays, check_typed, flags, index, pair_table, weights
from rulefield.models.pairs import PairTable
from rulefield.models.segments import SegmentModel

if TYPE_CHECKING:
    from rulefield.estimators.segments.estimator import SegmentCRF

_TABLES = ("token_pairs", "first_pairs", "last_pairs")
_ARRAYS = ("longest", "transition_from", "transition_to", "start_label", "end_label", "allowed")


SEGMENT_FORMS = {
    **pair_table("token_pairs", "tokens", "labels"),
    **pair_table("first_pairs", "firsts", "labels"),
    **pair_table("last_pairs", "lasts", "labels"),
    "longest": Form(("int64",), ("labels",), least=1),
    "transition_from": index("transitions", below="labels"),
    "transition_to": index("transitions", below="labels"),
    "start_label": index("starts", below="labels", ascending=True),
    "end_label": index("ends", below="labels", ascending=True),
    "allowed": flags("labels", "labels"),
}
THETA_FORM = {"theta": weights("tokens+firsts+lasts+lengths+transitions+starts+ends+spans*labels")}


class SegmentsMetadata(SequenceMetadata):
    """What :func:`segments_state` gives beside arrays."""

    labels: list[Label]


def segments_state(crf: "SegmentCRF") -> State:
    """Arrays and JSON-able metadata of a fitted model."""
    arrays, encoder = crf._encoder.state()
    labels = Packer("SegmentCRF").pack(list(crf._coder.classes), "labels")
    return arrays | _arrays(crf), {"encoder": encoder, "labels": labels}


def restore_segments(
    crf: "SegmentCRF", arrays: dict[str, np.ndarray], metadata: dict[str, Any], features: Transformer | None = None
) -> None:
    """Undo :func:`segments_state`."""
    check_typed(metadata, SegmentsMetadata, "the model")
    crf._coder = SegmentCoder(metadata["labels"], crf.scheme)
    crf.classes_ = crf._coder.types
    crf._lexicons = LexiconMatcher(crf.lexicons)
    sizes = check_arrays(arrays, SEGMENT_FORMS, {"labels": len(crf.classes_), "spans": len(crf._lexicons)})
    check_arrays(arrays, THETA_FORM, sizes | {"lengths": sum(arrays["longest"].tolist())})
    crf.model_ = _model(arrays, len(crf.classes_), len(crf._lexicons))
    crf.theta_ = arrays["theta"]
    crf._encoder = InputEncoder.from_state(arrays, metadata["encoder"], crf.model_.n_features, features)


def _arrays(crf: "SegmentCRF") -> dict[str, np.ndarray]:
    arrays = {name: getattr(crf.model_, name) for name in _ARRAYS} | {"theta": crf.theta_}
    for name in _TABLES:
        table = getattr(crf.model_, name)
        arrays |= {f"{name}_ptr": table.ptr, f"{name}_label": table.label}
    return arrays


def _model(arrays: dict[str, np.ndarray], n_labels: int, n_span_features: int) -> SegmentModel:
    token, first, last = (PairTable(arrays[f"{name}_ptr"], arrays[f"{name}_label"], n_labels) for name in _TABLES)
    structure = {name: arrays[name] for name in _ARRAYS}
    return SegmentModel(n_labels, token.n_features, n_span_features, token, first, last, **structure)
