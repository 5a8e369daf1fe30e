"""The published command-line client, 0.1.26, against a real Observatory: the same paths, shapes and headers.

How 0.1.64 sends an image, which is another way, is at the end.

Left out is what has no platform in it, or more of it than there is to meet:

- `build`, `resolve-and-upload`, `optimize`: they need Docker's compose plugin, a package index or GitHub.
- `play`, `run-episode`, `scrimmage`, `replay`, `certify`, `replay-open` without `--hosted`: they run on
  the user's machine; what they ask of a platform is what `download` asks. `upload-coworld` certifies first.
- `softmax login`: waits for a person's browser; what the page hands out is traded in below.
- `rounds` and `results` of a round: no league of an Observatory has any; their absence is tested.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.cli_kit import coworld
from support.images import untag
from support.observatory import observatory_in_thread
from support.paintarena_image import paintarena_image
from support.published_client import Published, install, published
from support.waiting import wait_until
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

pytestmark = [
    *(pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)),
]

PAINT = Path(__file__).parents[2] / "examples" / "paintarena"
OVER = {"completed", "failed", "cancelled"}


@dataclass
class World:
    """A platform on which Paint Arena was uploaded and played, all of it by the published client."""

    ann: Published
    """A member of the team, whose Coworld, policies and league these are."""
    bob: Published
    """Somebody else."""
    ann_token: str
    bob_token: str
    image: str
    coworld: str
    league: str
    request: str
    episode: str

    def until_idle(self) -> None:
        """Wait until every episode is over; asked without the client, of which each command is a process."""
        headers = {"Authorization": f"Bearer {self.ann_token}"}
        asked = urllib.request.Request(f"{self.ann.server}/observatory/v2/episode-requests?limit=1000", headers=headers)
        rows: list[dict[str, Any]] = []

        def idle() -> bool:
            with urllib.request.urlopen(asked) as answer:
                rows[:] = json.load(answer)["entries"]
            return all(row["status"] in OVER for row in rows)

        wait_until(idle, seconds=300, what=lambda: f"{[(row['id'], row['status']) for row in rows]}", every=0.3)


@pytest.fixture(scope="session")
def client_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published client's own Python."""
    return install(tmp_path_factory.mktemp("published") / "venv")


