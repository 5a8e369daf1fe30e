"""`suite run --on-platform` against a real Observatory."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest
from support.cli_kit import coworld
from support.launcher import Done
from support.observatory_kit import QUICK, open_platform, seed

from coworld_cli import exitcodes

TEXT = """
episodes = 2

[[entry]]
name = "pairs"
lineups = [["{player}", "right"]]
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_suite_is_played_on_a_platform_and_shown_here(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "strength.toml").write_text(TEXT)
    async with open_platform(tmp_path) as platform:
        ann = await platform.account("ann")
        await seed(platform.services, ann.id, league=False)
        for name in ("left", "right"):
            await platform.policy(ann, name)
        env = {"COWORLD_SERVER": platform.url, "COWORLD_TOKEN": ann.token, "SOFTMAX_CONFIG_DIR": str(home / ".c")}

        async def said(*words: str) -> Done:
            return await anyio.to_thread.run_sync(partial(coworld, "suite", *words, env=env, cwd=home))

        run = ("run", "strength.toml", "--on-platform", "--player", "left")
        for more, status, says in (
            (("-m", "quick"), exitcodes.USAGE, "name one with -o"),
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
        assert "pairs, duel: ereq_" in played.stderr
        again = await said(*run, "-m", "quick", "-o", "out", "--label", "exp=a", "--json")
        shown = await said("show", "out", "--json")
        assert (again.json["cells"], again.json["players"]) == (shown.json["cells"], shown.json["players"])
        assert [player["name"] for player in shown.json["players"]] == ["left:v1", "right:v1"]
        page = await said("show", "out", "--html", "page.html")
        assert page.status == exitcodes.OK, page.stderr
        assert "left:v1" in (home / "page.html").read_text()
        # Only what was played
        listed = await anyio.to_thread.run_sync(
            partial(coworld, "xp-request", "list", "--label", "suite=strength", "--label", "exp=a", "--json", env=env)
        )
        assert len(listed.json["entries"]) == 2, listed.stdout
