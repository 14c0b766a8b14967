"""Many sequences under rules at once: what compiled passes over them prove, in arrays of label numbers."""

from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.estimators.chain.decoding import best_labelings
from rulefield.inference.flatten import Cache, Flat, flatten
from rulefield.inference.sequences.auto import NODE_LIMIT
from rulefield.inference.sequences.batch import Settled, settle
from rulefield.inference.sequences.sums import Chances, Question, chances
from rulefield.problem.chain import as_chains
from rulefield.rules import RuleCompiler

T = TypeVar("T")
CHUNK_SCORES = 1 << 19
"""Scores held at a time by a thread: enough sequences that Python's part is small, and chunks for all threads."""
LEAST_TOGETHER = 8
"""Sequences below which each is decoded by itself: their kernels are loaded anyway."""
LENGTHS = 256
"""Lengths of sequences whose rules are remembered: most texts have fewer different ones."""


class Proved(NamedTuple):
    """What is proved of sequences that lie one after the other, sequence i at ``offsets[i] : offsets[i + 1]``."""

    offsets: np.ndarray
    labels: np.ndarray
    """Best labels, (tokens,), where they are proved."""
    plain: np.ndarray
    """Where the best labels without rules break none of them, (sequences,): no others are better under them."""
    score: np.ndarray
    """Score of the best labels without rules, (sequences,)."""
    settled: list[Settled]
    """What the first levels of ``auto`` say of the others."""
    proved: np.ndarray
    """Whether the labels are proved best under the rules, (sequences,)."""


class TogetherDecoder:
    """Sends sequences through the plain chain, then those whose labels break rules through the first levels of ``auto``.

    What Python does for one sequence costs more than most of them do, and threads take turns at it. So nothing here is done
    sequence by sequence, except compiling rules that read tokens.

    Parameters
    ----------
    decoder : ChainDecoder, or another source of scores
    compiler : RuleCompiler
    node_limit : int
        Largest search of an engine.
    """

    def __init__(self, decoder: Any, compiler: RuleCompiler, node_limit: int = NODE_LIMIT):
        compiler.refuse_unlearned()
        self.decoder, self.compiler, self.node_limit = decoder, compiler, node_limit
        self._of_length: Cache[Flat] = Cache(LENGTHS)
        self._compiling = Lock()

    def __call__(
        self, data: Sequences, tokens: list[Any], allowed: np.ndarray | None, say: Callable[[Proved], list[T]]
    ) -> list[T]:
        """Return what ``say`` makes of each sequence; it is asked for a chunk at a time, in the thread of the chunk."""

        def chunk(first: int, last: int) -> list[T]:
            unary, pairwise, offsets = self.decoder.scores(data, allowed, first, last)
            return say(self._proved(unary, pairwise, offsets, tokens[first:last]))

        parts = self.decoder.over_chunks(data, chunk, CHUNK_SCORES)
        return [answer for part in parts for answer in part]

    def chances(
        self,
        data: Sequences,
        tokens: list[Any],
        allowed: np.ndarray | None,
        ask: Callable[[int, int], Question],
        tolerance: float,
    ) -> list[Chances]:
        """Sum over the labelings of chunks of sequences; ``ask`` says what is asked of sequences first to last."""

        def chunk(first: int, last: int) -> Chances:
            unary, pairwise, offsets = self.decoder.scores(data, allowed, first, last)
            rules, which = self._rules(tokens[first:last], np.diff(offsets))
            return chances(as_chains(unary, pairwise, offsets), rules, which, ask(first, last), tolerance)

        return self.decoder.over_chunks(data, chunk, CHUNK_SCORES)

    def _proved(self, unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray, tokens: list[Any]) -> Proved:
        best = best_labelings(unary, pairwise, offsets)
        lengths = np.diff(offsets)
        plain = best.proved & (lengths > 0)
        classes = self.compiler.reader.classes_of_all(tokens, lengths)
        plain &= ~self.compiler.reader.broken(classes, best.labels, offsets)
        found = Proved(offsets, best.labels, plain, best.score, [], plain.copy())
        left = np.flatnonzero(~plain)
        if len(left) < LEAST_TOGETHER:
            return found
        rules, which = self._tables(tokens, classes, offsets, left)
        for part in settle(as_chains(unary, pairwise, offsets).of(left), rules, which, self.node_limit):
            part = part._replace(numbers=left[part.numbers])
            found.settled.append(part)
            _take(found, part)
        return found

    def _tables(
        self, tokens: list[Any], classes: np.ndarray, offsets: np.ndarray, some: np.ndarray
    ) -> tuple[list[Flat], np.ndarray]:
        """Return the rules of some sequences for engines that read tables, as :meth:`_rules` does, but compiled once.

        Inputs differ in the ``classes`` of their tokens; tables of rules that grow differ by length, and rules that are paid
        once have caps of their own.
        """
        once = any(
            rule.per == "once" for rule, soft in zip(self.compiler.rules, self.compiler.weights < np.inf) if soft
        )
        if not self.compiler.reads_tokens or self.compiler.grows or once:
            return self._rules([tokens[i] for i in some.tolist()], np.diff(offsets)[some])
        first = flatten(self.compiler(tokens[int(some[0])]), len(self.compiler.labels))
        by_rule, cuts = self.compiler.reader.by_rule(classes), offsets.tolist()
        return [first.with_classes(by_rule[:, cuts[i] : cuts[i + 1]]) for i in some.tolist()], np.arange(len(some))

    def _rules(self, tokens: list[Any], lengths: np.ndarray) -> tuple[list[Flat], np.ndarray]:
        """Compile rules: the different ones, and which of them each sequence has; by length where no rule reads tokens."""
        m = len(self.compiler.labels)
        if self.compiler.reads_tokens:
            return [flatten(self.compiler(own), m) for own in tokens], np.arange(len(tokens))
        different, which = np.unique(lengths, return_inverse=True)
        with self._compiling:  # threads begin together, and would do the same work twice
            return [self._at_length(n, m) for n in different.tolist()], which

    def _at_length(self, n: int, m: int) -> Flat:
        found = self._of_length.get((n,))
        return found or self._of_length.put((n,), flatten(self.compiler(n), m))


def _take(found: Proved, part: Settled) -> None:
    """Write the labels of sequences that were settled to their places."""
    lengths = np.diff(part.offsets)
    first = np.repeat(found.offsets[part.numbers] - part.offsets[:-1], lengths)
    sure = np.repeat(part.sure, lengths)
    found.labels[(np.arange(len(first)) + first)[sure]] = part.labels[sure]
    found.proved[part.numbers] = part.sure
