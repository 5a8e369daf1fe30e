"""The newer published clients, 0.1.47 and 0.1.64, against a real Observatory with local processes.

What they share with 0.1.26 is tested with it. Here is what they ask for since then: fields they insist on, summaries in
place of whole manifests, cursors, settings of a game before it begins, and the refusal of what is only elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any
from urllib.request import Request, urlopen

import pytest
from anyio.from_thread import start_blocking_portal
from support.observatory_kit import Platform, World, open_platform, roster, seed
from support.published_client import Published, install, published
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

pytestmark = [pytest.mark.slow, pytest.mark.more, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing is counted after each test: the server of them all opens connections, each with a thread, as it needs."""


@dataclass
class Played:
    """A league in which an episode was played."""

    server: str
    token: str
    world: World
    episode: str
    version: str


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    async def prepare(platform: Platform) -> Played:
        await platform.fill_pool()
        ann = await platform.account("ann", team=True)
        world = await seed(platform.services, ann.id)
        versions = [await platform.policy(ann, name) for name in ("one", "two")]
        await platform.join(world, versions[1])
        episode = await platform.play_round(world, *versions)
        assert (await platform.until_played(episode)).status == "completed"
        return Played(platform.url, ann.token, world, episode, versions[0])

    opened = open_platform(tmp_path_factory.mktemp("played"))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened) as platform:
        yield portal.call(prepare, platform)


@pytest.fixture(scope="module", params=["0.1.47", "0.1.64"])
def release(request: pytest.FixtureRequest) -> str:
    """Each release in turn."""
    return request.param


