"""Every route, asked for somebody else's things by everybody there is."""

from __future__ import annotations

import io
import re
import shutil
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.observatory import Inside, inside
from support.uploads import manifest_for, upload_image

from observatory.api.leagues import create_league
from observatory.api.not_offered import NOT_OFFERED
from observatory.app import document
from observatory.store.models import Artifact, EpisodeRequest, HostedSession, RoleRun, Round

HUSH = "hush"
"""Stands in everything that is nobody's but the owner's."""
ELEVATED = {"X-Use-Elevated-Privileges": "true"}

CALLERS = ("anonymous", "other", "other's player", "owner", "operator")
"""The strangers first; the operator is a member of the team who asks for the team's rights."""

# "in" is whatever is no 401, 403 or 404
Fares = tuple[str, str, str, str, str]
ANYONE: Fares = ("in", "in", "in", "in", "in")
KNOWN: Fares = ("401", "in", "in", "in", "in")
USER: Fares = ("401", "in", "403", "in", "in")
TEAM: Fares = ("401", "403", "403", "403", "in")
PRIVATE: Fares = ("404", "404", "404", "in", "in")
KNOWN_404: Fares = ("401", "404", "404", "in", "in")
KNOWN_403: Fares = ("401", "403", "403", "in", "in")
OWN_404: Fares = ("401", "404", "404", "in", "404")
LEAGUE: Fares = ("404", "in", "in", "in", "in")
"""A private league, which everybody with an account sees."""
OWN_TEAM: Fares = ("401", "404", "403", "in", "404")
NOTHING: Fares = ("401", "404", "404", "404", "404")


@dataclass(frozen=True)
class Row:
    """What is asked, and how each caller fares. `$name` stands for something of the scene."""

    fares: Fares
    params: dict[str, str] = field(default_factory=dict[str, str])
    """Of the path, where they are not simply what they are called."""
    query: dict[str, str] = field(default_factory=dict[str, str])
    body: Any = None


ROSTER = [{"player": {"policy_ref": "$version_id"}}] * 2
TAGS = {"tags": {"exp": "a"}}
RETIRE = {"entries": "retire"}
SECRET = {"coworld": "$name", "name": "key"}

