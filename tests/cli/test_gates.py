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


def test_what_is_missing_is_said_in_order(tmp_path: Path) -> None:
    """First the bot, then the game, and by which option it is named."""
    (tmp_path / "bots").mkdir()
    (tmp_path / "bots" / "bot.py").write_text(WEAK)
    for words in (["gate", "bots/bat.py"], ["gate", "bots/bat.py", "--watch"]):
        no_bot = coworld(*words, cwd=tmp_path)
        assert (no_bot.status, "There is no player at bots/bat.py" in no_bot.stderr) == (2, True), no_bot.stderr
        assert "Did you mean bots/bot.py?" in no_bot.stderr
    for words in (["gate", "bots/bot.py"], ["check", "bots/bot.py"], ["compare", "bots/bot.py", "random"]):
        no_game = coworld(*words, cwd=tmp_path)
        assert (no_game.status, "Name the game with -m" in no_game.stderr) == (2, True), no_game.stderr
    elsewhere = coworld("gate", "bots/bot.py", "-m", "bots", cwd=tmp_path)
    assert "is a directory without a manifest" in elsewhere.stderr
    assert "with -m" not in elsewhere.stderr
