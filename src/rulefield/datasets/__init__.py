"""Generators of data, and readers of the public sets; names are imported on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; _PUBLIC is the same list for the interpreter
    from rulefield.datasets.addresses import make_addresses as make_addresses
    from rulefield.datasets.citations import make_citations as make_citations
    from rulefield.datasets.columns import load_ads as load_ads
    from rulefield.datasets.columns import load_conll2000 as load_conll2000
    from rulefield.datasets.columns import load_conll2002 as load_conll2002
    from rulefield.datasets.columns import load_conll2003 as load_conll2003
    from rulefield.datasets.columns import load_ud_english as load_ud_english
    from rulefield.datasets.columns import read_columns as read_columns
    from rulefield.datasets.fields import make_grid_field as make_grid_field
    from rulefield.datasets.markov import read_uai as read_uai
    from rulefield.datasets.markov import read_wcsp as read_wcsp
    from rulefield.datasets.multilabel import read_emotions as read_emotions
    from rulefield.datasets.multilabel import read_yeast as read_yeast
    from rulefield.datasets.snakes import make_snakes as make_snakes
    from rulefield.datasets.snakes import read_snakes as read_snakes
    from rulefield.datasets.snakes import snake_graph as snake_graph
    from rulefield.datasets.tagged import load_citation_split as load_citation_split
    from rulefield.datasets.tagged import load_cora as load_cora
    from rulefield.datasets.tagged import load_umass as load_umass
    from rulefield.datasets.tagged import load_us50 as load_us50
    from rulefield.datasets.texts import make_invoices as make_invoices
    from rulefield.datasets.texts import make_log_lines as make_log_lines
    from rulefield.datasets.texts import make_notes as make_notes
    from rulefield.datasets.word_groups import word_clusters as word_clusters
    from rulefield.encode.cues import citation_cues as citation_cues

_PUBLIC = {
    "citation_cues": "encode.cues",
    "load_citation_split": "datasets.tagged",
    "load_conll2000": "datasets.columns",
    "load_ads": "datasets.columns",
    "load_conll2002": "datasets.columns",
    "load_conll2003": "datasets.columns",
    "load_cora": "datasets.tagged",
    "load_ud_english": "datasets.columns",
    "load_umass": "datasets.tagged",
    "load_us50": "datasets.tagged",
    "make_addresses": "datasets.addresses",
    "make_citations": "datasets.citations",
    "make_grid_field": "datasets.fields",
    "make_invoices": "datasets.texts",
    "make_log_lines": "datasets.texts",
    "make_notes": "datasets.texts",
    "make_snakes": "datasets.snakes",
    "read_columns": "datasets.columns",
    "read_emotions": "datasets.multilabel",
    "read_snakes": "datasets.snakes",
    "read_uai": "datasets.markov",
    "read_wcsp": "datasets.markov",
    "word_clusters": "datasets.word_groups",
    "read_yeast": "datasets.multilabel",
    "snake_graph": "datasets.snakes",
}

__all__ = list(_PUBLIC)


if not TYPE_CHECKING:  # a type checker would take every name for public

    def __getattr__(name: str) -> Any:
        if name not in _PUBLIC:
            raise AttributeError(f"module 'rulefield.datasets' has no attribute {name!r}")
        return getattr(import_module(f"rulefield.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
