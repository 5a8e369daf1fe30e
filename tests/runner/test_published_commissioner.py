"""A commissioner that speaks by the models of 0.1.26, with all hooks, drives a tournament here."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from support.published_client import install

from coworld_core.commissioner.hook_names import HOOKS
from coworld_runner.evaluation.tournament import add_entrant, create_tournament, play_tournament

SUPPORT = Path(__file__).parents[1] / "support"

pytestmark = [pytest.mark.slow, pytest.mark.more, pytest.mark.timeout(900)]


async def test_a_commissioner_with_the_published_messages_drives_a_tournament(tmp_path: Path) -> None:
    python = install(tmp_path / "venv")
    place = tmp_path / "league"
    command = shlex.join([str(python), "-I", str(SUPPORT / "published_commissioner.py")])
    await create_tournament(
        place, str(SUPPORT / "quick"), variant="duel", commissioner=command, rounds=2, count_starved=True
    )
    settings = place / "tournament.toml"
    settings.write_text(settings.read_text().replace("[pairing]\n", f"[pairing]\nhooks = {json.dumps(HOOKS)}\n"))
    for player in ("guest", "confidant"):
        await add_entrant(place, player)
    report = await play_tournament(place, backend="process", parallel=2)
    assert (report.stopped, report.rounds, report.blocks, report.faults) == ("rounds", 2, 4, ())
    assert report.commissioned is not None
    [division] = report.commissioned.divisions
    assert (division.name, division.description) == ("Open", "Everybody.")
    assert division.words == {"round_structure": "There and back.", "scoring_mechanics": "2 compete."}
    assert [one.rank for one in division.members] == [1, 2]
    over = [(one.code, one.display, len(one.rankings)) for one in report.commissioned.rounds]
    assert over == [("", {"legs": 2}, 2)] * 2
