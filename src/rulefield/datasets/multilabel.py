"""Readers of multi-label data sets in Mulan's ARFF form: features first, 0 / 1 labels last."""

import gzip
import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.io import arff

from rulefield.exceptions import InputError


class MultiLabelData(NamedTuple):
    """Features (n_instances, n_features), labels (n_instances, n_labels) and the names of the labels."""

    X: np.ndarray
    Y: np.ndarray
    label_names: list[str]


def read_multilabel_arff(path: str | Path, n_labels: int) -> MultiLabelData:
    """Read an ARFF file (plain or gzipped) whose last ``n_labels`` attributes are the labels 0 and 1."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"there is no file {path}.")
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    table, meta = arff.loadarff(io.StringIO(raw.decode("utf-8")))
    names = meta.names()
    if not 0 < n_labels < len(names):
        raise InputError(f"{path.name} has {len(names)} attributes, so it cannot end in {n_labels} labels.")
    values = np.array([[float(cell) for cell in row] for row in table.tolist()])
    labels = values[:, -n_labels:]
    if not np.isin(labels, (0.0, 1.0)).all():
        raise InputError(f"the last {n_labels} attributes of {path.name} are not all 0 / 1.")
    return MultiLabelData(values[:, :-n_labels], labels, names[-n_labels:])


def read_emotions(folder: str | Path) -> MultiLabelData:
    """Music and emotions: 593 songs, 72 features, 6 labels (Trohidis et al. 2008); ``folder`` holds emotions.arff."""
    return read_multilabel_arff(Path(folder) / "emotions.arff", 6)


def read_yeast(folder: str | Path) -> MultiLabelData:
    """Functions of genes: 2,417 genes, 103 features, 14 labels ([Elisseeff01]); yeast.arff(.gz)."""
    plain = Path(folder) / "yeast.arff"
    return read_multilabel_arff(plain if plain.exists() else plain.with_suffix(".arff.gz"), 14)
