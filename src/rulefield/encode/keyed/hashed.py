"""Hashed features: as many columns as there are buckets, whatever is met; no names are kept."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from rulefield.encode.features import DictReader
from rulefield.encode.vocabulary import Buckets
from rulefield.scikit import Estimator, TransformerMixin


@dataclass(eq=False, repr=False)
class HashedFeatures(TransformerMixin, Estimator):
    """Features in a fixed number of buckets: memory that does not grow with the vocabulary.

    Features whose names have the same hash share their weights, and a model keeps no names: :meth:`ChainCRF.explain` can name
    a bucket only by what the explained sequence itself has in it. Sequence estimators and model files take
    this wherever they take features.

    Parameters
    ----------
    features : transformer, optional
        What makes features of tokens, as in :class:`ChainCRF`.
    hash_bits : int, default 20
        There are ``2 ** hash_bits`` buckets. With as many buckets as features about a third of them are shared.

    Examples
    --------
    >>> from rulefield import ChainCRF, HashedFeatures
    >>> crf = ChainCRF(features=HashedFeatures(hash_bits=10)).fit([["Ada", "1843"]], [["name", "year"]])
    >>> crf.n_features_in_
    1024
    """

    features: Any = None
    hash_bits: int = field(default=20, kw_only=True)

    def fit(self, X: Any, y: Any = None) -> "HashedFeatures":
        """Check the parameters, and let ``features`` learn where they do."""
        Buckets(self.hash_bits)
        if hasattr(self.features, "fit"):
            self.features.fit(X)
        return self

    def transform(self, X: Any) -> Any:
        """Features before they are hashed."""
        return X if self.features is None else self.features.transform(X)

    def __sklearn_is_fitted__(self) -> bool:
        return True


class BucketNames(Sequence[str]):
    """Names of buckets by number, with the features of some tokens that fall into them."""

    def __init__(self, buckets: Buckets, tokens: Sequence[Any] = ()):
        self.size = len(buckets)
        self.found: dict[int, list[str]] = {}
        names = list(dict.fromkeys(chain.from_iterable(_names(tokens))))
        for name, bucket in zip(names, buckets.find(names).tolist()):
            self.found.setdefault(bucket, []).append(name)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(self.size))]
        if not -self.size <= i < self.size:
            raise IndexError(i)
        found = self.found.get(int(i) % self.size)
        return f"bucket {int(i) % self.size}" + (f" ({' or '.join(found)})" if found else "")


def _names(tokens: Sequence[Any]) -> Iterator[Collection[str]]:
    """Names of the features of tokens that are lists of strings or dicts."""
    if len(tokens) and isinstance(tokens[0], Mapping):
        return DictReader().names(tokens)
    return iter(tokens)
