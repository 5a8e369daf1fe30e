"""The pages of the documentation that serve a platform, executed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.docs_pages import PAGES, execute, lacks_library, needing, serves_a_platform

pytestmark = pytest.mark.slow

HERE = [page for page in PAGES if serves_a_platform(page) and not lacks_library(page)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [needing(page) for page in HERE])
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(page, tmp_path, monkeypatch)
