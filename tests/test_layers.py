"""The layout: imports point down only, a family imports itself and what is shared, and no folder is crowded.

A package imports packages with a smaller number, never a sibling of its level. Inside a layer a family (a folder)
imports its own files and the layer's shared ones; exceptions are listed with their reason.
"""

import ast
import re
from functools import cache
from pathlib import Path

import rulefield

LEVELS = {
    "exceptions": -2,
    "locks": -1,
    "proofcheck": -1,
    "outputs": 0,
    "forms": 0,
    "regexes": 0,
    "scikit": 0,
    "data": 0,
    "kernels": 0,
    "problem": 1,
    "encode": 1,
    "persistence": 1,
    "interrupts": -1,
    "parallel": 1,
    "metrics": 2,
    "inference": 3,
    "models": 3,
    "rules": 3,
    "learning": 4,
    "datasets": 5,
    "report": 5,
    "estimators": 6,
    "formats": 7,  # public modules: they re-export
    "graphs": 7,
    "plots": 7,
    "cli": 7,
    "compat": 7,
    "__main__": 8,
}
MOST_FILES = 16  # in a layer's own folder or in a family's: more than that is a list, not a place
# (layer, family, the other family that it may import): why
FAMILY_EXCEPTIONS = {
    ("estimators", "joint", "chain"): "a joint model starts from one chain per task",
    ("estimators", "ruled", "chain"): "RuledCRF wraps a ChainCRF",
    ("estimators", "ruled", "segments"): "or a SegmentCRF",
    ("encode", "documents", "formats"): "files of pages are opened and refused like files of texts",
    ("estimators", "documents", "graph"): "boxes are nodes of a graph",
    ("estimators", "gaussian", "predictors"): "fields join cross-fitted predictors",
    ("estimators", "gaussian", "graph"): "rules on the labels of a field are those of a graph of labels",
    ("estimators", "graph", "predictors"): "and so do graphs",
    ("estimators", "multilabel", "graph"): "the labels of one sample are a small graph",
    ("estimators", "multilabel", "predictors"): "and may be scored by predictors first",
    ("estimators", "text", "chain"): "a parser labels tokens with a chain",
    ("kernels", "segments", "lattice"): "segmentations are laid out as the lattice that rules are multiplied with",
    ("kernels", "segments", "chain"): "a step between segments is a step of a chain",
    ("learning", "expectations", "chain"): "free sums of one chain go through the chain's kernels",
    ("rules", "graph", "chain"): "a path of a graph is a chain",
    ("rules", "finding", "chain"): "candidates are measured by compiling them for chains",
}
ROOT = Path(rulefield.__file__).parent


def modules():
    return sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


@cache
def tree(path):
    return ast.parse(path.read_text())


def package_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_packages(path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield "(relative import)"
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "rulefield":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "rulefield" and len(parts) > 1:
                    yield parts[1]


def test_imports_point_down():
    upward = [
        f"{path.relative_to(ROOT)} imports {package}"
        for path in modules()
        for package in imported_packages(path)
        if package != package_of(path) and LEVELS[package] >= LEVELS[package_of(path)]
    ]
    assert upward == []


def test_every_package_has_a_level():
    assert {package_of(p) for p in modules()} <= set(LEVELS)


def family_of(parts):
    """The family folder of a module path inside a layer, or None for a file that the layer shares."""
    return parts[1] if len(parts) > 1 and (ROOT / parts[0] / parts[1]).is_dir() else None


def imported_families(path):
    """Yield (layer, family) of every import of a family's file."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rulefield."):
            parts = node.module.split(".")[1:]
            for name in node.names:
                if family := family_of((*parts, name.name)):
                    yield parts[0], family


def imports_of_other_families(path):
    """Yield (layer, family, other family) of every import that leaves the family of a file inside its layer."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    own_family = family_of(parts)
    for layer, family in imported_families(path):
        if layer == parts[0] and own_family not in (None, family):
            yield layer, own_family, family


def test_a_family_imports_itself_and_what_is_shared():
    crossing = {(*triple, path.name) for path in modules() for triple in imports_of_other_families(path)}
    assert {case for case in crossing if case[:3] not in FAMILY_EXCEPTIONS} == set()


def test_every_exception_is_needed():
    used = {
        (layer, family_of(path.relative_to(ROOT).parts), family)
        for path in modules()
        for layer, family in imported_families(path)
        if layer == package_of(path)
    }
    assert set(FAMILY_EXCEPTIONS) <= used


def test_no_folder_is_crowded():
    folders = {path.parent for path in modules()}
    crowded = {str(f.relative_to(ROOT)): n for f in folders if (n := len(list(f.glob("*.py")))) > MOST_FILES + 1}
    assert not crowded  # __init__.py is not counted


def test_estimators_say_what_they_are_given():
    """Parameters (of dataclasses: fields) of type Any: at most one in ten."""
    arguments = [
        argument
        for path in (ROOT / "estimators").rglob("*.py")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        for argument in (ast.walk(node.args) if isinstance(node, ast.FunctionDef) else _fields(node))
        if isinstance(argument, ast.arg | ast.AnnAssign) and argument.annotation is not None
    ]
    anything = [argument for argument in arguments if ast.unparse(argument.annotation) == "Any"]
    assert len(anything) <= 0.1 * len(arguments)


def test_no_two_classes_share_a_name():
    """The proof checker stands alone: it shares no code, so it may use the words of the library."""
    where = {}
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef) and path.name != "proofcheck.py":
                where.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: files for name, files in where.items() if len(files) > 1} == {}


def test_no_two_test_files_share_a_name():
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert {name for name in names if names.count(name) > 1} == set()  # pytest would collect neither


NAMES = "X|Y|Sequences|Parquet|PDF|XML|CoNLL-U|CRFsuite's|\\w+CRF|FeatureEncoder"
SCIKIT_LEARN = "Found input variables|Input [Xy] contains|Invalid parameter"  # its checks look for these words


def test_messages_begin_with_what_they_are_about():
    """A message begins with the name of a thing, in lower case if it has no other, and ends its sentence."""
    bad = []
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                text = _text(node.exc.args[0])
                if text[:1].isupper() and not re.match(f"({NAMES})\\b|{SCIKIT_LEARN}", text):
                    bad.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text}")
    assert bad == []


def _text(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "..."


def test_docstrings_name_parameters_that_there_are():
    stale = []
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (own := _parameters(node)):
                found = re.search(
                    r"Parameters\n-+\n(.*?)(?=\n\w[^\n]*\n-{3,}|\Z)", ast.get_docstring(node) or "", re.S
                )
                heads = re.findall(r"^(\*{0,2}[A-Za-z_][\w*, ]*)(?= : |$)", found[1] if found else "", re.M)
                told = {name.strip(" *") for head in heads for name in head.split(",")}
                stale += [f"{path.relative_to(ROOT)}:{node.lineno}: {name}" for name in told - own]
    assert stale == []


def _parameters(node):
    """Names that a function takes; for a class those of its constructor, or its fields and those of its bases."""
    if isinstance(node, ast.FunctionDef):
        return {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name in ("__init__", "__new__"):
            return _parameters(member)
    fields = {member.target.id for member in _fields(node)}
    bases = [_classes()[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in _classes()]
    return fields.union(*map(_parameters, bases))


def _fields(node):
    return [m for m in node.body if isinstance(m, ast.AnnAssign) and isinstance(m.target, ast.Name)]


@cache
def _classes():
    """Classes of the library by name."""
    return {node.name: node for path in modules() for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)}
