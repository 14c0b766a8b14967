"""Print pip constraints for the oldest versions that pyproject.toml allows of what the library needs to run."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
for requirement in project["dependencies"]:
    name, version = re.fullmatch(r"([\w.-]+)>=([\d.]+)", requirement.strip()).groups()
    parts = [*version.split("."), "0"][:2] if version.count(".") < 2 else [version]
    print(f"{name}=={'.'.join(parts)}{'.*' if len(parts) == 2 else ''}")
print("pyarrow<20")  # the tests read its columns: newer ones refuse NumPy 1
