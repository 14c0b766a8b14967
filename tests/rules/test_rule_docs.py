"""The examples of docs/rules.md run and print what the page says."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_page_is_true():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "docs/rules.md", str(PAGE), 0)
    failures, tried = doctest.DocTestRunner().run(example)
    assert tried > 40
    assert failures == 0
