"""Measurements with `--on-platform`, against a real Observatory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest
from support.cli_kit import coworld
from support.launcher import Done
from support.observatory_kit import QUICK, open_platform, seed

from coworld_cli import exitcodes
from coworld_core.episode.record import read_rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TEXT = """
episodes = 2

[[entry]]
name = "pairs"
lineups = [["{player}", "right"]]
"""


@asynccontextmanager
async def at_home(tmp_path: Path) -> AsyncGenerator[tuple[Path, Callable[..., Awaitable[Done]]]]:
    """A directory, and the command there, signed in to a platform with two policies."""
    home = tmp_path / "home"
    home.mkdir()
    async with open_platform(tmp_path) as platform:
        ann = await platform.account("ann")
        await seed(platform.services, ann.id, league=False)
        for name in ("left", "right"):
            await platform.policy(ann, name)
        env = {"COWORLD_SERVER": platform.url, "COWORLD_TOKEN": ann.token, "SOFTMAX_CONFIG_DIR": str(home / ".c")}

        async def said(*words: str) -> Done:
            return await anyio.to_thread.run_sync(partial(coworld, *words, env=env, cwd=home))

        yield home, said


async def test_a_suite_is_played_on_a_platform_and_shown_here(tmp_path: Path) -> None:
    async with at_home(tmp_path) as (home, command):
        (home / "strength.toml").write_text(TEXT)

        async def said(*words: str) -> Done:
            return await command("suite", *words)

        run = ("run", "strength.toml", "--on-platform", "--player", "left")
        for more, status, says in (
            (("-o", "out"), exitcodes.USAGE, "give it with -m"),
            (("-m", "quick", "-o", "out", "--build"), exitcodes.USAGE, "--build is about programs that run here"),
            (("-m", "quick", "-o", "out", "--player", "lost"), exitcodes.REMOTE, "no policy 'lost'"),
        ):
            refused = await said(*run, *more)
            assert (refused.status, says in refused.stderr) == (status, True), (more, refused.stderr)
        assert not (home / "out").exists()

        # The game of a package here is the Coworld with its name
        played = await said(*run, "-m", str(QUICK.directory), "-o", "out", "--label", "exp=a")
        assert played.status == exitcodes.OK, played.stderr
        assert "1 of 1 measurement ended" in played.stdout
        assert "block-0001.1-2 ok" in played.stderr
        again = await said(*run, "-m", "quick", "-o", "out", "--label", "exp=a", "--json")
        shown = await said("show", "out", "--json")
        assert (again.json["cells"], again.json["players"]) == (shown.json["cells"], shown.json["players"])
        assert [player["name"] for player in shown.json["players"]] == ["left:v1", "right:v1"]
        page = await said("show", "out", "--html", "page.html")
        assert page.status == exitcodes.OK, page.stderr
        assert "left:v1" in (home / "page.html").read_text()
        # Only what was played
        listed = await command("xp-request", "list", "--label", "suite=strength", "--label", "exp=a", "--json")
        assert len(listed.json["entries"]) == 2, listed.stdout


async def test_policies_are_compared_on_a_platform(tmp_path: Path) -> None:
    async with at_home(tmp_path) as (home, said):
        compare = ("compare", "left", "right", "-m", "quick", "--on-platform", "--variant", "duel", "--seed", "7")
        for more, status, says in (
            (("--player-cpus", "1"), exitcodes.USAGE, "--player-cpus is about programs that run here"),
            (("--require", "isolation"), exitcodes.USAGE, "decides itself how it runs"),
            (("--variant", "four"), exitcodes.USAGE, "a platform plays policies alone"),
        ):
            refused = await said(*compare, *more, "--max-blocks", "2")
            assert (refused.status, says in refused.stderr) == (status, True), (more, refused.stderr)
        played = await said(*compare, "--max-blocks", "2", "-o", "out", "--json")
        assert played.status == exitcodes.OK, played.stderr
        assert (played.json["plan"]["new"]["name"], played.json["blocks"]) == ("left:v1", 2)
        rows = [*read_rows(home / "out")]
        assert {row.run_id[:5] for row in rows} == {"ereq_"}
        # More blocks later: what was played is kept
        more = await said(*compare, "--max-blocks", "3", "-o", "out", "--json")
        assert (more.json["blocks"], len([*read_rows(home / "out")])) == (3, 6)
        assert [*read_rows(home / "out")][:4] == rows
        # Where others sit among them, a policy does
        four = await said(*compare, "--variant", "four", "--others", "right", "--max-blocks", "1", "-o", "four")
        assert four.status == exitcodes.OK, four.stderr
        assert "among right:v1" in four.stdout
        # Rows are in the order in which episodes ended
        assert sorted(row.slots[0].name for row in read_rows(home / "four")) == ["left:v1", "right:v1"]
        scrimmage = await said("scrimmage", str(QUICK.directory), "left", "--on-platform", "-n", "2", "--json")
        assert scrimmage.status == exitcodes.OK, scrimmage.stderr
        assert scrimmage.json["plan"]["player"]["name"] == "left:v1"
