"""The example of docs/segments.md runs and prints what the page says."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "segments.md"


def test_the_page_tells_the_truth():
    text = PAGE.read_text(encoding="utf-8").replace("```python", "").replace("```", "")
    example = doctest.DocTestParser().get_doctest(text, {}, "docs/segments.md", str(PAGE), 0)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
