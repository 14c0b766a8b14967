"""Every public name exists, is documented, and importing the package alone is cheap."""

import subprocess
import sys

import pytest

import rulefield


@pytest.mark.parametrize("name", [n for n in rulefield.__all__ if n != "__version__"])
def test_name_exists_and_is_documented(name):
    assert getattr(rulefield, name).__doc__


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'ChainCFR'"):
        _ = rulefield.ChainCFR


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, rulefield; assert not {'numba', 'sklearn', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
