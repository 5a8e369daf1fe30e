"""A player's loop from end to end, by the command line alone, against a platform that runs on this machine."""

from __future__ import annotations

import json
import shutil
import signal
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from playwright.sync_api import expect
from support.browser import Pages
from support.cli_kit import Done, Started, coworld
from support.elsewhere import in_thread
from support.images import BASE_IMAGE
from support.observatory import Observatory, observatory_in_thread
from support.observatory_kit import Platform, World

from observatory.api.leagues import change_league_settings
from observatory.store.models import Division, PolicyVersion, RoleRun

pytestmark = [
    *(pytest.mark.docker, pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(1800)),
]

PAINT = Path(__file__).parents[2] / "examples" / "paintarena"
SECRET = "s3cret-of-ada-91f2"


class Player:
    """Somebody at a terminal.

    Args:
        home: Their directory.
        server: The platform.
    """

    def __init__(self, home: Path, server: str) -> None:
        self.home = home
        self.server = server
        self.said: list[str] = []
        home.mkdir(exist_ok=True)

    @property
    def environment(self) -> dict[str, str | None]:
        return {
            "COWORLD_SERVER": self.server,
            "SOFTMAX_CONFIG_DIR": str(self.home / ".softmax"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "BASE_IMAGE": BASE_IMAGE,
            "PIP_NO_INDEX": "1",
            "MY_API_KEY": SECRET,
        }

    def run(self, *words: str | Path, stdin: str = "", status: int = 0, **env: str) -> Done:
        done = coworld(*words, env={**self.environment, **env}, cwd=self.home, stdin=stdin, timeout=300)
        self.said += [done.stdout, done.stderr]
        assert done.status == status, (
            f"coworld {' '.join(map(str, words))}: {done.status}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def ask(self, *words: str | Path, **more: Any) -> Any:
        return self.run(*words, "--json", **more).json


@pytest.fixture
def start_here(no_leaks: None) -> Iterator[Callable[..., Started]]:
    started: list[Started] = []

    def begin(player: Player, *words: str) -> Started:
        started.append(Started(words, player.environment, player.home))
        return started[-1]

    yield begin
    for one in started:
        one.close()


def test_player_loop(tmp_path: Path, pages: Pages, start_here: Callable[..., Started]) -> None:
    with observatory_in_thread(tmp_path, backend="docker") as (served, add_user):
        ada = Player(tmp_path / "ada", served.server)
        token = add_user("ada")
        sign_in(ada, token)
        coworld_id, image = upload_coworld(ada)
        upload_policies(ada, image)
        league = str(ada.ask("league", "create", "paintarena", COWORLD_TOKEN=served.admin_token)["league_id"])
        compete(ada, league)
        request = play(ada, coworld_id)
        episode = look(ada, request)
        judge(ada, served, league, coworld_id, episode)
        watch_replay(ada, episode, pages, start_here)
        a_stranger_sees_only_what_is_public(tmp_path, served.server, add_user("eve"), episode)
        everything = "".join(ada.said)
        assert token not in everything
        assert SECRET not in everything


def sign_in(ada: Player, token: str) -> None:
    assert "coworld login" in ada.run("episodes", status=3).stderr.replace("python -m coworld_cli", "coworld")
    ada.run("login", "--with-token", stdin=f"{token}\n")
    assert ada.ask("whoami")["subject_type"] == "user"


def upload_coworld(ada: Player) -> tuple[str, str]:
    """Uploaded, and played once by the platform, which certifies it; a second time it is there already."""
    world = ada.home / "world"
    shutil.copytree(PAINT, world, ignore=shutil.ignore_patterns("results", "__pycache__", "coworld_manifest.json"))
    template = world / "coworld_manifest_template.json"
    manifest = json.loads(template.read_text())
    # What a platform that takes no files is given: the package's own image, and the command that runs the file in it
    told = {"id": "summarizer", "name": "Summarizer", "type": "reporter", "description": "Who painted how much."}
    command = ["python", "-m", "coworld_runner.kit.roles", "paintarena.roles.summarizer"]
    manifest["reporter"] = [{**told, "image": "{{PAINTARENA_IMAGE}}", "run": command}]
    template.write_text(json.dumps(manifest))
    image = str(ada.ask("build", "world")["images"][0]["reference"])
    # docs/platform.md has it certified first
    uploaded = ada.ask("upload-coworld", "world", "--skip-certification", "a look around")
    assert uploaded["name"] == "paintarena"
    assert not uploaded["already"]
    assert uploaded["hosted_smoke"] == "passed"
    again = ada.ask("upload-coworld", "world", "--skip-certification", "as before", "--no-wait-hosted-smoke")
    assert again["already"]
    assert again["id"] == uploaded["id"]
    assert "certified" in ada.run("status", uploaded["id"]).stdout
    assert [row["id"] for row in ada.ask("list")] == [uploaded["id"]]
    return uploaded["id"], image


def upload_policies(ada: Player, image: str) -> None:
    """The second upload of the image sends nothing: the platform has it."""
    run = ["--run", "python", "--run", "-m", "--run"]
    words = ["--secret-env", "MY_API_KEY", "--tag", "kind=baseline"]
    first = ada.run("upload-policy", image, "-n", "sweeper", *run, "paintarena.players.sweep", *words)
    assert "Upload complete: sweeper:v1" in first.stdout
    assert "sending" not in first.stderr
    second = ada.ask("upload-policy", image, "-n", "frontier", *run, "paintarena.players.frontier")
    assert second["label"] == "frontier:v1"
    (listed,) = ada.ask("images")
    assert listed["status"] == "ready"


def compete(ada: Player, league: str) -> None:
    assert [row["id"] for row in ada.ask("leagues")] == [league]
    submitted = ada.ask("submit", "sweeper", "--league", league)
    assert submitted["status"] == "placed"
    assert [row["id"] for row in ada.ask("submissions", "--mine")] == [submitted["id"]]
    (membership,) = ada.ask("memberships", "--mine", "-l", league)
    assert membership["policy_version"]["label"] == "sweeper:v1"
    assert "Conflict" not in ada.run("submit", "nobody", "-l", league, status=4).stderr
    (division,) = ada.ask("results", league)
    assert division["member_count"] == 1


def play(ada: Player, coworld_id: str) -> str:
    """Two episodes are asked for and watched; the checkpoint knows the end."""
    roster = [{"player": {"policy_ref": "sweeper:v1"}, "slot": 0}, {"player": {"policy_ref": "frontier:v1"}, "slot": 1}]
    body = {"coworld_id": coworld_id, "variant_id": "quick", "num_episodes": 2, "roster": roster}
    request = str(ada.ask("xp-request", "create", "-", stdin=json.dumps(body))["id"])
    lines = ada.run("xp-request", "watch", request, "--jsonl", "--checkpoint", "seen.json").stdout.splitlines()
    changes = [json.loads(line) for line in lines]
    assert {change["experience_request_id"] for change in changes} == {request}
    last = {change["id"]: change["episode"]["status"] for change in changes}
    assert list(last.values()) == ["completed", "completed"]
    watched = ada.ask("xp-request", "watch", request, "--checkpoint", "seen.json")
    assert watched["ok"]
    assert len(watched["episodes"]) == 2
    assert ada.ask("xp-request", "get", request)["completed_count"] == 2
    assert ada.run("xp-request", "cancel", request, status=4).stderr
    return request


def look(ada: Player, request: str) -> str:
    """Results, logs, replays and bundles of what was played."""
    episodes = ada.ask("xp-request", "episodes", request)
    episode = str(episodes[0]["id"])
    scores = ada.ask("episode-results", episode)["scores"]
    assert len(scores) == 2
    shown = ada.run("episodes", episode).stdout
    assert f"sweeper:v1={scores[0]:g}, frontier:v1={scores[1]:g}" in shown
    assert "results written" in ada.run("episode-logs", episode, "--game").stdout
    assert "sweep" in ada.run("episode-logs", episode, "--agent", "0").stdout
    files = ada.ask("episode-logs", episode, "--mine", "-d", "logs")["files"]
    assert {Path(file["path"]).name for file in files} == {f"{episode}-policy_agent_{slot}.log" for slot in (0, 1)}
    assert "ticks" in ada.run("episode-stats", episode).stdout

    listed = ada.ask("replays", "--policy", "frontier", "-o", "replays")
    index = json.loads((ada.home / "replays" / "index.json").read_text())
    assert listed == index
    assert {entry["episode_request_id"] for entry in index} >= {row["id"] for row in episodes}
    frames = json.loads((ada.home / index[0]["local_path"]).read_text())["frames"]
    assert frames

    bundle = ada.ask("episode-bundle", episode)
    with zipfile.ZipFile(bundle["path"]) as content:
        manifest = json.loads(content.read("manifest.json"))
        assert json.loads(content.read("results.json"))["scores"] == scores
    assert {"results", "replay", "game_logs", "player_logs"} <= set(manifest["include"])
    assert "already" in ada.run("episode-bundle", episode, status=2).stderr
    fetched = ada.ask("xp-request", "download", request, "-d", "all")
    assert fetched["ok"]
    assert sorted(path.name for path in (ada.home / "all").iterdir()) == sorted(f"{row['id']}.zip" for row in episodes)
    return episode


def judge(ada: Player, served: Observatory, league: str, coworld_id: str, episode: str) -> None:
    """Roles run in the platform's containers: for who asks, and after an episode of a league that says so."""
    graded = ada.ask("grade", episode, "--on-platform")
    assert (graded["grader"], graded["episodes"][0]["kept"]) == ("paint-arena-grader", False)
    report = ada.ask("report-episode", episode, "--on-platform")
    assert Path(report["page"]).read_text().startswith("# PaintArena")
    told = ada.run("diagnose-episode", episode, "--player", "sweeper:v1", "--on-platform").stdout
    assert told.startswith("# ")
    assert "sweeper:v1" in told

    async def play_in_league() -> tuple[str, list[str]]:
        async with served.services() as services:
            async with services.database.writing() as session:
                await change_league_settings(session, league, terms={"grade": True, "report": True})
                seated = await session.scalars(sa.select(PolicyVersion).order_by(PolicyVersion.created_at))
                versions = [version.id for version in seated]
                division = await session.scalar(sa.select(Division.id).where(Division.league_id == league))
            assert division is not None
            world = World(coworld_id, "paintarena", league, division)
            manifest = json.loads((PAINT / "coworld_manifest_template.json").read_text())
            [quick] = [each["game_config"] for each in manifest["variants"] if each["id"] == "quick"]
            ereq = await Platform(services, served.settings).play_round(world, *versions, config=quick)
            return ereq, versions

    ereq, versions = in_thread(play_in_league)
    assert len(versions) == 2
    assert ada.ask("xp-request", "watch", ereq)["ok"]
    [after] = ada.ask("grade", ereq, "--on-platform")["episodes"]
    assert (after["id"], after["answer"]["grader_id"]) == ("paint-arena-grader", "paint-arena-grader")
    assert ada.ask("report-episode", ereq, "--on-platform")["id"] == "summarizer"

    async def asked_by() -> list[tuple[bool, str]]:
        async with served.services() as services, services.database.reading() as session:
            runs = await session.scalars(sa.select(RoleRun).where(RoleRun.episode_request_id == ereq))
            return [(run.automatic, str((run.record or {}).get("backend"))) for run in runs]

    # The league has asked for it, so that nobody else could
    assert in_thread(asked_by) == [(True, "docker")] * 2


def watch_replay(ada: Player, episode: str, pages: Pages, start: Callable[..., Started]) -> None:
    """In the browser: as the platform shows it, and as this machine does."""
    hosted = ada.ask("replay-open", episode, "--hosted")["viewer_url"]
    expect(pages(hosted).locator("#status")).to_have_attribute("data-status", "running", timeout=60_000)
    here = start(ada, "replay-open", episode, "--no-open-browser", "--backend", "docker", "--json")
    here.until(lambda: here.stdout.rstrip().endswith("}"), "the address")
    link = json.loads(here.stdout)["link"]
    expect(pages(link).locator("#status")).to_have_attribute("data-status", "running", timeout=60_000)
    here.send(signal.SIGINT)
    assert here.end().status == 0


def a_stranger_sees_only_what_is_public(tmp_path: Path, server: str, token: str, episode: str) -> None:
    eve = Player(tmp_path / "eve", server)
    eve.run("set-token", stdin=token)
    for words in (["--agent", "0"], ["--game"]):
        refused = eve.run("episode-logs", episode, *words, status=4)
        assert "error: " in refused.stderr
    assert eve.ask("xp-request", "list", "--mine")["entries"] == []
    assert [path.name for path in eve.home.iterdir()] == [".softmax"]