@pytest.fixture(scope="module")
def world(client_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    image = paintarena_image()
    directory = tmp_path_factory.mktemp("world")
    with (
        observatory_in_thread(directory, backend="docker") as (served, add_user),
        published(client_python, directory / "ann", served.server) as ann,
        published(client_python, directory / "bob", served.server) as bob,
    ):
        try:
            ann.sign_in(served.admin_token)
            uploaded = upload_coworld(ann, image)
            league, request = compete(ann, image, uploaded)
            made = World(ann, bob, served.admin_token, add_user("bob"), image, uploaded, league, request, "")
            made.until_idle()
            (row,) = ann.ask("xp-request", "episodes", request)
            made.episode = row["id"]
            bob.sign_in(made.bob_token)
            yield made
        finally:
            forget_images(served.server.removeprefix("http://"), directory)


def upload_coworld(ann: Published, image: str) -> str:
    manifest = json.loads((PAINT / "coworld_manifest_template.json").read_text())
    manifest["game"]["version"] = "0.1.0"
    del manifest["tags"]  # They exist since 0.1.32
    quick: dict[str, Any] = {"width": 8, "height": 6, "max_ticks": 10, "tick_rate": 20}
    for fixture in (manifest["certification"], *manifest["variants"]):
        fixture["game_config"] |= quick
    path = ann.home / "coworld_manifest.json"
    path.write_text(json.dumps(manifest).replace("{{PAINTARENA_IMAGE}}", image))
    done = ann.run("upload-coworld", path, "--no-wait-hosted-smoke")
    assert "Upload complete: paintarena:0.1.0" in done.stdout
    return found(r"Coworld: (cow_\S+)", done.stdout)


def compete(ann: Published, image: str, coworld_id: str) -> tuple[str, str]:
    run = ["--run", "python", "--run", "-m", "--run"]
    words = ["--secret-env", "KEY=value", "--tag", "kind=test"]
    said = ann.run("upload-policy", image, "-n", "sweeper", *run, "paintarena.players.sweep", *words)
    assert "Upload complete: sweeper:v1" in said.stdout
    said = ann.run("upload-policy", image, "-n", "frontier", *run, "paintarena.players.frontier", "--use-bedrock")
    assert "Upload complete: frontier:v1" in said.stdout
    league = ann.ask("league", "create", "paintarena")["league_id"]
    assert "Status: placed" in ann.run("submit", "sweeper", "-l", league, "--no-open-browser").stdout
    never = ["--auto-champion", "never"]
    assert "Status: placed" in ann.run("submit", "frontier:v1", "-l", league, "--no-open-browser", *never).stdout
    roster = [{"player": {"policy_ref": "sweeper:v1"}, "slot": 0}, {"player": {"policy_ref": "frontier:v1"}}]
    body = {"coworld_id": coworld_id, "variant_id": "quick", "num_episodes": 1, "roster": roster}
    request = ann.ask("xp-request", "create", "-", stdin=json.dumps(body))
    assert request["episode_count"] == 1
    assert [row["status"] for row in request["episodes"]] == ["pending"]
    return league, request["id"]


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match, text
    return match[1]


def forget_images(registry: str, homes: Path) -> None:
    """Untag what was pushed to and pulled from a server that is gone."""
    made = {path.parent.name for path in homes.glob("*/*/*/coworld_images.json")}
    untag(lambda name: name.startswith(f"{registry}/") or any(f"/{cow}/" in name for cow in made))


def test_signing_in(world: World) -> None:
    assert "subject_type: user" in world.ann.run("status", program="softmax").stdout
    page = world.bob.run("get-login-url", program="softmax").stdout.strip()
    form = urllib.parse.urlencode({"token": world.bob_token}).encode()
    with urllib.request.urlopen(page, data=form) as answer:
        code = found(r"<code[^>]*>(\S+)</code>", answer.read().decode())
    world.bob.run("logout", program="softmax")
    assert "Not authenticated" in world.bob.run("leagues", status=1).stderr
    world.bob.run("exchange-code", code, program="softmax")
    assert "user_email: bob" in world.bob.run("status", program="softmax").stdout
    again = world.bob.run("exchange-code", code, program="softmax", status=1)
    assert "used" in again.stdout + again.stderr


def test_sign_in_is_shared_by_both_clients(world: World) -> None:
    bob = world.bob
    mine = {"SOFTMAX_CONFIG_DIR": str(bob.home / ".softmax"), "COWORLD_SERVER": bob.server}
    bob.run("logout", program="softmax")
    done = coworld("set-token", env=mine, stdin=world.bob_token)
    assert done.status == 0, done.stderr
    assert "user_email: bob" in bob.run("status", program="softmax").stdout
    bob.run("logout", program="softmax")
    assert coworld("whoami", env=mine).status == 3
    bob.sign_in(world.bob_token)
    assert coworld("whoami", "--json", env=mine).json["user_email"] == "bob"


def test_the_catalogue(world: World) -> None:
    ann = world.ann
    entry = next(row for row in ann.ask("list") if row["id"] == world.coworld)
    assert (entry["name"], entry["version"]) == ("paintarena", "0.1.0")
    assert ann.ask("show", world.coworld)["manifest"] == entry["manifest"]
    assert re.fullmatch(r"0\.\d+\.\d+", ann.run("next-version", "paintarena").stdout.strip())
    status = ann.ask("status", world.coworld, "--wait-hosted-smoke")
    assert status["hosted_smoke_episodes"][0]["status"] == "completed"
    image, *more = ann.ask("images")
    assert not more, "one image was sent three times, and is there once"
    assert ann.ask("images", image["id"])["public_image_uri"] == image["public_image_uri"]
    missing = ann.run("show", "cow_00000000-0000-4000-8000-000000000000", status=1)
    assert "not found" in (missing.stdout + missing.stderr).lower()


@pytest.mark.parametrize("reference", ["id", "name"])
def test_download(world: World, reference: str) -> None:
    """The images come from the Observatory's registry, which asks nobody for a login."""
    target = world.bob.home / f"by-{reference}"
    done = world.bob.run("download", world.coworld if reference == "id" else "paintarena", "-o", target)
    directory = target / found(r"Coworld: (cow_\S+)", done.stdout)
    manifest = json.loads((directory / "coworld_manifest.json").read_text())
    (image,) = json.loads((directory / "coworld_images.json").read_text())["images"]
    assert manifest["game"]["runnable"]["image"] == image["local_image"]
    listed = subprocess.run(["docker", "image", "inspect", image["local_image"]], capture_output=True, check=True)
    assert json.loads(listed.stdout)
    subprocess.run(["docker", "image", "rm", image["local_image"]], capture_output=True, check=True)


def test_version_is_derived_from_another(world: World) -> None:
    patch = '{"game": {"description": "Better."}}'
    partial = ["upload-coworld", "--from-coworld"]
    done = world.ann.run(*partial, "paintarena", "--version", "0.2.0", "--patch", patch, "--no-wait-hosted-smoke")
    assert "Upload complete: paintarena:0.2.0" in done.stdout
    shown = world.ann.ask("show", found(r"Coworld: (cow_\S+)", done.stdout))
    assert shown["manifest"]["game"]["description"] == "Better."
    edits = ["--version", "0.2.1", "--image", f"game={world.image}", "--no-wait-hosted-smoke"]
    done = world.ann.run(*partial, world.coworld, *edits)
    assert "Upload complete: paintarena:0.2.1" in done.stdout
    done = world.ann.run("patch-commissioner", "paintarena", world.image)
    assert "Patched commissioner: paintarena:0.2.2" in done.stdout
    refused = world.bob.run(*partial, "paintarena", "--version", "0.3.0", "--no-wait-hosted-smoke", status=1)
    assert "403" in refused.stderr
    world.until_idle()


def test_leagues(world: World) -> None:
    ann = world.ann
    (league,) = ann.ask("leagues")
    assert league == ann.ask("leagues", world.league)
    assert ann.ask("league", "list")[0]["league_id"] == world.league
    (division,) = ann.ask("divisions", "-l", world.league)
    assert ann.ask("divisions", division["id"]) == division
    (ladder,) = ann.ask("results", world.league)
    assert ladder["member_count"] >= 1
    assert ann.ask("results", division["id"]) == []
    assert ann.ask("rounds", "-l", world.league)["total_count"] == 0
    missing = ann.run("results", "round_00000000-0000-4000-8000-000000000000", status=1)
    assert "404" in missing.stderr
    events = ann.ask("events", "-l", world.league)
    assert {event["event_type"] for event in events} >= {"submission_placed"}


def test_submissions_and_memberships(world: World) -> None:
    ann = world.ann
    submissions = ann.ask("submissions", "--mine", "-l", world.league)
    labels = {row["policy_version"]["label"]: row for row in submissions}
    assert {label: row["auto_champion"] for label, row in labels.items()} == {
        "sweeper:v1": "always",
        "frontier:v1": "never",
    }
    assert ann.ask("submissions", "-p", "sweeper") == [labels["sweeper:v1"]]
    (champion,) = ann.ask("memberships", "--mine", "--champions-only", "-l", world.league)
    assert champion["policy_version"]["label"] == "sweeper:v1"
    assert champion["id"] == labels["sweeper:v1"]["league_policy_membership_id"]
    assert champion["id"] not in {row["id"] for row in world.bob.ask("memberships", "--mine")}
    refused = world.bob.run("retire-membership", champion["id"], status=1)
    assert "403" in refused.stderr
    (other,) = ann.ask("memberships", "-p", "frontier:v1", "-l", world.league)
    (retired,) = [ann.ask("retire-membership", other["id"], "--reason", "enough")]
    assert retired["status"] == "retired"
    assert other["id"] not in {row["id"] for row in ann.ask("memberships", "--mine", "--active-only")}


def test_experience_requests(world: World) -> None:
    ann = world.ann
    page = ann.ask("xp-request", "list", "--mine", "--limit", "1")
    assert page["entries"][0]["id"] == world.request
    assert page["entries"][0]["requester"] == "admin"
    detail = ann.ask("xp-request", "get", world.request)
    assert (detail["status"], detail["completed_count"]) == ("completed", 1)
    assert "completed=1" in ann.run("xp-request", "get", world.request).stdout
    assert world.bob.ask("xp-request", "list", "--mine")["entries"] == []
    roster = [{"player": {"policy_ref": "sweeper:v1"}}]
    refused = ann.run(
        "xp-request", "create", "-", stdin=json.dumps({"coworld_id": world.coworld, "roster": roster}), status=1
    )
    assert "400" in refused.stderr


def test_episodes(world: World) -> None:
    ann = world.ann
    row = ann.ask("episodes", world.episode)
    scores = {score["policy_version_id"]: score["score"] for score in row["scores"]}
    assert [participant["label"] for participant in row["participants"]] == ["sweeper:v1", "frontier:v1"]
    mine = ann.ask("episodes", "--policy", "frontier", "--with-replay")
    assert world.episode in {entry["id"] for entry in mine}
    results = json.loads(ann.run("episode-results", world.episode).stdout)
    assert results["scores"] == [scores[participant["policy_version_id"]] for participant in row["participants"]]
    stats = ann.ask("episode-stats", world.episode)
    assert [policy["avg_reward"] for policy in stats["policy_stats"]] == results["scores"]
    assert stats["steps"] == results["ticks"]


def test_logs(world: World) -> None:
    ann = world.ann
    assert "results written" in ann.run("episode-logs", world.episode, "--game").stdout
    assert "sweep: slot 0" in ann.run("episode-logs", world.episode, "--agent", "0").stdout
    listed = ann.run("episode-logs", world.episode).stdout
    assert "policy_agent_0.log" in listed
    assert "policy_agent_1.log" in listed
    ann.run("episode-logs", world.episode, "-d", ann.home / "logs")
    names = {path.name for path in (ann.home / "logs").iterdir()}
    assert names == {f"{world.episode}-policy_agent_{slot}.log" for slot in (0, 1)}
    assert "No player artifacts" in ann.run("episode-logs", world.episode, "--artifact").stdout
    # What ann asked for herself is nobody else's to see
    refused = world.bob.run("episode-logs", world.episode, "--agent", "0", status=1)
    assert re.search("403|404", refused.stderr)
    assert "slot 0" not in refused.stdout


def test_replays(world: World) -> None:
    target = world.ann.home / "replays"
    world.ann.run("replays", "--policy", "sweeper", "-o", target)
    index = json.loads((target / "index.json").read_text())
    (entry,) = [entry for entry in index if entry["episode_request_id"] == world.episode]
    replay = json.loads((target / f"{world.episode}.replay").read_text())
    assert replay["player_names"] == ["sweeper:v1", "frontier:v1"]
    assert entry["coworld_id"] == world.coworld


@dataclass
class Hosted:
    viewer: str
    game: dict[str, Any]
    seat: dict[str, Any]


@pytest.fixture(scope="module")
def hosted(world: World) -> Hosted:
    """A replay and a game that the platform shows. They run on until it stops, so no test has left them behind."""
    viewer = world.ann.run("replay-open", world.episode, "--hosted", "--no-open-browser").stdout.split()[-1]
    game = world.ann.ask("hosted-game", "create", world.coworld, "--variant", "quick")
    return Hosted(viewer, game, world.bob.ask("hosted-game", "join", game["session_id"]))


def test_hosted_replays_and_games(hosted: Hosted) -> None:
    assert hosted.game["player_count"] == 2
    assert hosted.seat["player"]["label"] == "bob"
    for page in (hosted.viewer, hosted.game["global_url"], hosted.seat["player_url"]):
        with urllib.request.urlopen(page) as answer:
            assert b"<html" in answer.read()
    seat = hosted.seat["player_url"].replace("http://", "ws://").replace("/client/player", "/player")
    with connect(seat, proxy=None) as taken:
        assert json.loads(taken.recv(timeout=60))["slot"] == hosted.seat["slot"]
    with pytest.raises(InvalidStatus), connect(re.sub("token=[^&]+", "token=wrong", seat), proxy=None):
        pass


@pytest.mark.parametrize("reference", ["id", "name"])
def test_secrets(world: World, reference: str) -> None:
    name = f"key-{reference}"
    owner = world.coworld if reference == "id" else "paintarena"
    value = world.ann.home / name
    value.write_bytes(b"\x00hunter2")
    assert world.ann.ask("secret", "put", owner, name, value)["size_bytes"] == 8
    assert name in {row["secret_name"] for row in world.ann.ask("secret", "list", owner)}
    assert "403" in world.bob.run("secret", "list", owner, status=1).stderr
    assert world.ann.ask("secret", "delete", owner, name)["secret_name"] == name
    assert name not in {row["secret_name"] for row in world.ann.ask("secret", "list", owner)}


def test_players(world: World) -> None:
    """Acting as a player, which then is who uploads and asks."""
    body = json.dumps({"name": "Bob's first"}).encode()
    headers = {"Authorization": f"Bearer {world.bob_token}", "Content-Type": "application/json"}
    asked = urllib.request.Request(f"{world.bob.server}/observatory/players", body, headers)
    with urllib.request.urlopen(asked) as answer:
        player = json.load(answer)
    bob = world.bob
    assert player["id"] in bob.run("player", "list", "--json").stdout
    assert "Bob's first" in bob.run("player", "use", player["id"]).stdout
    try:
        assert f"subject_id: {player['id']}" in bob.run("status", program="softmax").stdout
        run = ["--run", "python", "--run", "-m", "--run", "paintarena.players.sweep"]
        bob.run("upload-policy", world.image, "-n", "of-a-player", *run)
        bob.run("submit", "of-a-player", "-l", world.league, "--no-open-browser")
        (submission,) = bob.ask("submissions", "--mine")
        assert submission["player"]["id"] == player["id"]
        refused = bob.run("league", "create", "paintarena", status=1)
        assert "403" in refused.stderr
    finally:
        bob.run("player", "unset")
    assert "subject_type: user" in bob.run("status", program="softmax").stdout


SAVES_OCI = """#!/bin/sh
case "$1 $2" in
"image save")
    into=$(mktemp -u)
    trap 'rm -f "$into"' EXIT
    skopeo copy --quiet "docker-daemon:$3" "oci-archive:$into" && cat "$into" ;;
*) exec {docker} "$@" ;;
esac
"""
"""`docker`, but that it saves images as engines since 25 do, in OCI's layout, which 0.1.64 insists on."""


@pytest.mark.skopeo
def test_a_newer_client_sends_an_image_that_becomes_champion(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("newer")
    python = install(directory / "venv", "0.1.64")
    wrapper = python.parent / "docker"
    wrapper.write_text(SAVES_OCI.format(docker=shutil.which("docker")))
    wrapper.chmod(0o755)
    with published(python, directory / "ann", world.ann.server) as ann:
        ann.sign_in(world.ann_token)
        run = ["--run", "python", "--run", "-m", "--run", "paintarena.players.sweep"]
        assert "Upload complete: newer:v1" in ann.run("upload-policy", world.image, "-n", "newer", *run).stdout
        said = ann.run("submit", "newer", "-l", world.league, "--no-open-browser").stdout
        assert "Status: placed" in said
        (champion, *_) = ann.ask("memberships", "--mine", "--champions-only", "-p", "newer")["entries"]
        assert champion["policy_version"]["label"] == "newer:v1"
