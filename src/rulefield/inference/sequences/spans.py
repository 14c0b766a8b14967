r"""How probable a whole segment is: from its first token to its last, with its type, and neither longer nor shorter.

With :math:`Z` the sum over all labelings and :math:`Z_s` the sum over those in which segment s stands exactly so,
:math:`p(s) = Z_s / Z`. Products of label marginals are not that: neighboring labels are not independent.
"""

from collections.abc import Sequence

import numpy as np

from rulefield.encode.spans import SegmentTable, Span
from rulefield.inference.sequences.exact import log_partition
from rulefield.inference.sequences.reading import restricted
from rulefield.problem.chain_rules import ChainProblem


def span_probabilities(
    problem: ChainProblem, spans: Sequence[tuple[Span, int]], table: SegmentTable, tolerance: float = 1e-3
) -> list[float]:
    """Probability of each segment (given with its level) under the model and the rules of ``problem``.

    Under rules sums may leave out ``tolerance`` of the probability mass.
    """
    if not spans:
        return []
    if not problem.rules:
        p = problem.potentials
        total = log_partition(p)
        return [float(min(1.0, np.exp(log_partition(restricted(p, s, table, k)) - total))) for s, k in spans]
    from rulefield.inference.sequences.sums import Question, chances_of  # with rules only: loads engines

    asked = np.array([(s.start, s.stop, table.types.index(s.type), level) for s, level in spans], np.int64)
    question = Question(spans=asked, span_ptr=np.array([0, len(asked)]), starts=table.starts, kinds=table.type_of)
    return chances_of(problem, question, tolerance).span.tolist()
