"""How the documentation site is built: ``make docs``. No network is needed; warnings are errors."""

import re
import warnings

import matplotlib as mpl

import rulefield

mpl.use("Agg")
warnings.filterwarnings("ignore", category=UserWarning)

project = "rulefield"
author = "The rulefield developers"
version = release = rulefield.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["build"]
html_theme = "pydata_sphinx_theme"
html_title = "rulefield"
html_show_sourcelink = False
html_sidebars = {"**": ["globaltoc.html"]}  # all pages by purpose, at the left of each
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 3,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
# "n_features" in a docstring names a number, not an attribute of some class
suppress_warnings = ["ref.python"]

autodoc_default_options = {"members": True, "show-inheritance": False}
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1000,
    "abort_on_example_error": True,
}
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]  # code fits its width


def setup(app):
    """Leave out what scikit-learn adds to every estimator, and write citations as the references page has them."""
    app.connect(
        "autodoc-skip-member", lambda app, what, name, obj, skip, options: skip or bool(OTHERS.fullmatch(name))
    )
    app.connect("autodoc-process-docstring", write_citations)


OTHERS = re.compile(r"set_\w+_request|get_metadata_routing")
CITED = re.compile(r"\[([A-Z][A-Za-z]+\d\d)\]")


def write_citations(app, what, name, obj, options, lines):
    """Turn [Key] into text: citations of reStructuredText would need an entry on the same page."""
    lines[:] = [CITED.sub(r"\\[\1]", line) for line in lines]
