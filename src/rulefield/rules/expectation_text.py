"""Expectations as files: a YAML list of what should hold on average while a model is trained.

An entry is an expectation as it is written in Python, or a mapping::

    - name: names are nouns
      expect: share(ner='B-PER', pos='NOUN')
      between: [0.053, 0.055]      # or at_most: 0.01, or at_least: 0.05
    - share(ner='B-PER', pos='VERB').at_most(0)
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from rulefield.exceptions import RuleError
from rulefield.rules.expectations import Expectation, Expected, Share
from rulefield.rules.parse import parse_expression
from rulefield.rules.rule import LARGEST_WEIGHT
from rulefield.rules.text import read_entries, read_text, text_under

RANGES = ("between", "at_most", "at_least")
KEYS = ("name", "expect", *RANGES)


def parse_expectation(text: str) -> Expectation:
    """Read one expectation as it is written in Python: ``share('B-PER').between(.04, .06)``."""
    found = parse_expression(text, "expectation")
    if isinstance(found, Share | Expected):
        raise RuleError(f"{text.strip()!r} says no range; add .between(low, high), .at_most(high) or .at_least(low).")
    if not isinstance(found, Expectation):
        raise RuleError(f"{text.strip()!r} is not an expectation; write share(...) or expected(...).")
    return found


def loads(text: str, source: str = "expectations") -> list[Expectation]:
    """Read the text of an expectations file; errors name ``source`` and the line."""
    return read_entries(text, source, "expectations", "expect", _from_entry)


def load(path: str | Path) -> list[Expectation]:
    """Read an expectations file."""
    return loads(read_text(path, "expectations"), source=Path(path).name)


def dumps(expectations: Iterable[Expectation]) -> str:
    """Write expectations as the text of a file that :func:`loads` reads."""
    return yaml.safe_dump([_to_dict(e) for e in expectations], sort_keys=False, allow_unicode=True, width=1000)


def _to_dict(expectation: Expectation) -> dict[str, Any]:
    entry: dict[str, Any] = {} if expectation.name is None else {"name": expectation.name}
    entry["expect"] = repr(expectation.quantity)
    if expectation.low == -np.inf:
        entry["at_most"] = expectation.high
    elif expectation.high == np.inf:
        entry["at_least"] = expectation.low
    else:
        entry["between"] = [expectation.low, expectation.high]
    return entry


def _from_entry(entry: Any) -> Expectation:
    if isinstance(entry, str):
        return parse_expectation(entry)
    made = _in_range(entry, text_under(entry, "expect", KEYS, "an expectation"))
    return made if entry.get("name") is None else made.named(str(entry["name"]))


def _in_range(entry: Mapping[str, Any], text: str) -> Expectation:
    given = [key for key in RANGES if key in entry]
    if not given:
        return parse_expectation(text)
    if len(given) > 1:
        raise RuleError(f"give one of {', '.join(RANGES)}, not {' and '.join(given)}.")
    quantity = parse_expression(text, "expectation")
    if not isinstance(quantity, Share | Expected):
        raise RuleError(f"{text!r} with {given[0]!r} must be a share(...) or an expected(...).")
    value = entry[given[0]]
    ends = value if given[0] == "between" and isinstance(value, list) else [value]
    if len(ends) != 1 + (given[0] == "between") or not all(map(_is_number, ends)):
        shape = "two finite numbers, [low, high]" if given[0] == "between" else "one finite number"
        raise RuleError(f"{given[0]} needs {shape}; got {value!r}.")
    return getattr(quantity, given[0])(*ends)


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number; whole ones may have any length in a file."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_WEIGHT
