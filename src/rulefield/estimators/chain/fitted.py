"""What a fitted chain answers: labels, probabilities, k best, samples, explanations; rules where there are some."""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.encode.corpora.corpus import Corpus, CorpusSlice
from rulefield.encode.labels import LabelEncoder
from rulefield.estimators.base import SequenceEstimator
from rulefield.estimators.chain.corpora import answers, refuse_client
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.chain.explanations import ChainExplainer, explain_model, weight_rows
from rulefield.estimators.explanations import Explanation, ModelExplanation, Weight, with_rules_or_without
from rulefield.estimators.inputs import InputEncoder, as_list, tokens_of
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import check_call
from rulefield.estimators.sequences import (
    checked_output,
    in_form,
    label_lists,
    object_array,
    span_score,
    token_lists,
    whole_rows,
)
from rulefield.estimators.types import (
    ArrayLike,
    Client,
    KnownLike,
    LabelsLike,
    RandomState,
    RulesLike,
    SequencesLike,
    Tokens,
)
from rulefield.exceptions import RulefieldError
from rulefield.models.chain import ChainModel
from rulefield.parallel import in_threads, n_threads
from rulefield.scikit import check_is_fitted, check_random_state

if TYPE_CHECKING:
    from rulefield.estimators.chain.under_rules import RuledDecoder
    from rulefield.inference.proof.proof import Proof

LEAST_APART, PORTIONS, PORTION = 200, 2, (50, 1000)
"""Sequences of tokens from which threads share encoding; portions of each thread; least and most sequences of a portion."""


