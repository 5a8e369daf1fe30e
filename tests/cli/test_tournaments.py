"""A tournament in a folder at the terminal, from its beginning to its site."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli_kit import coworld

NIM = Path(__file__).parents[2] / "examples/nim"


@pytest.mark.slow
def test_tournament_commands_run_a_league(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    begun = coworld("tournament", "init", "league", "-m", NIM, "--count-starved", cwd=tmp_path)
    assert (begun.status, begun.stdout) == (0, "Settings: league/tournament.toml\n"), begun.stderr
    assert "Seeds are drawn from league/seed.secret: show it to nobody until" in begun.stderr
    named = coworld("tournament", "init", "named", "-m", NIM, "--seed", "7", cwd=tmp_path)
    assert "seed.secret" not in named.stderr
    assert "seed = 7\n" in (tmp_path / "named/tournament.toml").read_text()
    assert not (tmp_path / "named/seed.secret").exists()
    assert coworld("tournament", "add", "league", "./mine.py", cwd=tmp_path).stdout == "Entered: mine (1 in all)\n"
    again = coworld("tournament", "add", "league", "./mine.py", "--name", "twin", "--json", cwd=tmp_path)
    assert again.json == {"name": "twin", "entrants": ["mine", "twin"], "same": ["mine", "twin"]}
    assert "twin is the same program as mine." in again.stderr
    run = coworld("tournament", "run", "league", "--backend", "process", "--parallel", "2", cwd=tmp_path)
    assert run.status == 0, run.stderr
    assert "\n2 of 2 share the first place, after 1 round.\n" in run.stdout
    assert " · secret seeds, commitment " in run.stdout
    assert coworld("tournament", "standings", "league", cwd=tmp_path).stdout == run.stdout
    shown = coworld("tournament", "show", "league", "--markdown", cwd=tmp_path)
    assert shown.stdout == (tmp_path / "league/report.md").read_text()
    mean = coworld("tournament", "standings", "league", "--rating", "mean", "--json", cwd=tmp_path)
    assert (mean.json["plan"]["rules"]["rating"], mean.json["blocks"]) == ("mean", 1)
    assert coworld("tournament", "withdraw", "league", "twin", cwd=tmp_path).stdout == "Withdrawn: twin (1 left)\n"
    site = coworld("tournament", "export", "league", "site", cwd=tmp_path)
    assert (site.status, site.stdout) == (0, "Page: site/index.html\n")
    assert "same program: you compare a player with itself" in (tmp_path / "site/index.html").read_text()
    (tmp_path / "league/tournament.toml").write_text("game = 3\n")
    refused = coworld("tournament", "run", "league", "--json", cwd=tmp_path)
    assert (refused.status, refused.json["error"]["code"]) == (2, "settings_invalid")
    assert "game: Input should be a valid string" in refused.json["error"]["message"]
