"""CRF++'s text models (``crf_learn -t``, or ``crf_model.txt``): five sections with empty lines between them.

Header (version, cost-factor, maxid, xsize); labels; templates; a dictionary from feature strings to the place of their first
weight; the weights, one per line. A feature that begins with U has one weight per label, one with B one per pair of labels
[from, to]. The cost factor is not used: crf_test takes its own, 1, in its place.
"""

import codecs
from pathlib import Path

import numpy as np

from rulefield.encode.foreign.source import bytes_of, whole_number
from rulefield.encode.foreign.weights import ForeignChain, check_names
from rulefield.exceptions import InputError, ModelFileError


def read_crfpp(source: str | Path | bytes, encoding: str = "utf-8") -> tuple[ForeignChain, str]:
    """Read a text model of CRF++ (or its bytes): the chain, and the template that makes its features.

    Raises
    ------
    ModelFileError
        It is no such file, or damaged.
    """
    data, where = bytes_of(source)
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise InputError(
            f"encoding must be one that Python knows, such as 'utf-8' or 'euc-jp'; got {encoding!r}."
        ) from None
    if not data.startswith(b"version:"):
        raise ModelFileError(
            f"{where} is not a text model of CRF++: it does not begin with 'version:' (crf_learn -t writes one)."
        )
    header, labels, templates, dictionary, numbers = _sections(data.decode(encoding, "surrogateescape"), where)
    settings = dict(line.split(None, 1) for line in header if len(line.split(None, 1)) == 2)
    n_weights = whole_number(settings.get("maxid:", ""), "maxid", where)
    weights = _weights(numbers, n_weights, where)
    names, starts = _dictionary(dictionary, where)
    check_names(labels, names, where)
    m = len(labels)
    unary = np.array([name.startswith("U") for name in names], dtype=bool)
    if (~unary & ~np.array([name.startswith("B") for name in names], dtype=bool)).any():
        raise ModelFileError(f"{where} is damaged: a feature begins with neither U nor B.")
    sizes = np.where(unary, m, m * m)
    if (starts + sizes > n_weights).any() or int(sizes.sum()) > n_weights:
        raise ModelFileError(f"{where} is damaged: a feature points behind the last weight.")
    constant = np.array([name == "B" for name in names], dtype=bool)  # no macro: the same at every token
    state, step = np.flatnonzero(unary), np.flatnonzero(~unary & ~constant)
    transitions = np.zeros((m, m))
    for i in np.flatnonzero(constant):
        transitions += templates.count("B") * weights[starts[i] : starts[i] + m * m].reshape(m, m)
    chain = ForeignChain(
        labels,
        names,
        np.repeat(state, m),
        np.tile(np.arange(m), len(state)),
        weights[(starts[state, None] + np.arange(m)).ravel()],
        transitions,
        np.repeat(step, m * m),
        np.tile(np.arange(m * m), len(step)),
        weights[(starts[step, None] + np.arange(m * m)).ravel()],
    )
    return chain.checked(where).without_zeros(), "\n".join(templates)


def _sections(text: str, where: str) -> list[list[str]]:
    sections: list[list[str]] = [[]]
    for line in text.splitlines() if "\r" in text else text.split("\n"):
        if line or len(sections) == 5:
            sections[-1].append(line)
        else:
            sections.append([])
    if len(sections) != 5:
        raise ModelFileError(f"{where} is cut short: it has {len(sections)} of the five sections of a CRF++ model.")
    while sections[-1] and not sections[-1][-1]:
        sections[-1].pop()
    return sections


def _weights(lines: list[str], count: int, where: str) -> np.ndarray:
    if len(lines) != count:
        raise ModelFileError(f"{where} is damaged: it has {len(lines)} weights where its header says {count}.")
    try:
        values = np.array([float(line) for line in lines], dtype=np.float64)
    except ValueError:
        raise ModelFileError(f"{where} is damaged: a weight is not a number.") from None
    return values


def _dictionary(lines: list[str], where: str) -> tuple[list[str], np.ndarray]:
    pairs = [line.partition(" ") for line in lines]
    starts = [whole_number(number, "the place of a feature", where) for number, _, _ in pairs]
    return [name for _, _, name in pairs], np.array(starts, dtype=np.int64)
