"""Models and interfaces of other libraries.

``load_crfsuite`` opens model files of CRFsuite; ``compat.sklearn_crfsuite`` and ``compat.spacy`` have the interfaces of
those libraries.
"""

from rulefield.estimators.text.crfsuite import load_crfsuite

__all__ = ["load_crfsuite"]
