"""How a chain goes on learning batch by batch: weights of new features are added, the rate of steps goes on."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, Self

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.encode.corpora.corpus import Corpus, CorpusSlice
from rulefield.encode.labels import LabelEncoder
from rulefield.estimators.chain.corpora import continue_with_corpus
from rulefield.estimators.chain.learning import LearningChain
from rulefield.estimators.chain.options import ChainOptions, chain_options
from rulefield.estimators.chain.training import ChainTraining, check_scores, continue_chain
from rulefield.estimators.inputs import InputEncoder, as_list, tokens_and_labels
from rulefield.estimators.sequences import check_some_tokens, checked_weights, narrowed
from rulefield.estimators.types import ArrayLike, Label, LabelsLike, SequencesLike
from rulefield.exceptions import InputError
from rulefield.interrupts import interruptible
from rulefield.learning.chain.penalties import AUTO
from rulefield.learning.chain.stochastic import Stream
from rulefield.models.chain_transfer import grown, restricted


class GrowingChain(LearningChain):
    """The part of :class:`rulefield.ChainCRF` that learns from one batch after another."""

    @interruptible
    def partial_fit(
        self,
        X: SequencesLike | Corpus,
        y: LabelsLike | None = None,
        classes: Sequence[Label] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Continue on more data with stochastic steps; new features are added, labels are fixed by the first call.

        Batches of one corpus give what one batch of all of it gives, within noise: the penalty is spread over all
        sequences seen so far, and the rate of the steps goes on where the last batch left it.

        Parameters
        ----------
        X, y, sample_weight : as in ``fit``
            The parts of a corpus are batches.
        classes : sequence of labels, optional
            All labels that will ever occur; by default those of the first call.
        """
        if self.expectations:
            raise InputError("partial_fit takes no expectations: they refer to a whole corpus; call fit.")
        begun = perf_counter()
        options = chain_options(self)
        if isinstance(X, Corpus):
            continue_with_corpus(self, X, y, classes, sample_weight, options, begun)
            return self
        rows, given = tokens_and_labels(X, y)
        rows, known = as_list(rows), as_list(given)
        check_some_tokens(rows)
        if not self.__sklearn_is_fitted__():
            names = self._batch_names(rows, known, classes)
            encoder = InputEncoder(copy.deepcopy(self.features), names.classes_)
            data = encoder.fit_transform(rows)
            self._learn_batch(data, self._labels(names, known, data), sample_weight, options, encoder, names, begun)
            return self
        if self.l2 == AUTO:
            options = replace(options, l2=self.l2_)
        self._extend(
            rows, lambda data: self._labels(self._labels_encoder, known, data), sample_weight, options, begun
        )
        return self

    def _extend(
        self,
        X: SequencesLike | CorpusSlice,
        labels_of: Callable[[Sequences], Labels],
        sample_weight: ArrayLike | None,
        options: ChainOptions,
        begun: float,
    ) -> None:
        """Learn from one batch more; where that fails, features that came with it are forgotten."""
        encoder, known = self._encoder, self._encoder.n_features
        try:
            data = encoder.extend(X)
            self._learn_batch(data, labels_of(data), sample_weight, options, encoder, self._labels_encoder, begun)
        except BaseException:
            encoder.forget_after(known)
            raise

    def _batch_names(self, X: Any, y: LabelsLike, classes: Sequence[Label] | None) -> LabelEncoder:
        if classes is None:
            from rulefield.estimators.chain.expectations import label_names

            return label_names(y, self.initial_label, X)
        return LabelEncoder().set_classes(sorted(classes, key=_by_kind))

    def _learn_batch(
        self,
        data: Sequences,
        labels: Labels,
        sample_weight: ArrayLike | None,
        options: ChainOptions,
        encoder: InputEncoder,
        names: LabelEncoder,
        begun: float,
    ) -> None:
        """Take steps on the weights of the batch's features; the others are copied and shrink by the penalty."""
        check_scores(data, labels, options.algorithm)
        weight = checked_weights(sample_weight, len(data))
        first = not self.__sklearn_is_fitted__()
        stream = Stream() if first else self._stream
        own, columns = (data, np.arange(data.n_features)) if first else narrowed(data)
        model = self._model(own, labels, names.classes_, encoder, options, columns=columns)
        theta = model.zeros()
        if not first:
            model, theta = grown(self.theta_, self.model_, model, columns, data.n_features)
        part, index = restricted(model, columns)
        start = None if first else theta[index]
        training = ChainTraining(part, own, labels, weight, start, self._seed() + stream.seen, begun)
        done, self._stream, shrunk = continue_chain(training, options, stream, self.verbose)
        theta *= shrunk
        theta[index] = done.theta
        self._keep(model, replace(done, theta=theta), options, encoder, names)


def _by_kind(label: Label) -> tuple[str, Any]:
    """Sort labels of one type among themselves, as :class:`LabelEncoder` does."""
    return type(label).__name__, label