TABLE: dict[str, Row] = {
    "GET /whoami": Row(ANYONE),
    "GET /players": Row(USER),
    "POST /players": Row(USER, body={"name": "new"}),
    "POST /players/{player_id}/login": Row(("401", "404", "403", "in", "404")),
    "POST /credentials/auth-codes/exchange": Row(ANYONE, body={"code": "obc_none"}),
    "GET /credentials/tokens": Row(USER),
    "GET /account/deletion": Row(USER),
    "DELETE /account": Row(USER, query={"name": "nobody"}),
    "POST /credentials/tokens": Row(USER, body={"name": "new"}),
    "DELETE /credentials/tokens/{token_id}": Row(("401", "404", "403", "in", "404"), params={"token_id": "$token_id"}),
    "GET /v2/coworlds": Row(ANYONE),
    "GET /v2/coworlds/summaries": Row(ANYONE),
    "GET /v2/coworlds/{coworld_id}": Row(PRIVATE),
    "POST /v2/coworlds/upload": Row(KNOWN_403, body={"manifest": "$manifest"}),
    "POST /v2/coworlds/patch-commissioner": Row(
        KNOWN_404, body={"coworld_name": "$name", "container_image_id": "$image_id"}
    ),
    "POST /v2/coworlds/{name}/visibility": Row(KNOWN_403, body={"visibility": "private"}),
    "GET /v2/coworlds/{coworld_id}/certification": Row(PRIVATE),
    "POST /v2/coworlds/{coworld_id}/certification/retry": Row(KNOWN_404),
    "GET /v2/container_images": Row(KNOWN),
    "GET /v2/container_images/{image_id}": Row(KNOWN_404),
    "POST /v2/container_images/upload": Row(KNOWN, body={"name": "x", "client_hash": "$client_hash"}),
    "POST /v2/container_images/upload/complete": Row(KNOWN_404, body={"id": "$image_id"}),
    "POST /stats/policy-secret-envs": Row(KNOWN, body={"policy_secret_env": {"A": "b"}}),
    "DELETE /stats/policy-secret-envs/{secret_env_id}": Row(OWN_404),
    "POST /stats/policies/docker-img/complete": Row(KNOWN_404, body={"name": "x", "container_image_id": "$image_id"}),
    "POST /stats/policies/files": Row(
        KNOWN, body={"name": "x", "player": {"file": "a", "files": {"a": "YQ=="}, "command": ["{}/a"]}}
    ),
    "GET /stats/policy-versions": Row(KNOWN),
    "GET /stats/policy-versions/{version_id}/files": Row(OWN_404),
    "GET /v2/policies/{policy_id}/selection-access": Row(KNOWN_403),
    "PUT /v2/policies/{policy_id}/selection-access": Row(KNOWN_403, body={"selection_scope": "owner_visible"}),
    "GET /v2/coworlds/secrets/{coworld}": Row(KNOWN_403, params=SECRET),
    "PUT /v2/coworlds/secrets/{coworld}/{name}": Row(KNOWN_403, params=SECRET, body="s"),
    "DELETE /v2/coworlds/secrets/{coworld}/{name}": Row(("401", "403", "403", "in", "404"), params=SECRET),
    "PATCH /v2/episode-requests/{ereq}/tags": Row(KNOWN_404, body=TAGS),
    "PATCH /v2/experience-requests/{xreq}/tags": Row(KNOWN_404, body=TAGS),
    "PATCH /v2/policy-versions/{version_id}/tags": Row(KNOWN_404, body=TAGS),
    "PATCH /v2/coworlds/{coworld_id}/tags": Row(KNOWN_404, body=TAGS),
    "GET /v2/games": Row(ANYONE),
    "GET /v2/leagues": Row(ANYONE),
    "GET /v2/leagues/game-of-week": Row(ANYONE),
    "GET /v2/leagues/{league_id}": Row(LEAGUE),
    "GET /v2/leagues/{league_id}/division-ladder": Row(LEAGUE),
    "GET /v2/leagues/{league_id}/officers": Row(KNOWN),
    "PUT /v2/leagues/{league_id}/officers": Row(TEAM, body={"user": "eve", "role": "assistant"}),
    "GET /v2/teams": Row(USER),
    "GET /v2/webhooks": Row(USER),
    "POST /v2/webhooks": Row(USER, body={"url": "https://example.org/"}),
    "DELETE /v2/webhooks/{webhook_id}": Row(OWN_TEAM, params={"webhook_id": "$webhook"}),
    "POST /v2/teams": Row(USER, body={"name": "new"}),
    "POST /v2/teams/join": Row(USER, body={"code": "none"}),
    "POST /v2/teams/{team}/invitations": Row(OWN_TEAM, params={"team": "$team"}, body={}),
    "DELETE /v2/teams/{team}/members/{user}": Row(OWN_TEAM, params={"team": "$team", "user": "me"}, query=RETIRE),
    "GET /v2/leagues/{league_id}/seasons": Row(LEAGUE),
    "GET /v2/leagues/{league_id}/seasons/{number}": Row(LEAGUE, params={"number": "1"}),
    "GET /v2/divisions": Row(ANYONE),
    "GET /v2/divisions/{division_id}": Row(LEAGUE),
    "GET /v2/coworld-league-seeds": Row(TEAM),
    "POST /v2/coworld-league-seeds": Row(TEAM, body={"coworld_name": "later"}),
    "PATCH /v2/coworld-league-seeds/{seed_id}": Row(TEAM, body={"enabled": False}),
    "PUT /v2/coworld-league-seeds/{seed_id}/game-of-week": Row(TEAM),
    "GET /v2/participate": Row(LEAGUE, query={"league_id": "$league_id"}),
    "GET /v2/league-policy-memberships": Row(ANYONE),
    "GET /v2/league-policy-memberships/portfolio": Row(KNOWN),
    "POST /v2/league-policy-memberships/{membership_id}/retire": Row(KNOWN_403),
    "POST /v2/league-policy-memberships/{membership_id}/champion": Row(KNOWN_403),
    "GET /v2/league-submissions": Row(KNOWN),
    "POST /v2/league-submissions": Row(OWN_404, body={"league_id": "$league_id", "policy_version_id": "$member_id"}),
    "GET /v2/divisions/{division_id}/leaderboard": Row(LEAGUE),
    "GET /v2/divisions/{division_id}/leaderboards": Row(LEAGUE),
    "GET /v2/rounds": Row(ANYONE),
    "GET /v2/rounds/{round_id}": Row(LEAGUE),
    "GET /v2/competition-events": Row(ANYONE),
    "GET /v2/episode-requests": Row(ANYONE),
    "GET /v2/episode-requests/{ereq}": Row(PRIVATE),
    "GET /v2/episode-requests/{ereq}/episode-stats": Row(PRIVATE),
    "GET /v2/episode-requests/{ereq}/policy-artifacts": Row(KNOWN_404),
    "GET /v2/rounds/{round_id}/episode-requests": Row(LEAGUE),
    "GET /v2/policy-versions/{version_id}/episode-requests": Row(ANYONE),
    "GET /v2/coworlds/{coworld_id}/episode-requests": Row(ANYONE),
    "GET /v2/games/{game_id}/episodes": Row(ANYONE),
    "GET /jobs/{job}/episode-stats": Row(TEAM),
    "POST /v2/experience-requests": Row(KNOWN_404, body={"coworld_id": "$coworld_id", "roster": ROSTER}),
    "POST /v2/episode-requests": Row(KNOWN_404, body={"coworld_id": "$coworld_id", "roster": ROSTER}),
    "GET /v2/experience-requests": Row(KNOWN),
    "GET /v2/experience-requests/{xreq}": Row(KNOWN_404),
    "GET /v2/experience-requests/{xreq}/episodes": Row(KNOWN_404),
    "GET /v2/experience-requests/{xreq}/episode-requests": Row(KNOWN_404),
    "POST /v2/experience-requests/{xreq}/cancel": Row(KNOWN_404),
    "GET /v2/episode-requests/{ereq}/artifacts/{kind}": Row(PRIVATE, params={"kind": "logs"}),
    "GET /v2/episode-requests/{ereq}/{version_id}/policy-logs/{agent}": Row(KNOWN_404, params={"agent": "0"}),
    "GET /v2/episode-requests/{ereq}/{version_id}/policy-artifact/{agent}": Row(KNOWN_404, params={"agent": "0"}),
    "GET /v2/episode-requests/{ereq}/bundle": Row(PRIVATE),
    "GET /v2/episode-requests/{ereq}/role-runs": Row(PRIVATE),
    "POST /v2/episode-requests/{ereq}/role-runs": Row(KNOWN_404, body={"role": "grader"}),
    "GET /v2/role-runs/{role_run}": Row(PRIVATE),
    "GET /v2/role-runs/{role_run}/output": Row(PRIVATE),
    "GET /files/{artifact_id}/{filename}": Row(("403",) * 5, params={"filename": "replay.z"}),
    "GET /v2/episode-requests/download-manifest": Row(ANYONE, query={"ids": "$ereq"}),
    "GET /jobs/{job}/artifacts/{kind}": Row(TEAM, params={"kind": "logs"}),
    "GET /jobs/{job}/policy-logs": Row(TEAM),
    "GET /jobs/{job}/policy-logs/{agent}": Row(TEAM, params={"agent": "0"}),
    "GET /jobs/{job}/policy-artifact": Row(TEAM),
    "GET /jobs/{job}/policy-artifact/{agent}": Row(TEAM, params={"agent": "0"}),
    "GET /v2/episode-requests/{ereq}/{version_id}/annotations": Row(KNOWN_404),
    "GET /v2/episode-requests/changes": Row(PRIVATE, query={"ids": "$ereq"}),
    "POST /v2/coworlds/replays/session": Row(PRIVATE, body={"coworld_id": "$coworld_id", "episode_id": "$ereq"}),
    "POST /v2/coworlds/play/session": Row(KNOWN_404, body={"coworld_id": "$coworld_id"}),
    "GET /v2/coworlds/play/session/{session_id}": Row(KNOWN_404, params={"session_id": "$play_session"}),
    "DELETE /v2/coworlds/play/session/{session_id}": Row(KNOWN, params={"session_id": "cps_none"}),
    "POST /v2/coworlds/play/session/{session_id}/join": Row(KNOWN, params={"session_id": "cps_none"}),
    "PUT /v2/coworlds/play/session/{session_id}/config": Row(
        KNOWN, params={"session_id": "cps_none"}, body={"kind": "spectators", "allow_spectators": False}
    ),
    "GET /flags/me": Row(KNOWN),
    "GET /v2/coworlds/{name}/feed-posts/check": Row(KNOWN, params={"name": "none"}),
    "GET /v2/coworlds/{coworld_id}/documentation": Row(PRIVATE),
    "GET /v2/coworlds/{coworld_id}/package": Row(PRIVATE),
    "POST /v2/leagues/{league_id}/lobbies": Row(KNOWN, body={"idempotency_key": "k"}),
    "GET /v2/lobbies/{lobby_id}": Row(KNOWN),
    "PUT /v2/lobbies/{lobby_id}/seats/{position}": Row(
        KNOWN_403, params={"position": "1"}, body={"kind": "closed", "expected_revision": 1}
    ),
    "POST /v2/lobbies/{lobby_id}/seats/{position}/claim": Row(KNOWN, params={"position": "1"}),
    "DELETE /v2/lobbies/{lobby_id}/seats/{position}/player": Row(KNOWN_403, params={"position": "0"}),
    "POST /v2/lobbies/{lobby_id}/leave": Row(KNOWN),
    "POST /v2/lobbies/{lobby_id}/start": Row(KNOWN_403, body={"idempotency_key": "k", "expected_revision": 1}),
    "POST /v2/lobbies/{lobby_id}/cancel": Row(KNOWN_403),
    "POST /v2/lobbies/{lobby_id}/end": Row(KNOWN_403),
    "GET /v2/reporters": Row(ANYONE),
    "GET /v2/reporters/{reporter_id}": Row(("404",) * 5, params={"reporter_id": "rptr_x"}),
    "GET /v2/reporters/{reporter_id}/outputs": Row(("404",) * 5, params={"reporter_id": "rptr_x"}),
    "GET /v2/feed-instructions": Row(KNOWN),
    **{
        f"{method} {path}": Row(KNOWN, params=dict.fromkeys(re.findall(r"{(\w+)}", path), "x"))
        for method, path, *_ in NOT_OFFERED
    },
}


