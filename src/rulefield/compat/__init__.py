"""Models, templates and interfaces of other libraries.

``load_crfpp``, ``load_wapiti`` and ``load_crfsuite`` open model files of CRF++, Wapiti and CRFsuite; ``Template`` reads
feature templates of CRF++ and Wapiti; ``compat.sklearn_crfsuite`` and ``compat.spacy`` have the interfaces of
those libraries.
"""

from rulefield.encode.templates import Template
from rulefield.estimators.text.foreign import load_crfpp, load_crfsuite, load_wapiti

__all__ = ["Template", "load_crfpp", "load_crfsuite", "load_wapiti"]
