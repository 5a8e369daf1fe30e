"""`grade`, `report-episode` and `diagnose-episode` with --on-platform, against a real Observatory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest
from click.testing import Result
from support.cli_kit import coworld
from support.fake_platform import FakePlatform
from support.launcher import Done
from support.observatory_kit import Account, open_platform, seed
from support.quick_roles import with_roles

from coworld_cli import exitcodes
from coworld_core.roles.role_record import read_role_record

ROLES = (
    ("grader", "margin", "measures"),
    ("grader", "broken", "fails"),
    ("reporter", "summary", "reports"),
    ("diagnoser", "edges", "diagnoses"),
)
UNKNOWN = "ereq_00000000-0000-4000-8000-000000000009"


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_platform_runs_roles_and_what_they_say_is_kept_here(tmp_path: Path) -> None:
    subject = with_roles(tmp_path / "quick", *ROLES)
    home = tmp_path / "home"
    home.mkdir()
    async with open_platform(tmp_path, packages=[subject.directory]) as platform:
        ann, bob, eve = [await platform.account(name) for name in ("ann", "bob", "eve")]
        world = await seed(platform.services, ann.id, subject=subject)
        versions = [await platform.policy(ann, "left"), await platform.policy(bob, "right")]
        episode = (await platform.until_played(await platform.play_round(world, *versions))).id

        async def said(*words: str, who: Account = ann) -> Done:
            env = {"COWORLD_SERVER": platform.url, "COWORLD_TOKEN": who.token, "SOFTMAX_CONFIG_DIR": str(home / ".c")}
            return await anyio.to_thread.run_sync(partial(coworld, *words, "--on-platform", env=env, cwd=home))

        graded = await said("grade", episode, "--grader", "margin")
        assert graded.status == exitcodes.OK, graded.stderr
        assert graded.stdout.splitlines()[1].split()[:2] == [episode, "0.25"]
        assert f"grader margin on {episode}: " in graded.stderr
        record = read_role_record(home / f"{episode}-grader-margin")
        assert (record.backend, record.score, record.unit) == ("platform", 0.25, None)

        # What was done is not done again, and what is refused for one episode is done for the others
        both = await said("grade", episode, UNKNOWN, "--grader", "margin", "--json")
        assert (both.status, both.json["grader"], both.json["mean_score"]) == (exitcodes.ANSWER_IS_NO, "margin", 0.25)
        first, second = both.json["episodes"]
        assert (first["kept"], first["run_id"], "score" in first["answer"]) == (True, record.run_id, True)
        assert (second["run"], "no episode" in second["error"].lower()) == (UNKNOWN, True), second

        report = await said("report-episode", episode, "--private", "-o", "told", "--json")
        assert report.status == exitcodes.OK, report.stderr
        assert report.json["page"] == str(home / "told" / "files" / "page.html")
        assert "player_logs:0 " in (home / "told" / "files" / "page.html").read_text()
        told = await said("diagnose-episode", episode, "--player", "left:v1")
        assert told.status == exitcodes.OK, told.stderr
        assert told.stdout.startswith("# left:v1\n")
        broken = await said("grade", episode, "--grader", "broken")
        assert broken.status == exitcodes.ANSWER_IS_NO
        assert "exited with status 3" in broken.stdout
        assert "I cannot go on" in broken.stdout

        for words, who, says in (
            (("grade", episode, "--grader", "other"), ann, "No 'other'"),
            (("report-episode", episode), eve, "members of its league"),
        ):
            refused = await said(*words, who=who)
            assert (refused.status, says in refused.stderr) == (exitcodes.REMOTE, True), (words, refused.stderr)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("grade", "quick", "--on-platform"), "'quick' is not on a platform"),
        (("grade", UNKNOWN, "--backend", "process", "--on-platform"), "--backend is about programs that run here"),
        (("report-episode", UNKNOWN, f"{UNKNOWN[:-1]}8", "--on-platform"), "one episode at a time"),
        (("report-episode", UNKNOWN, "--private"), "--private goes with --on-platform"),
    ],
)
def test_what_no_platform_can_do_is_refused_before_it_is_asked(
    run: Callable[..., Result], told: FakePlatform, words: tuple[str, ...], says: str
) -> None:
    refused = run(*words)
    assert (refused.exit_code, says in refused.stderr, told.asked) == (exitcodes.USAGE, True, []), refused.stderr