def test_no_route_is_missing_from_the_table() -> None:
    described = document("http://127.0.0.1")
    routes = {
        f"{method.upper()} {path.removeprefix('/observatory')}"
        for path, methods in described["paths"].items()
        for method in methods
    }
    assert routes == set(TABLE)


@dataclass
class Scene:
    """Somebody with things of her own, and everybody else."""

    tokens: tuple[str | None, ...]
    things: dict[str, Any]


def notes() -> bytes:
    """What a player keeps, with its notes in it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("annotations.jsonl", '{"hush": 1}\n')
    return packed.getvalue()


async def scene_of(platform: Inside) -> Scene:
    ann, eve = await platform.add_user("ann"), await platform.add_user("eve")
    admin = await platform.add_user("admin", team=True)
    player = await platform.post("/players", eve, {"name": "hers"})
    session = (await platform.post(f"/players/{player['id']}/login", eve))["token"]
    image, shown = await upload_image(platform, ann, "hush-image"), await upload_image(platform, ann, "open-image")
    manifest = manifest_for(image["id"], name="hush-game")
    manifest["commissioner"] = [{**manifest["player"][0], "id": "steward", "type": "commissioner"}]
    made = await platform.post("/v2/coworlds/upload", ann, {"manifest": manifest, "visibility": "private"})
    await platform.post("/v2/coworlds/upload", ann, {"manifest": manifest_for(shown["id"], name="open-game")})
    free = await platform.post("/stats/policy-secret-envs", ann, {"policy_secret_env": {"HUSH": "hush"}})
    mine, member = [
        await platform.post("/stats/policies/docker-img/complete", ann, {"name": name, "container_image_id": which})
        for name, which in (("hush-policy", image["id"]), ("racer", shown["id"]))
    ]
    await platform.ask("PUT", "/v2/coworlds/secrets/hush-game/key", ann, content=b"hush")
    asked = await platform.post(
        "/v2/experience-requests",
        ann,
        {"coworld_id": made["id"], "roster": [{"player": {"policy_ref": mine["id"]}}] * 2},
    )
    ereq = asked["episodes"][0]["id"]
    async with platform.services.database.writing() as db:
        league = (await create_league(db, "ours", coworld="open-game", public=False)).id
    [division] = await platform.get("/v2/divisions", ann, league_id=league)
    body = {"league_id": league, "policy_version_id": member["id"]}
    submitted = await platform.post("/v2/league-submissions", ann, body)
    seed = await platform.post(
        "/v2/coworld-league-seeds", admin, {"coworld_name": "open-game", "league_name": "theirs"}
    )
    async with platform.services.database.writing() as db:
        row = await db.get_one(EpisodeRequest, ereq)
        row.status, row.job_id, row.stats = "completed", "job-1", {"hush": 1}
        for kind, position in (("game_logs", -1), ("replay", -1), ("player_logs", 0), ("player_artifact", 0)):
            stored = await platform.services.artifacts.put(
                f"episodes/{ereq}/{kind}", notes() if kind == "player_artifact" else b"hush"
            )
            kept = Artifact(
                episode_request_id=ereq,
                kind=kind,
                position=position,
                key=stored.key,
                media_type="text/plain",
                size=stored.size,
                sha256=stored.sha256,
            )
            db.add(kept)
        this = Round(
            round_number=1,
            commissioner_key="static",
            execution_backend="any",
            round_config={},
            status="completed",
            division_id=division["id"],
        )
        db.add(this)
        report = await platform.services.artifacts.put("roles/hush", b"hush")
        run = RoleRun(
            episode_request_id=ereq,
            user_id=row.user_id,
            role="diagnoser",
            runnable_id="hush",
            position=0,
            slots=[0],
            key="0" * 64,
            status="completed",
            answer={"render": "hush.md"},
            output_key=report.key,
            output_size=report.size,
            output_sha256=report.sha256,
        )
        db.add(run)
        state = {"slots": 2, "labels": {"hush": "hush"}, "players": [], "error": "hush"}
        game = HostedSession(kind="play", user_id=row.user_id, coworld_id=row.coworld_id, status="failed", state=state)
        db.add(game)
        await db.flush()
        artifact, round_id, role_run, play_session = kept.id, this.id, run.id, game.id
    [version] = (await platform.get("/stats/policy-versions", ann, name_exact="hush-policy"))["entries"]
    lobby = await platform.post(f"/v2/leagues/{league}/lobbies", ann, {"idempotency_key": "hers"})
    games = {game["coworld_name"]: game["id"] for game in await platform.get("/v2/games", ann)}
    things = {
        "webhook": (await platform.post("/v2/webhooks", ann, {"url": "https://example.org/"}))["id"],
        "team": (await platform.post("/v2/teams", ann, {"name": "ours"}))["id"],
        "player_id": (await platform.post("/players", ann, {"name": "one"}))["id"],
        "token_id": ann.split("_")[1],
        "coworld_id": made["id"],
        "name": "hush-game",
        "manifest": {**manifest, "game": {**manifest["game"], "version": "2.0.0"}},
        "image_id": image["id"],
        "client_hash": image["client_hash"],
        "secret_env_id": free["id"],
        "policy_id": version["policy_id"],
        "version_id": mine["id"],
        "member_id": member["id"],
        "league_id": league,
        "division_id": division["id"],
        "lobby_id": lobby["id"],
        "membership_id": submitted["league_policy_membership_id"],
        "round_id": round_id,
        "seed_id": seed["id"],
        "game_id": games["hush-game"],
        "ereq": ereq,
        "role_run": role_run,
        "play_session": play_session,
        "xreq": asked["id"],
        "artifact_id": artifact,
        "job": "job-1",
    }
    return Scene((None, eve, session, ann, admin), things)


def filled(value: Any, things: dict[str, Any]) -> Any:
    """A value with the things of the scene in it."""
    if isinstance(value, str):
        return things[value[1:]] if value.startswith("$") else value
    if isinstance(value, dict):
        return {key: filled(item, things) for key, item in value.items()}
    return [filled(item, things) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def set_up(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Scene]:
    """A platform's directory, closed, and what is in it: who changes something has a copy."""
    directory = tmp_path_factory.mktemp("scene")

    async def make() -> Scene:
        async with inside(directory) as platform:
            return await scene_of(platform)

    return directory, anyio.run(make)


