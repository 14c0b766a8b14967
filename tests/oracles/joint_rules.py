"""Random joint chains with rules over one task, over the other, and across tasks."""

from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from oracles.rules import LABEL_SETS, PATTERNS, TOKENS, pick, random_rule
from rulefield.encode.schemes import allowed_transitions
from rulefield.problem.joint import JointPotentials, JointProblem
from rulefield.rules.joint import JointRuleCompiler

SMALL_SETS = {
    "two": (None, ["u", "v"], ["u", "v"]),
    "short": ("BIO", ["O", "B-k", "I-k"], ["k", "O", "B-k"]),
}


@dataclass(frozen=True)
class JointCase:
    """Rules over the tasks of one small input; amounts are promised only for what the schemes allow."""

    tasks: dict
    tokens: list
    rules: list

    @property
    def sizes(self):
        return tuple(len(labels) for labels, _ in self.tasks.values())

    def potentials(self, rng, forbid=0.1, moves=False):
        """Random scores, -inf where a scheme forbids a label or a step."""
        sizes, n = self.sizes, len(self.tokens)
        psi = rng.normal(size=(n, *sizes)) * 2
        psi[rng.random(psi.shape) < forbid] = -np.inf
        steps = []
        for k, (labels, scheme) in enumerate(self.tasks.values()):
            allowed, begin, end = allowed_transitions(labels, scheme)
            steps.append(np.where(allowed, rng.normal(size=allowed.shape), -np.inf))
            if n:
                shape = [1] * len(sizes)
                shape[k] = -1
                psi[0] += np.where(begin, 0.0, -np.inf).reshape(shape)
                psi[-1] += np.where(end, 0.0, -np.inf).reshape(shape)
        S = int(np.prod(sizes))
        key = rng.choice(S * S, 3 if moves else 0, replace=False)
        return JointPotentials(
            sizes, psi.reshape(n, S), np.array([0, n]), tuple(steps), key // S, key % S, rng.normal(size=len(key))
        )

    def problem(self, rng, **options):
        """The same as an engine gets it."""
        compiler = JointRuleCompiler(self.rules, self.tasks)
        return JointProblem(self.potentials(rng, **options), (compiler(self.tokens),), compiler.letters)

    def labelings(self):
        """Every joint labeling that the schemes allow: joint states, and labels by task."""
        S = int(np.prod(self.sizes))
        masks = [allowed_transitions(labels, scheme) for labels, scheme in self.tasks.values()]
        for states in product(range(S), repeat=len(self.tokens)):
            own = np.array(np.unravel_index(np.array(states, dtype=int), self.sizes))
            if all(_allowed(y.tolist(), *mask) for y, mask in zip(own, masks)):
                names = {task: [labels[i] for i in y] for (task, (labels, _)), y in zip(self.tasks.items(), own)}
                yield np.array(states, dtype=np.int64), names


def _allowed(y, allowed, begin, end):
    return not y or (begin[y[0]] and end[y[-1]] and all(allowed[i, j] for i, j in pairwise(y)))


def random_joint_case(rng, max_tokens=3, max_rules=3, depth=2, hard=0.4):
    """Two tasks, one of them small, and rules: three quarters of the patterns name one task, the others both."""
    first = pick(rng, list(LABEL_SETS))
    second = pick(rng, list(SMALL_SETS))
    scheme, labels, patterns = SMALL_SETS[second]
    tasks = {"one": LABEL_SETS[first][::-1], "two": (labels, scheme)}
    if rng.random() < 0.5:
        tasks = dict(reversed(tasks.items()))
    own = {"one": PATTERNS[first], "two": patterns}
    known = [{task: pattern} for task in own for pattern in own[task]]
    known += [{"one": pick(rng, own["one"]), "two": pick(rng, own["two"])} for _ in range(len(known) // 3)]
    n = 0 if rng.random() < 0.02 else int(rng.integers(1, max_tokens + 1))
    tokens = [pick(rng, TOKENS) for _ in range(n)]
    rules = [random_rule(rng, known, depth, hard) for _ in range(rng.integers(1, max_rules + 1))]
    return JointCase(tasks, tokens, rules)
