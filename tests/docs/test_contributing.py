"""The page for contributors names places that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_every_path_leads_somewhere() -> None:
    named = re.findall(r"`((?:coworld_\w+|docs|examples|tests)/[\w./-]+)`", TEXT)
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_what_is_to_be_changed_is_where_the_page_says() -> None:
    pairs = re.findall(r"`(\w+)` in\s+`([\w./]+\.py)`", TEXT)
    assert len(pairs) >= 7
    assert [pair for pair in pairs if not re.search(rf"\b{pair[0]}\b", (ROOT / pair[1]).read_text("utf-8"))] == []