class FittedChain(SequenceEstimator):
    """The half of :class:`rulefield.ChainCRF` that works once weights are there, however they were learned."""

    scheme: str | None
    rules: RulesLike | None
    on_infeasible: str
    random_state: RandomState
    n_jobs: int | None
    classes_: list[Any]
    model_: ChainModel
    theta_: np.ndarray
    _encoder: InputEncoder
    _labels_encoder: LabelEncoder

    def predict(
        self,
        X: SequencesLike | Corpus | CorpusSlice,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        client: Client | None = None,
    ) -> np.ndarray:
        """Return the best labels of each sequence: a 1-D object array of lists.

        Parameters
        ----------
        X : as in ``fit``
        rules : list of rules, optional
            In place of the model's own; ``[]`` for none.
        known : list of sequences, optional
            Labels known beforehand (``None``: unknown; a set: one of these), or None for a whole sequence.
        client : distributed.Client, optional
            Workers that share the parts of a corpus.
        """
        self._check_fitted()
        if isinstance(X, Corpus):
            return object_array(answers(self, X, "predict", {"rules": rules, "known": known}, client))
        refuse_client(client)
        rows = as_list(X)
        rules = self._acting(rules)
        if not rules and known is None and (labels := self._in_portions(rows)) is not None:
            return object_array(labels)
        data = self._encoder.transform(rows)
        if rules:
            decoder, tokens = self._under(rules, rows, data)
            return object_array(decoder.predict(data, tokens, self._known(known, data)))
        ids = self._decoder().best(data, self._known(known, data))
        return object_array(label_lists(self._labels_encoder, ids, data.lengths))

    def _in_portions(self, rows: SequencesLike) -> list[Any] | None:
        """Return the best labels of many sequences of tokens, one thread encoding while another decodes.

        None where that does not pay, and where something is wrong with a sequence: whoever reads them all says what.
        """
        encoder, jobs = self._encoder, n_threads(self.n_jobs)
        if (
            jobs == 1
            or not isinstance(rows, list)
            or len(rows) < LEAST_APART
            or encoder.scored
            or not encoder.by_keys
        ):
            return None
        size = int(np.clip(len(rows) // (PORTIONS * jobs), *PORTION))
        decoder = ChainDecoder(self.model_, self.theta_, 1)

        def labels(first: int) -> list[Any]:
            data = encoder.transform(rows[first : first + size])
            return label_lists(self._labels_encoder, decoder.best(data), data.lengths)

        try:
            done = in_threads(labels, range(0, len(rows), size), jobs)
        except RulefieldError:
            return None
        return [own for part in done for own in part]

    def decode(
        self,
        X: SequencesLike | Corpus | CorpusSlice,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        engine: str = "auto",
        node_limit: int | None = None,
        seconds: float | None = None,
        probability: bool = False,
        verify: bool = False,
        client: Client | None = None,
    ) -> list[Labeling]:
        """Return the best labeling of each sequence with its score, bound, status and the rules it breaks.

        Parameters
        ----------
        X, rules, known : as in ``predict``
        engine : str
            The engine for rules; ``auto`` walks from cheap to exact and stops at the first proof.
        node_limit : int, optional
            Largest search of an engine; where it is reached the labeling is ``bounded``.
        seconds : float, optional
            Further limit in time for each sequence; answers then depend on the machine.
        probability : bool
            Whether to work out the probability of each labeling under the model and the rules.
        verify : bool
            Whether the checker of proofs must accept each answer's proof before it is returned; ``proof_kind`` is then
            ``checked``, or ``solver`` where no proof was found.
        client : as in ``predict``
        """
        self._check_fitted()
        check_call(node_limit=node_limit, seconds=seconds)
        limits = {"node_limit": node_limit, "seconds": seconds}
        if isinstance(X, Corpus):
            asked: dict[str, Any] = {
                "rules": rules,
                "known": known,
                "engine": engine,
                "probability": probability,
                "verify": verify,
            }
            asked |= limits
            return answers(self, X, "decode", asked, client)
        refuse_client(client)
        rows = as_list(X)
        data = self._encoder.transform(rows)
        acting = self._acting(rules)
        plainly = (
            not acting and engine == "auto" and "_ruled_decoder" not in vars(self)
        )  # another engine was put there
        found = self._plain(data, known, probability) if plainly else None
        if found is None:
            how = {"engine": engine} | {name: value for name, value in limits.items() if value is not None}
            found = self._ruled(rows, data, acting, known, how, probability)
        return [answer.verified() for answer in found] if verify else found

    def _plain(self, data: Sequences, known: KnownLike | None, probability: bool) -> list[Labeling] | None:
        """Return the best labelings without rules, by one pass over all sequences; None where that does not prove each."""
        allowed = self._known(known, data)
        best = self._decoder().labelings(data, allowed, probability)
        if not best.proved.all():
            return None
        chances = np.exp(best.score - best.total).tolist() if probability else [None] * len(data)
        rows = label_lists(self._labels_encoder, best.labels, data.lengths)
        ends = data.offsets.tolist()
        provers = [
            partial(self._prove, data, i, allowed, best.labels[ends[i] : ends[i + 1]]) for i in range(len(data))
        ]
        return [
            Labeling(labels, score, score, score, "optimal", "viterbi", probability=chance, prover=prover)
            for labels, score, chance, prover in zip(rows, best.score.tolist(), chances, provers)
        ]

    def _prove(self, data: Sequences, i: int, allowed: np.ndarray | None, labels: np.ndarray) -> "Proof | None":
        """Return a proof that no labels of sequence ``i`` score more than these."""
        from rulefield.inference.proof.sequences import prove_chain
        from rulefield.inference.result import Result, Status
        from rulefield.problem.chain_rules import ChainProblem

        potentials = self._decoder().potentials(data, i, allowed)
        score = potentials.score(labels)
        result = Result(labels, score, score, score, Status.optimal, "viterbi")
        return prove_chain(ChainProblem(potentials), result)

    def _ruled(
        self,
        X: SequencesLike,
        data: Sequences,
        rules: RulesLike,
        known: KnownLike | None,
        how: dict[str, Any],
        probability: bool = False,
    ) -> list[Labeling]:
        decoder, tokens = self._under(rules, X, data)
        return decoder.decode(data, tokens, self._known(known, data), probability, **how)

    def _under(self, rules: RulesLike, X: SequencesLike, data: Sequences) -> tuple["RuledDecoder", list[Any]]:
        """Return what decodes under rules, and what the rules read: tokens, or only how many there are."""
        decoder = self._ruled_decoder(rules)
        return decoder, token_lists(X, data) if decoder.compiler.reads_tokens else data.lengths.tolist()

    def _ruled_decoder(self, rules: RulesLike) -> "RuledDecoder":
        from rulefield.estimators.chain.under_rules import (
            RuledDecoder,  # loads rules and engines: only where asked for
        )

        return RuledDecoder(self._decoder(), rules, self.classes_, self.scheme, self.on_infeasible)

    def predict_marginals(
        self,
        X: SequencesLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        output: str = "dict",
    ) -> list[Any]:
        """Return the probability of every label at every token.

        Labelings that break a hard rule do not count, soft rules are paid for.

        Parameters
        ----------
        X, rules, known : as in ``predict``
        output : {"dict", "array"}
            A list of {label: probability} for each sequence, or an array (n_tokens, n_labels) in the order of
            ``classes_``.
        """
        self._check_fitted()
        checked_output(output)
        X = as_list(X)
        data = self._encoder.transform(X)
        node = self._marginals(X, data, self._acting(rules), self._known(known, data))
        return in_form(output, np.split(node, data.offsets[1:-1]) if len(data) else [], self.classes_)

    def _marginals(
        self, X: SequencesLike, data: Sequences, rules: RulesLike, allowed: np.ndarray | None, quick: bool = False
    ) -> np.ndarray:
        if not rules:
            return self._decoder().marginals(data, allowed)
        from rulefield.estimators.chain.under_rules import EXACT_NODES, EXPLAINED_NODES

        most = EXPLAINED_NODES if quick else EXACT_NODES
        return self._ruled_decoder(rules).marginals(data, token_lists(X, data), allowed, most)

    def predict_kbest(
        self, X: SequencesLike, *, rules: RulesLike | None = None, known: KnownLike | None = None, k: int = 5
    ) -> list[list[tuple[list[Any], float]]]:
        """Return the k best labelings of each sequence under the rules, and their probabilities."""
        check_call(k=k)
        self._check_fitted()
        X = as_list(X)
        data = self._encoder.transform(X)
        allowed, acting = self._known(known, data), self._acting(rules)
        if acting:
            answers = self._ruled_decoder(acting).kbest(data, k, token_lists(X, data), allowed)
        else:
            answers = self._decoder().kbest(data, k, allowed)
        return [[(self._labels_encoder.decode(ids), p) for ids, p in row] for row in answers]

    def sample(
        self,
        X: SequencesLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        n_samples: int = 1,
        random_state: RandomState = None,
    ) -> list[list[list[Any]]]:
        """Draw ``n_samples`` labelings of each sequence from the model's distribution under the rules."""
        check_call(n_samples=n_samples)
        self._check_fitted()
        X = as_list(X)
        data = self._encoder.transform(X)
        seed = check_random_state(self.random_state if random_state is None else random_state).randint(2**31 - 1)
        generator = np.random.default_rng(seed)
        allowed, acting = self._known(known, data), self._acting(rules)
        if acting:
            drawn = self._ruled_decoder(acting).sample(data, n_samples, token_lists(X, data), generator, allowed)
        else:
            drawn = self._decoder().sample(data, n_samples, generator, allowed)
        return [[self._labels_encoder.decode(ids) for ids in rows] for rows in drawn]

    def log_likelihood(self, X: SequencesLike, y: LabelsLike) -> np.ndarray:
        """Log-probability of the labels of each sequence, (n_sequences,), by the model without rules.

        Unknown labels are summed over.
        """
        self._check_fitted()
        data = self._encoder.transform(as_list(X))
        return self._decoder().log_likelihood(data, self._labels_encoder.encode(y, data.lengths))

    def score(
        self,
        X: SequencesLike,
        y: LabelsLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Span F1, as conlleval counts it; without a scheme the prefixes of the labels tell it, or runs are spans."""
        return span_score(y, self.predict(X, rules=rules, known=known), self.scheme, sample_weight)

    def weights(self) -> list[Weight]:
        """Return every weight that is not 0 as rows (feature, previous, label, weight) for ``pandas.DataFrame``."""
        self._check_fitted()
        return weight_rows(self.model_, self.theta_, self.classes_, self._encoder.names)

    def explain(
        self,
        x: Tokens | None = None,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        top: int = 5,
    ) -> Explanation | ModelExplanation:
        """Say which features and transitions decided the labels of one sequence; without ``x``, the largest weights.

        Parameters
        ----------
        x : one sequence
        rules : as in ``predict``
        known : sequence of labels
            Of ``x``.
        top : int
            How many features and transitions to name for each token.
        """
        self._check_fitted()
        if x is None:
            return explain_model(self.model_, self.theta_, self.classes_, self._encoder.names, top)
        X = x if isinstance(x, Sequences) else [x]
        names = self._encoder.names_in(X)
        data = self._encoder.transform(X)
        labeling = self._ruled(X, data, self._acting(rules), None if known is None else [known], {})[0]
        allowed = self._known(None if known is None else [known], data)
        path = self._labels_encoder.encode([labeling.labels]).ids.astype(np.int64)
        explainer = ChainExplainer(self.model_, self.theta_, self.classes_, names, top)
        marginals, note = with_rules_or_without(
            lambda: self._marginals(X, data, self._acting(rules), allowed, quick=True),
            lambda: self._decoder().marginals(data, allowed),
        )
        return explainer.explain(tokens_of(X, 0), data, path, marginals, labeling.broken, note)

    def _decoder(self) -> ChainDecoder:
        return ChainDecoder(self.model_, self.theta_, n_threads(self.n_jobs))

    def _known(self, known: KnownLike | None, data: Sequences) -> np.ndarray | None:
        if known is None:
            return None
        labels = self._labels_encoder.encode(whole_rows(known, data.lengths), data.lengths)
        if labels.allowed is not None:
            return labels.allowed
        return (labels.ids[:, None] == np.arange(labels.n_labels)).astype(np.uint8)

    def _check_fitted(self) -> None:
        check_is_fitted(self)
