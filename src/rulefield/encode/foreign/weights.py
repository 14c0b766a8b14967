"""What any linear-chain model of another tool comes down to."""

from dataclasses import dataclass, replace

import numpy as np

from rulefield.exceptions import ModelFileError
from rulefield.forms import Forms, check_arrays, index, weights

MOST_LABELS = 5_000
"""A table of all steps between so many labels takes 200 MB; a file that names more is refused before it is made."""
FOREIGN_FORMS: Forms = {
    "state_feature": index("states", below="features", dtype="int64"),
    "state_label": index("states", below="labels", dtype="int64"),
    "state_weight": weights("states"),
    "transitions": weights("labels", "labels"),
    "step_feature": index("steps", below="features", dtype="int64"),
    "step_pair": index("steps", below="labels*labels", dtype="int64"),
    "step_weight": weights("steps"),
}


@dataclass(frozen=True)
class ForeignChain:
    """A linear chain: names, and the weights that are not zero.

    Parameters
    ----------
    labels : list of str, length m
    features : list of str
    state_feature, state_label : ndarray of int64, shape (n_state,)
        Which feature speaks for which label, with weights ``state_weight`` (n_state,).
    transitions : ndarray of float64, shape (m, m)
        Weight of label [from] before label [to].
    step_feature, step_pair : ndarray of int64, shape (n_step,)
        Features of a token that speak for a transition into it, ``from * m + to``, with weights ``step_weight``.
    """

    labels: list[str]
    features: list[str]
    state_feature: np.ndarray
    state_label: np.ndarray
    state_weight: np.ndarray
    transitions: np.ndarray
    step_feature: np.ndarray
    step_pair: np.ndarray
    step_weight: np.ndarray

    def without_zeros(self) -> "ForeignChain":
        """Return the same chain without weights that are zero and without features that have none left."""
        kept, stepped = self.state_weight != 0, self.step_weight != 0
        used = np.unique(np.concatenate([self.state_feature[kept], self.step_feature[stepped]]))
        place = np.full(len(self.features), -1, np.int64)
        place[used] = np.arange(len(used))
        return replace(
            self,
            features=[self.features[i] for i in used.tolist()],
            state_feature=place[self.state_feature[kept]],
            state_label=self.state_label[kept],
            state_weight=self.state_weight[kept],
            step_feature=place[self.step_feature[stepped]],
            step_pair=self.step_pair[stepped],
            step_weight=self.step_weight[stepped],
        )

    def checked(self, where: str) -> "ForeignChain":
        """Return the chain where every number in it names something that exists and every weight is finite."""
        arrays = {name: getattr(self, name) for name in FOREIGN_FORMS}
        try:
            check_arrays(arrays, FOREIGN_FORMS, {"labels": len(self.labels), "features": len(self.features)})
        except ModelFileError as error:
            raise ModelFileError(
                f"{where} is damaged: {str(error).split(' of the model file')[0]} is not as it must be."
            ) from None
        return self


def check_names(labels: list[str], features: list[str], where: str) -> None:
    """Refuse a file without labels, with a name twice, or with more labels than a table of steps can hold."""
    if not labels or len(set(labels)) != len(labels) or len(set(features)) != len(features):
        raise ModelFileError(f"{where} is damaged: it has no labels, or the same name twice.")
    if len(labels) > MOST_LABELS:
        raise ModelFileError(f"{where} names {len(labels)} labels; {MOST_LABELS} are the most that can be read.")
