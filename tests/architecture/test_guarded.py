"""What decides whether the long tests on a cluster are run: red when a file it names has moved."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import guarded


def test_a_change_of_what_is_guarded_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert guarded.digest(), "each pattern names files"
    monkeypatch.setattr(guarded, "ROOT", tmp_path)
    monkeypatch.setattr(guarded, "GUARDED", ("some/*.py",))
    file = tmp_path / "some" / "module.py"
    file.parent.mkdir()
    file.write_text("one")
    one = guarded.digest()
    file.write_text("two")
    assert guarded.digest() != one