async def fared(platform: Inside, scene: Scene, route: str) -> Fares:
    """How each caller fares; whatever strangers get has nothing in it that is not theirs."""
    row = TABLE[route]
    method, _, path = route.partition(" ")
    path = path.format_map({**scene.things, **filled(row.params, scene.things)})
    asked: dict[str, Any] = {"params": filled(row.query, scene.things)}
    if isinstance(row.body, str):
        asked["content"] = row.body.encode()
    elif row.body is not None:
        asked["json"] = filled(row.body, scene.things)
    seen: list[str] = []
    for caller, token in zip(CALLERS, scene.tokens, strict=True):
        headers = ELEVATED if caller == "operator" else {}
        answer = await platform.ask(method, path, token, headers=headers, expect=None, **asked)
        assert answer.status_code != 500, (route, caller, answer.text)
        seen.append(str(answer.status_code) if answer.status_code in (401, 403, 404) else "in")
        if caller not in ("owner", "operator") and answer.status_code < 400:
            # What is one's own is in no list of strangers, either
            assert HUSH not in answer.text, (route, caller)
    anonymous, other, player, owner, operator = seen
    return anonymous, other, player, owner, operator


READS = [route for route in sorted(TABLE) if route.startswith("GET ")]


async def test_read_access_matches_the_table(set_up: tuple[Path, Scene], tmp_path: Path) -> None:
    """All of them from one platform, since reading changes nothing."""
    directory, scene = set_up
    shutil.copytree(directory, tmp_path, dirs_exist_ok=True)
    async with inside(tmp_path) as platform:
        seen = {route: await fared(platform, scene, route) for route in READS}
    assert seen == {route: TABLE[route].fares for route in READS}


@pytest.mark.parametrize("route", sorted(TABLE.keys() - set(READS)))
async def test_write_access_matches_the_table(route: str, set_up: tuple[Path, Scene], tmp_path: Path) -> None:
    """Each on a copy of its own, where nobody else has changed anything."""
    directory, scene = set_up
    shutil.copytree(directory, tmp_path, dirs_exist_ok=True)
    async with inside(tmp_path) as platform:
        assert await fared(platform, scene, route) == TABLE[route].fares