@pytest.fixture(scope="module")
def client(release: str, played: Played, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    directory = tmp_path_factory.mktemp("newer")
    with ExitStack() as stack:
        python = install(directory / "venv", release)
        signed_in = stack.enter_context(published(python, directory / "home", played.server))
        signed_in.sign_in(played.token)
        yield signed_in


def entries(listed: Any) -> list[dict[str, Any]]:
    """The rows of a list, which newer clients print in an envelope."""
    return listed["entries"] if isinstance(listed, dict) else listed


def test_coworlds_are_listed_and_shown(client: Published, played: Played, release: str) -> None:
    world = played.world
    (entry,) = entries(client.ask("list"))
    assert (entry["id"], entry["name"]) == (world.id, "quick")
    assert client.ask("show", world.id)["id"] == world.id
    assert client.ask("status", world.id)["coworld"]["id"] == world.id
    assert client.run("next-version", "quick").stdout.strip() == "1.0.1"
    (league,) = client.ask("leagues")
    assert league == client.ask("leagues", world.league)
    assert league["forum_markdown_url"] is None
    assert world.league in league["participation_url"]
    (division,) = client.ask("divisions", "-l", world.league)
    assert division["league"]["wiki_markdown_url"] is None
    if release != "0.1.47":
        client.run("visibility", "quick", "public")


def test_participation_works(client: Published, played: Played) -> None:
    league = played.world.league
    said = client.run("submit", "one", "-l", league, "--no-open-browser").stdout
    assert "placed" in said
    assert {row["policy_version"]["label"] for row in entries(client.ask("memberships", "--mine", "-l", league))} >= {
        "one:v1"
    }
    assert entries(client.ask("submissions", "--mine", "-l", league))
    assert entries(client.ask("events", "-l", league))
    assert len(entries(client.ask("rounds", "-l", league))) == 1
    (ladder,) = client.ask("results", league)
    assert ladder["id"] == played.world.division
    assert client.run("results", played.world.division).stdout


def test_episodes(client: Published, played: Played, release: str) -> None:
    row = client.ask("episodes", played.episode)
    assert [participant["label"] for participant in row["participants"]] == ["one:v1", "two:v1"]
    assert json.loads(client.run("episode-results", played.episode).stdout)["scores"]
    assert client.ask("episode-stats", played.episode)["policy_stats"]
    client.run("episode-logs", played.episode, "--agent", "0")
    body = {"coworld_id": played.world.id, "roster": roster("one", "two")}
    asked = client.ask("xp-request", "create", "-", stdin=json.dumps(body))["id"]
    assert asked in {found["id"] for found in entries(client.ask("xp-request", "list"))}
    if release == "0.1.47":
        return  # It cannot wait for an episode, or fetch what is left of many
    client.run("xp-request", "watch", asked)
    assert entries(client.ask("xp-request", "episodes", asked))[0]["status"] == "completed"
    kinds = ["results", "replay", "events", "error_info", "game_logs", "player_logs", "player_artifact"]
    words = [word for kind in kinds for word in ("--include", kind)]
    client.run("xp-request", "download", asked, *words, "-d", client.home / "evidence")
    receipts = [json.loads(line) for line in (client.home / "evidence" / "manifest.jsonl").read_text().splitlines()]
    assert {found.get("filename") for found in receipts} >= {"results.json", "replay.z"}


def test_play_session_works(client: Published, played: Played) -> None:
    game = client.ask("hosted-game", "create", played.world.id, "--variant", "four")
    assert game["player_count"] == 4
    seat = client.ask("hosted-game", "join", game["session_id"])
    assert (seat["entrant_kind"], seat["slot"]) == ("player", 0)
    ended = Request(
        f"{played.server}/observatory/v2/coworlds/play/session/{game['session_id']}",
        headers={"Authorization": f"Bearer {played.token}"},
        method="DELETE",
    )
    with urlopen(ended) as answer:
        assert answer.status == 200


def test_lobby_works(client: Published, played: Played, release: str) -> None:
    if release == "0.1.47":
        return  # It knows none
    league = played.world.league
    lobby = client.ask(
        "lobby", "create", league, "--num-players", "3", "--seat", "2:human_open", "--override", "seed=5"
    )
    assert (lobby["status"], lobby["coworld_name"], lobby["revision"]) == ("draft", "quick", 1)
    assert [seat["kind"] for seat in lobby["seats"]] == ["human", "league_player", "human_open", "closed"]
    id = lobby["id"]
    assert f"Lobby: /observatory/v2/lobbies/{id}" in client.run("lobby", "get", id).stdout
    assert client.ask("lobby", "claim", id, "2")["seats"][2]["is_me"]
    assert client.ask("lobby", "remove", id, "2")["seats"][2]["kind"] == "human_open"
    assert client.ask("lobby", "claim", id, "0")["seats"][0]["is_me"]
    assert client.ask("lobby", "leave", id)["seats"][0]["kind"] == "human_open"
    stale = client.run("lobby", "seat", id, "0:random", "--revision", "1", status=1)
    assert "(409)" in stale.stderr
    player = lobby["seats"][1]["player_id"]
    assert client.ask("lobby", "seat", id, f"0:league_player:{player}")["seats"][0]["player_id"] == player
    client.run("lobby", "claim", id, "2")
    client.run("lobby", "seat", id, "1:closed")
    started = client.ask("lobby", "start", id)
    address = client.ask("hosted-game", "join", started["session_id"])["target_url"]
    with connect(address.replace("http", "ws").replace("/client/", "/"), open_timeout=300) as socket:
        assert socket.recv()
        # The game hangs up once it is over
        with suppress(ConnectionClosed):
            while socket.recv():
                pass
    deadline = monotonic() + 300
    while (ended := client.ask("lobby", "get", id))["status"] == "running":
        assert monotonic() < deadline
    assert ended["status"] == "completed"
    row = client.ask("episodes", ended["episode_request_id"])
    # Whichever of them its account has nominated last
    assert [participant["label"] for participant in row["participants"]] in (["one:v1"], ["two:v1"])
    assert json.loads(client.run("episode-results", row["id"]).stdout)["scores"] == [5, 6]
    other = client.ask("lobby", "create", league)["id"]
    client.run("lobby", "start", other)
    assert client.ask("lobby", "end", other)["status"] == "ended"
    last = client.ask("lobby", "create", league)["id"]
    assert client.ask("lobby", "cancel", last)["status"] == "cancelled"


def test_operations_not_offered_are_explained(client: Published, played: Played, release: str) -> None:
    asked: list[tuple[str, ...]] = [("campaign", "board", played.world.league)]
    if release != "0.1.47":
        asked += [("credits",), ("power-analysis", played.world.division)]
        asked += [("counterfactual", "create", "one:v1", "two:v1", "-l", played.world.league)]
    for words in asked:
        refused = client.run(*words, status=1)
        assert "(405)" in refused.stderr, words
        assert "This platform" in refused.stderr, words
