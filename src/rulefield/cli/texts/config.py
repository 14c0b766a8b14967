"""``--config FILE``: options of a command from a YAML file; what the command line says counts."""

import difflib
from typing import Annotated, Any

import typer

from rulefield.exceptions import InputError, RuleError


def read_config(path: str, known: set[str]) -> dict[str, Any]:
    """Options by the name of their parameter; ``max-iter`` and ``max_iter`` are the same.

    Parameters
    ----------
    path : str
    known : set of str
        Parameters of the command.
    """
    from rulefield.rules.text import plain_value, read_text, read_tree

    root = read_tree(read_text(path, "config"), path)
    try:
        found = None if root is None else plain_value(root)
    except RuleError as error:
        raise InputError(f"{path!r}: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise InputError(f"{path!r} must hold options by name, such as `l2: 0.3`; got {found!r:.60}.")
    names = {str(ALIASES.get(name, name)).replace("-", "_"): value for name, value in found.items()}
    for name, value in names.items():
        if name not in known:
            near = difflib.get_close_matches(name, names_of(known), 1)
            hint = f"; did you mean {near[0]!r}" if near else f"; there are {', '.join(sorted(names_of(known)))}"
            raise InputError(f"{path!r}: {name!r} is no option{hint}.")
        if isinstance(value, dict):
            raise InputError(f"{path!r}: {name!r} must be one value or a list; got {value!r:.60}.")
    return {name: value for name, value in names.items() if value is not None}


def names_of(known: set[str]) -> set[str]:
    """Names of options as the command line has them."""
    named = {parameter: option for option, parameter in ALIASES.items()}
    return {named.get(parameter, parameter) for parameter in known}


ALIASES = {"output": "model", "format": "form"}
"""Options whose parameter has another name."""


def _configured(context: typer.Context, path: str | None) -> str | None:
    """Take options that are not on the command line from a file."""
    if path is not None:
        known = {str(parameter.name) for parameter in context.command.params} - {"config"}
        context.default_map = {**(context.default_map or {}), **read_config(path, known)}
    return path


Config = Annotated[
    str | None,
    typer.Option(
        help="YAML file of options (`l2: 0.3`); what the command line says counts.",
        callback=_configured,
        is_eager=True,
    ),
]
