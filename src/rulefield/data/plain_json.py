"""JSON of others, read under limits: nesting, sizes of numbers, and text that UTF-8 can write."""

import json
from typing import Any

DEEPEST = 100
"""Most lists and objects inside each other."""


def read_json(text: str | bytes) -> Any:
    """Read one JSON value; raises ValueError whose text names the problem (no full stop)."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(error.msg) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text: {error.reason}") from None
    except RecursionError:
        raise ValueError(f"nested more than {DEEPEST} deep") from None
    except ValueError:  # the only other one: integers of thousands of digits
        raise ValueError("a number has thousands of digits") from None
    opening = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    if sum(map(text.count, opening)) > DEEPEST and _is_deep(value):  # type: ignore[arg-type]
        raise ValueError(f"nested more than {DEEPEST} deep")
    escape = "\\ud" if isinstance(text, str) else b"\\ud"
    if escape in text.lower() and not _is_writable(value):  # type: ignore[operator]
        raise ValueError("it holds half of a surrogate pair, which no text file can hold")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [inner for inner in value.values() if isinstance(inner, (dict, list))]
    return [inner for inner in value if isinstance(inner, (dict, list))] if isinstance(value, list) else []


def _is_writable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
