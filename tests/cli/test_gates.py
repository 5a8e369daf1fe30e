"""`gate` and `bots`: exit statuses, what is remembered, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli_kit import coworld

pytestmark = [pytest.mark.slow, pytest.mark.more]

NIM = Path(__file__).parents[2] / "examples" / "nim"
WEAK = "def act(observation, legal, rng):\n    return rng.choice(legal)\n"


def test_bot_of_a_folder_from_its_first_gate_to_its_page(tmp_path: Path) -> None:
    (tmp_path / "bots").mkdir()
    bot = tmp_path / "bots" / "bot.py"
    bot.write_text(WEAK)
    nothing = coworld("bots", "bots", cwd=tmp_path)
    assert (nothing.status, "`coworld gate BOT` makes one" in nothing.stderr) == (2, True)
    first = coworld("gate", "bots/bot.py", "-m", NIM, cwd=tmp_path)
    assert first.status == 0, first.stderr
    assert first.stdout.startswith("Accepted: bot.py ")
    assert "gate.toml remembers the game" in first.stderr
    bot.write_text("def act(observation, legal, rng):\n    return legal[9]\n")
    broken = coworld("gate", "bot.py", "--json", cwd=tmp_path / "bots")
    assert (broken.status, broken.json["ok"], broken.json["reason"]) == (1, False, "failed")
    forced = coworld("gate", "bot.py", "--accept", cwd=tmp_path / "bots")
    assert (forced.status, "accepted without being measured" in forced.stdout) == (0, True)
    again = coworld("gate", "bot.py", cwd=tmp_path / "bots")
    assert (again.status, "is the accepted version, since" in again.stdout) == (0, True)
    shown = coworld("bots", "--html", "../bots.html", "--json", cwd=tmp_path / "bots")
    assert [gate["status"] for gate in shown.json["bots"][0]["gates"]] == ["accepted", "rejected", "accepted"]
    page = (tmp_path / "bots.html").read_text()
    assert "coworld replay" in page
    assert "IndexError" in page
    refused = coworld("gate", "bot.py", "--accept", "--watch", cwd=tmp_path / "bots")
    assert (refused.status, "exclude each other" in refused.stderr) == (2, True)
