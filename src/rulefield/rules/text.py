"""Rules as files and as plain data: the YAML rules file, and dicts to save inside models.

A rules file is a list; an entry is a rule as it is written in Python, or a mapping::

    - name: one title
      rule: segments('title') <= 1
      weight: 2.5        # a price, "learn", "auto", or "hard" (the default)
      per: unit          # or "once"
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rulefield.exceptions import RuleError
from rulefield.outputs import write_whole
from rulefield.rules.labels import hint
from rulefield.rules.parse import parse_rule
from rulefield.rules.rule import OPEN, Rule, as_rules

KEYS = ("name", "rule", "weight", "per")
DEEPEST = 20


def to_dicts(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Rules as plain data, fit for JSON and for model files."""
    return [_to_dict(rule) for rule in as_rules(rules)]


def _to_dict(rule: Rule) -> dict[str, Any]:
    entry: dict[str, Any] = {} if rule.name is None else {"name": rule.name}
    entry["rule"] = rule.text
    entry["weight"] = "hard" if rule.is_hard else rule.weight
    if rule.per != "unit":
        entry["per"] = rule.per
    return entry


def from_dicts(entries: Iterable[Mapping[str, Any] | str]) -> list[Rule]:
    """Rules from plain data: the inverse of :func:`to_dicts`."""
    return [_from_entry(entry) for entry in entries]


def _from_entry(entry: Mapping[str, Any] | str) -> Rule:
    if isinstance(entry, str):
        return parse_rule(entry)
    rule = parse_rule(text_under(entry, "rule", KEYS, "a rule"))
    weight = entry.get("weight", "hard" if rule.is_hard else rule.weight)
    if weight == "hard":
        rule = rule.hard()
    elif not isinstance(weight, str) or weight in OPEN:
        rule = rule.soft(weight, per=entry.get("per", rule.per))
    else:
        raise RuleError(f'weight must be a number, "learn", "auto" or "hard"; got {weight!r}.')
    return rule if entry.get("name") is None else rule.named(str(entry["name"]))


def dumps(rules: Iterable[Rule]) -> str:
    """Rules as the text of a rules file."""
    return yaml.safe_dump(to_dicts(rules), sort_keys=False, allow_unicode=True, width=1000)


def loads(text: str, source: str = "rules") -> list[Rule]:
    """Read the text of a rules file; errors name ``source`` and the line."""
    found = read_entries(text, source, "rules", "rule", _from_entry)
    names = [rule.name for rule in found if rule.name is not None]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        warnings.warn(f"{source}: two rules are named {twice!r}; reports will not tell them apart.", stacklevel=2)
    return found


def read_entries(text: str, source: str, what: str, key: str, read: Callable[[Any], Any]) -> list[Any]:
    """Read a YAML list (or a mapping ``what:`` to one), each entry by ``read``.

    Errors name ``source`` and the line of the entry, or of its value under ``key``.
    """
    return [_from_node(node, source, key, read) for node in _entries(text, source, what)]


def _entries(text: str, source: str, what: str) -> list[yaml.Node]:
    """Entries of a YAML list, or of a mapping ``what:`` to one."""
    root = read_tree(text, source)
    if root is None:
        return []
    if isinstance(root, yaml.MappingNode) and len(root.value) == 1 and root.value[0][0].value == what:
        root = root.value[0][1]
    if not isinstance(root, yaml.SequenceNode):
        article = "an" if what[0] in "aeiou" else "a"
        raise RuleError(f"{source}, line {root.start_mark.line + 1}: {article} {what} file is a list of {what}.")
    return root.value


def read_tree(text: str, source: str) -> yaml.Node | None:
    """Read YAML as far as its tree, None if it is empty; errors name ``source`` and the line."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise RuleError(f"{source}{line}: not YAML: {getattr(error, 'problem', None) or error}.") from None
    except RecursionError:
        raise RuleError(f"{source}: nested too deeply to be read.") from None
    if root is not None:
        _check_tree(root, source)
    return root


def _check_tree(root: yaml.Node, source: str) -> None:
    """Refuse deep nesting, and nodes that are used twice (a few aliases unfold to more than memory holds)."""
    level, seen = [root], {id(root)}
    for _ in range(DEEPEST):
        level = [inner for node in level for inner in _inner_nodes(node)]
        for node in level:
            if id(node) in seen:
                where = f"{source}, line {node.start_mark.line + 1}"
                raise RuleError(f"{where}: write this out where it is used; aliases (*name) are not read.")
            seen.add(id(node))
    if level:
        raise RuleError(f"{source}, line {level[0].start_mark.line + 1}: nested more than {DEEPEST} deep.")


def _inner_nodes(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [inner for pair in node.value for inner in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _from_node(node: yaml.Node, source: str, key: str, read: Callable[[Any], Any]) -> Any:
    try:
        return read(plain_value(node))
    except RuleError as error:
        raise RuleError(f"{source}, line {_entry_line(node, key)}: {error}") from None


def plain_value(node: yaml.Node) -> Any:
    """Numbers, texts, lists and dicts of a tree."""
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    except yaml.YAMLError as error:
        raise RuleError(f"not plain YAML: {getattr(error, 'problem', None) or error}.") from None
    except (ValueError, OverflowError) as error:  # 2024-99-99, or thousands of digits
        raise RuleError(f"a number or a date cannot be read: {error}.") from None
    finally:
        loader.dispose()


def _entry_line(node: yaml.Node, key: str) -> int:
    """Line of the value under ``key``, or of the entry."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == key:
                return value.start_mark.line + 1
    return node.start_mark.line + 1


def dump(rules: Iterable[Rule], path: str | Path) -> None:
    """Write a rules file."""
    write_whole(path, dumps(rules))


def load(path: str | Path) -> list[Rule]:
    """Read a rules file; one without any rule is an error."""
    found = loads(read_text(path, "rules"), source=Path(path).name)
    if not found:
        raise RuleError(f"the rules file {str(path)!r} holds no rule; write one per line, - segments('title') <= 1.")
    return found


def lines_of(path: str | Path) -> list[int]:
    """Return the line on which each rule of a file stands."""
    entries = _entries(read_text(path, "rules"), Path(path).name, "rules")
    return [_entry_line(node, "rule") for node in entries]


def read_text(path: str | Path, what: str) -> str:
    """Return the text of a file of rules or expectations."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError(f"the {what} file {str(path)!r} cannot be read: {error}.") from None


def text_under(entry: Any, key: str, keys: Sequence[str], what: str) -> str:
    """Return the text under a key of an entry; keys that mean nothing are refused, and the nearest that does is named."""
    if not isinstance(entry, Mapping):
        raise RuleError(f"an entry must be {what} or a mapping with {', '.join(keys)}; got {entry!r}.")
    for name in entry:
        if name not in keys:
            near = hint(str(name), keys, f"known are {', '.join(keys)}.")
            raise RuleError(f"{name!r} is not a key of {what}; {near}")
    if not isinstance(entry.get(key), str):
        raise RuleError(f"{what} needs the key {key!r} with its text; got {dict(entry)!r}.")
    return str(entry[key])
