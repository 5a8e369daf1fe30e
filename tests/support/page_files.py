"""The files that a page of the documentation shows, for tests with libraries that the page's own test lacks."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def write_file_of(page: str, name: str, directory: Path) -> Path:
    """Write a file that a page shows, with the paths of examples as seen from anywhere."""
    shown = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.search(rf"<!-- file: {re.escape(name)} -->\n```python\n(.*?)^```", shown, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{page} shows no {name}"
    file = directory / name
    file.write_text(found[1].replace('"examples/', f'"{ROOT}/examples/'), encoding="utf-8")
    return file
