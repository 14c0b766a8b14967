"""Generators of data, and readers of the public sets; names are imported on first use."""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "load_citation_split": "tagged",
    "load_conll2000": "columns",
    "load_conll2002": "columns",
    "load_cora": "tagged",
    "load_ud_english": "columns",
    "load_umass": "tagged",
    "load_us50": "tagged",
    "make_addresses": "addresses",
    "make_citations": "citations",
    "make_invoices": "texts",
    "make_log_lines": "texts",
    "make_notes": "texts",
    "read_columns": "columns",
    "read_uai": "markov",
    "read_wcsp": "markov",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'rulefield.datasets' has no attribute {name!r}")
    return getattr(import_module(f"rulefield.datasets.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
