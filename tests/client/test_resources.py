"""What the nouns add to the wire: filters, lookups, and finding a thing on servers that keep it elsewhere."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from support.fake_platform import DIVISION, EPISODE, LEAGUE, MEMBERSHIP, SEAT, VERSION, canned_platform, uid
from support.fake_server import Ask, Say, json_say, serve
from support.flaky_transport import FlakyTransport

from coworld_client import (
    ApiShapeError,
    Backoff,
    CoworldClient,
    Forbidden,
    NotFound,
    NotOffered,
    Unprocessable,
)
from coworld_client.resources import coworlds
from coworld_core.api import ExperienceBody
from coworld_core.errors import CoworldError, UsageError

EREQ, JOB = EPISODE["id"], EPISODE["job_id"]
AT_ONCE = Backoff(base=0.0, cap=0.0)


def api_of(server: str) -> CoworldClient:
    return CoworldClient(server, transport=FlakyTransport(), backoff=AT_ONCE)


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def episode(number: int, name: str = "alice", *, replay: bool = False, **more: Any) -> dict[str, Any]:
    seat = {**SEAT, "policy_name": name, "policy_version_id": uid(100 if name == "alice" else 200)}
    return {
        **EPISODE,
        "id": f"ereq_{uid(number)}",
        "policy_version_ids": [seat["policy_version_id"]],
        "participants": [seat],
        "replay_url": "https://example.org/r.z" if replay else None,
        **more,
    }


class Listing:
    """A platform with many episodes, which filters by nothing."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self.asked: list[Ask] = []

    async def __call__(self, ask: Ask) -> Say:
        self.asked.append(ask)
        if ask.path.endswith("/stats/policy-versions"):
            return json_say({"entries": [{"id": uid(100), "name": "alice", "version": 3}], "total_count": 1})
        if ask.path.endswith("/league-policy-memberships"):
            assert ask.query["mine"] == "true"
            return json_say([])
        start, size = int(ask.query.get("offset", "0")), int(ask.query["limit"])
        part = self.rows[start : start + size]
        return json_say({"entries": part, "total_count": len(self.rows), "limit": size, "offset": start})


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"policy": "bob"}, lambda row, at: at % 50 == 0),
        ({"policy": "bob:v3"}, lambda row, at: at % 50 == 0),
        ({"policy": "bob:v4"}, lambda row, at: False),
        ({"policy": uid(200)}, lambda row, at: at % 50 == 0),
        ({"with_replay": True}, lambda row, at: at % 40 == 0),
        ({"mine": True}, lambda row, at: at % 50 != 0),
        ({"status": "failed"}, lambda row, at: at % 70 == 0),
        ({"status": ("failed", "completed")}, lambda row, at: True),
        ({"policy": "bob", "with_replay": True}, lambda row, at: at % 200 == 0),
        ({"coworld": f"cow_{uid(12)}"}, lambda row, at: True),
        ({"coworld": f"cow_{uid(99)}"}, lambda row, at: False),
    ],
)
async def test_filters_are_applied_while_paging(options: dict[str, Any], wanted: Any) -> None:
    rows = [
        episode(
            1000 + at,
            "bob" if at % 50 == 0 else "alice",
            replay=at % 40 == 0,
            status="failed" if at % 70 == 0 else "completed",
        )
        for at in range(650)
    ]
    expected = [row["id"] for at, row in enumerate(rows) if wanted(row, at)]
    async with serve(Listing(rows)) as server, api_of(server.url) as api:
        assert [row.id async for row in api.episodes.list(**options)] == expected
        assert [row.id for row in await api.episodes.list(**options, limit=3)] == expected[:3]


async def test_supported_filters_are_sent_to_the_server() -> None:
    listing = Listing([episode(1)])
    async with serve(listing) as server, api_of(server.url) as api:
        listed = api.episodes.list(division="div_1", round="round_1", player="ply_1", limit=5, offset=0)
        (page,) = [page async for page in listed.pages()]
    assert page.total == 1
    query = listing.asked[0].query
    assert query == {"division_id": "div_1", "round_id": "round_1", "player_id": "ply_1", "limit": "5", "offset": "0"}


async def test_newer_servers_list_the_episodes_of_one_thing_elsewhere() -> None:
    async def newer(ask: Ask) -> Say:
        place = ask.path.removeprefix("/observatory/v2/")
        if place == "episode-requests":
            return json_say({"detail": [{"loc": ["query", "ids"], "msg": "field required"}]}, 422)
        assert place in ("rounds/round_1/episode-requests", f"policy-versions/{uid(100)}/episode-requests")
        assert int(ask.query["limit"]) <= 100
        if "cursor" not in ask.query:
            return json_say({"entries": [episode(1)], "next_cursor": "more"})
        return json_say({"entries": [episode(2)], "next_cursor": None})

    async with serve(newer) as server, api_of(server.url) as api:
        assert len(await api.episodes.list(round="round_1")) == 2
        assert len(await api.episodes.list(policy=uid(100))) == 2
        with pytest.raises(CoworldError, match="field required"):
            await api.episodes.list(division="div_1")


@pytest.mark.parametrize(
    "call",
    [
        lambda api: api.episodes.list(division=f"round_{uid(1)}"),
        lambda api: api.episodes.list(policy="alice:vx"),
        lambda api: api.rounds.list(league=f"div_{uid(1)}"),
        lambda api: api.memberships.list(player=f"lpm_{uid(1)}"),
        lambda api: api.submissions.list(league=f"div_{uid(1)}"),
        lambda api: api.events.list(round=f"div_{uid(1)}"),
        lambda api: api.divisions.list(league=f"div_{uid(1)}"),
        lambda api: api.leagues.list(game=f"league_{uid(1)}"),
        lambda api: api.watch(f"league_{uid(1)}").__aenter__(),
        lambda api: api.downloads.list([]),
        lambda api: api.downloads.list(["ereq_1", "xreq_1"]),
        lambda api: api.downloads.list("ereq_1", include=["secrets"]),
        lambda api: api.episodes.progress([f"ereq_{n}" for n in range(51)]),
        lambda api: api.episodes.annotations("ereq_1", "alice:vx"),
        lambda api: api.leagues.guide(f"div_{uid(1)}"),
        lambda api: api.leagues.get(f"div_{uid(1)}"),
        lambda api: api.divisions.leaderboard(f"league_{uid(1)}"),
        lambda api: api.rounds.get("../../whoami"),
        lambda api: api.episodes.get("xreq_1"),
        lambda api: api.episodes.artifact("ereq_1", "passwd"),
        lambda api: api.episodes.download_bundle("ereq_1", Path("x"), include=["secrets"]),
        lambda api: api.experience.get("ereq_1"),
        lambda api: api.experience.wait("ereq_1"),
        lambda api: api.coworlds.get(""),
        lambda api: api.images.get(f"cow_{uid(1)}"),
        lambda api: api.memberships.retire(f"sub_{uid(1)}"),
        lambda api: api.submissions.create(f"div_{uid(1)}", "alice"),
        lambda api: api.players.login(f"user_{uid(1)}"),
        lambda api: api.hosted.create(f"league_{uid(1)}"),
    ],
)
async def test_wrong_id_is_refused_before_any_request(call: Any) -> None:
    transport = FlakyTransport()
    async with CoworldClient("http://127.0.0.1:9", transport=transport) as api:
        with pytest.raises(UsageError):
            await call(api)
    assert not transport.asked


@pytest.mark.parametrize(
    ("call", "asked"),
    [
        (lambda api, league: api.leagues.get(league), "/v2/leagues/{league}"),
        (lambda api, league: api.leagues.season(league, 2), "/v2/leagues/{league}/seasons/2"),
        (lambda api, league: api.divisions.list(league=league), "/v2/divisions?league_id={league}"),
        (lambda api, league: api.rounds.list(league=league), "/v2/rounds?league_id={league}"),
        (lambda api, league: api.submissions.create(league, "painter"), "/v2/league-submissions"),
        (lambda api, league: api.lobbies.create(league), "/v2/leagues/{league}/lobbies"),
        (lambda api, league: api.episodes.list(league=league), "/v2/episode-requests?division_id={division}"),
    ],
)
async def test_league_is_given_by_its_name(call: Any, asked: str) -> None:
    async with canned_platform() as platform:
        transport = FlakyTransport()
        async with CoworldClient(platform.url, transport=transport) as api:
            wanted = await call(api, LEAGUE["id"])
            assert await call(api, LEAGUE["name"]) == wanted
    expected = asked.format(league=LEAGUE["id"], division=DIVISION["id"])
    assert expected in transport.asked[-1].url


async def test_memberships_events_and_submissions_by_name_of_anyones_policy() -> None:
    async with canned_platform() as platform, api_of(platform.url) as api:
        for rows in (api.memberships, api.events, api.submissions):
            assert len(await rows.list(policy="painter")) == 1
            assert await rows.list(policy="painter:v2") == []
            assert len(await rows.list(policy=VERSION["id"])) == 1
        asked = [ask.query for ask in platform.asked]
    assert "policy_version_id" not in asked[0]
    assert any(query.get("policy_version_id") == VERSION["id"] for query in asked)
    assert asked[0]["active_only"] == asked[0]["champions_only"] == asked[0]["mine"] == "false"


# --- policies and Coworlds


async def test_lookup_returns_the_callers_newest_version() -> None:
    rows = [
        {"id": uid(n), "name": name, "version": v} for n, name, v in ((1, "alice", 1), (2, "alice", 3), (3, "bob", 9))
    ]
    async with canned_platform() as platform, api_of(platform.url) as api:
        # This server takes no notice of any parameter
        platform.on("GET", "/stats/policy-versions", {"entries": rows, "total_count": 3})
        assert (await api.policies.lookup("alice")).id == uid(2)
        assert (await api.policies.lookup("alice:v1")).id == uid(1)
        for absent in ("alice:v2", "carol"):
            with pytest.raises(NotFound, match="You have no policy"):
                await api.policies.lookup(absent)
        with pytest.raises(UsageError):
            await api.policies.lookup(uid(1))
        assert platform.asked[0].query == {"mine": "true", "name_exact": "alice", "limit": "100", "offset": "0"}


async def test_a_submission_by_id_needs_no_lookup() -> None:
    async with canned_platform() as platform, api_of(platform.url) as api:
        made = await api.submissions.create(LEAGUE["id"], VERSION["id"], auto_champion="never")
        assert (str(made.status), made.status.is_terminal) == ("pending", False)
        assert [ask.method for ask in platform.asked] == ["POST"]


async def test_unknown_body_fields_are_sent() -> None:
    transport = FlakyTransport()
    async with canned_platform() as platform, CoworldClient(platform.url, transport=transport) as api:
        await api.experience.create({"coworld_id": "cow_1", "roster": [], "tomorrow": {"a": None}})
        body = ExperienceBody.model_validate({"coworld_id": "cow_1", "roster": [{"player": {"top_n": 1}}]})
        await api.experience.create(body)
    assert transport.asked[0].body == b'{"coworld_id":"cow_1","roster":[],"tomorrow":{"a":null}}'
    assert transport.asked[1].body == b'{"coworld_id":"cow_1","roster":[{"player":{"top_n":1}}],"num_episodes":1}'


# --- where artifacts are


class Artifacts:
    """A platform on which some routes are missing or not for us."""

    def __init__(self, **answers: Say) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def __call__(self, ask: Ask) -> Say:
        place = ask.path.removeprefix("/observatory")
        self.asked.append(place)
        if place == f"/v2/episode-requests/{EREQ}":
            return json_say(EPISODE)
        if place.startswith("/jobs/"):
            return self.answers.get("jobs", json_say({"detail": "team only"}, 403))
        if place.endswith("/bundle"):
            assert ask.query == {"include": "results"}
            return self.answers.get("bundle", json_say({"detail": "no bundle"}, 404))
        if place.endswith("/stats/policy-versions"):
            return json_say({"entries": [{"id": VERSION["id"], "name": "painter", "version": 3}], "total_count": 1})
        if place.endswith("/league-policy-memberships"):
            return json_say([MEMBERSHIP])
        return self.answers.get("front", json_say({"detail": "not here"}, 404))


def zipped(**files: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name.replace("_", "."), data)
    return content.getvalue()


async def test_episode_routes_are_used_when_available() -> None:
    platform = Artifacts(front=json_say({"scores": [1]}))
    async with serve(platform) as server, api_of(server.url) as api:
        assert await api.episodes.results(EREQ) == {"scores": [1]}
        assert await api.episodes.game_log(EREQ) == '{"scores": [1]}'
    assert not any("/jobs/" in place or "/bundle" in place for place in platform.asked)


@pytest.mark.parametrize("status", [404, 422])
async def test_results_come_out_of_a_bundle_on_servers_that_do_not_serve_them(status: int) -> None:
    bundle = Say(200, zipped(results_json=b'{"scores": [2]}'))
    platform = Artifacts(front=json_say({"detail": "?"}, status), bundle=bundle)
    async with serve(platform) as server, api_of(server.url) as api:
        assert await api.episodes.results(EREQ) == {"scores": [2]}
    assert not any("/jobs/" in place for place in platform.asked)


async def test_job_routes_are_the_last_resort() -> None:
    platform = Artifacts(jobs=json_say({"scores": [3]}))
    async with serve(platform) as server, api_of(server.url) as api:
        assert await api.episodes.results(EREQ) == {"scores": [3]}
        assert (await api.episodes.game_log(EREQ)) == '{"scores": [3]}'
        assert (await api.episodes.agent_log(EREQ, 0)) == '{"scores": [3]}'
    assert platform.asked[-1] == f"/jobs/{JOB}/policy-logs/0"


async def test_refusal_of_the_episode_route_is_final() -> None:
    platform = Artifacts(front=json_say({"detail": "not yours"}, 403), jobs=json_say({}))
    async with serve(platform) as server, api_of(server.url) as api:
        for call in (api.episodes.results, api.episodes.game_log, api.episodes.stats):
            with pytest.raises(Forbidden, match="not yours"):
                await call(EREQ)
        with pytest.raises(Forbidden, match="not yours"):
            await api.episodes.agent_log(EREQ, 0)
    assert not any("/jobs/" in place for place in platform.asked)


async def test_team_only_artifacts_are_not_found_for_others() -> None:
    async with serve(Artifacts()) as server, api_of(server.url) as api:
        for call in (api.episodes.results, api.episodes.game_log, api.episodes.stats):
            with pytest.raises(NotFound, match="not here"):
                await call(EREQ)


MISNAMED = zipped(é_json=b"{}").replace("é".encode(), b"\xff\xff")
"""An entry whose name is said to be UTF-8 and is not."""


@pytest.mark.parametrize("bundle", [b"no zip", b"", zipped(results_json=b"{}")[:-30], MISNAMED])
async def test_malformed_bundle_is_refused(bundle: bytes) -> None:
    async with serve(Artifacts(bundle=Say(200, bundle))) as server, api_of(server.url) as api:
        with pytest.raises(ApiShapeError, match="not a zip file"):
            await api.episodes.results(EREQ)


async def test_a_bundle_without_results_has_none() -> None:
    async with serve(Artifacts(bundle=Say(200, zipped(manifest_json=b"{}")))) as server, api_of(server.url) as api:
        with pytest.raises(NotFound):
            await api.episodes.results(EREQ)


async def test_oversized_bundle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import coworld_client.resources._episode_places as module

    monkeypatch.setattr(module, "MAX_BODY", 1000)
    async with serve(Artifacts(bundle=Say(200, zipped(results_json=b" " * 2000)))) as server, api_of(server.url) as api:
        with pytest.raises(ApiShapeError) as raised:
            await api.episodes.results(EREQ)
    assert raised.value.code == "too_large"


async def test_evidence_is_listed_through_the_job() -> None:
    async def older(ask: Ask) -> Say:
        place = ask.path.removeprefix("/observatory")
        if place == f"/jobs/{JOB}/policy-logs":
            return json_say(["policy_agent_0.log", "policy_agent_1.log", "notes.txt"])
        if place == f"/jobs/{JOB}/policy-artifact":
            return json_say(["policy_artifact_1.zip"])
        return json_say(EPISODE) if place.endswith(EREQ) else json_say({"detail": "no"}, 404)

    async with serve(older) as server, api_of(server.url) as api:
        found = await api.episodes.agent_logs(EREQ)
    assert [(row.position, row.has_log, row.has_artifact, row.policy_name) for row in found] == [
        (0, True, False, "painter"),
        (1, True, True, None),
    ]


async def test_evidence_is_unknown_without_team_rights() -> None:
    async with serve(Artifacts()) as server, api_of(server.url) as api:
        (row,) = await api.episodes.agent_logs(EREQ)
    assert (row.position, row.has_log, row.has_artifact) == (0, None, None)


async def test_unknown_slot_is_not_found() -> None:
    async with serve(Artifacts()) as server, api_of(server.url) as api:
        with pytest.raises(NotFound) as raised:
            await api.episodes.agent_log(EREQ, 7)
    assert raised.value.hint == "Its slots: 0."


async def test_given_episode_is_not_fetched_again(tmp_path: Path) -> None:
    platform = Artifacts(front=Say(200, b"bytes"))
    async with serve(platform) as server, api_of(server.url) as api:
        row = await api.episodes.get(EREQ)
        await api.episodes.agent_log(row, 0)
        await api.episodes.download_log(row, tmp_path / "0.log", position=0)
        await api.episodes.download_artifact(row, 0, tmp_path / "0.zip")
        await api.episodes.download_replay(row, tmp_path / "replay")
    assert sum(place.endswith(EREQ) for place in platform.asked) == 1
    assert set(files(tmp_path).values()) == {b"bytes"}


@pytest.mark.parametrize("status", [403, 404, 410])
async def test_expired_replay_link_is_renewed(tmp_path: Path, status: int) -> None:
    asked: list[str] = []

    async def handler(ask: Ask) -> Say:
        asked.append(ask.path)
        if ask.path.startswith("/storage"):
            return Say(status, b"<Error>")
        if ask.path.endswith("/artifacts/replay"):
            return Say(200, b"replay")
        return json_say({**EPISODE, "replay_url": f"http://{ask.headers['host']}/storage/r?X-Amz-Signature=s"})

    async with serve(handler) as server, api_of(server.url) as api:
        await api.episodes.download_replay(EREQ, tmp_path / "replay")
    assert files(tmp_path) == {"replay": b"replay"}
    assert asked[-1] == f"/observatory/v2/episode-requests/{EREQ}/artifacts/replay"


@pytest.mark.parametrize(("first", "wanted"), [(403, Forbidden), (404, NotFound), (422, Unprocessable)])
async def test_episode_route_error_takes_precedence(tmp_path: Path, first: int, wanted: type[Exception]) -> None:
    async def handler(ask: Ask) -> Say:
        if ask.path.startswith("/observatory/jobs/"):
            return json_say({"detail": "team only"}, 403)
        if "/artifacts/" in ask.path:
            return json_say({"detail": "its own words"}, first)
        return json_say({**EPISODE, "replay_url": f"http://{ask.headers['host']}/gone"})

    async with serve(handler) as server, api_of(server.url) as api:
        with pytest.raises(wanted, match="its own words"):
            await api.episodes.download_log(await api.episodes.get(EREQ), tmp_path / "log")
    assert files(tmp_path) == {}


async def test_a_replay_of_an_episode_that_is_not_over(tmp_path: Path) -> None:
    running = {**EPISODE, "status": "running"}

    async def handler(ask: Ask) -> Say:
        return json_say(running)

    async with serve(handler) as server, api_of(server.url) as api:
        with pytest.raises(NotFound, match="it is running"):
            await api.episodes.download_replay(EREQ, tmp_path / "replay")
    assert files(tmp_path) == {}


# --- many things at once


class Storage:
    """A platform with one thing to download, whose link runs out."""

    def __init__(
        self, *, stale: int = 0, status: int = 403, content: bytes = b"replay", encoding: str = "identity"
    ) -> None:
        self.stale = stale
        self.status = status
        self.content = content
        self.encoding = encoding
        self.listed = 0
        self.url = ""

    async def __call__(self, ask: Ask) -> Say:
        if ask.path.startswith("/storage/"):
            assert "authorization" in ask.headers
            generation = int(ask.path.rpartition("/")[2])
            if generation <= self.stale:
                return Say(self.status, b"<Error>expired</Error>")
            assert ask.headers["if-match"] == f'"{generation}"'
            return Say(200, self.content, {"ETag": f'"{generation}"'})
        assert parse_qs(ask.target.partition("?")[2])["ids"] == [EREQ]
        self.listed += 1
        entry = {
            "episode_request_id": EREQ,
            "category": "replay",
            "artifact_id": "a1",
            "filename": "../../../etc/passwd",
            "state": "ready",
            "encoding": self.encoding,
            "size": len(self.content),
            "etag": f'"{self.listed}"',
            "url": f"{self.url}/storage/{self.listed}",
        }
        return json_say({"entries": [entry], "unavailable_ids": ["ereq_gone"], "next_cursor": None})


@pytest.mark.parametrize("status", [403, 404, 410, 412])
async def test_expired_link_is_renewed_once(tmp_path: Path, status: int) -> None:
    storage = Storage(stale=1, status=status)
    async with serve(storage) as server, CoworldClient(server.url, token="t" * 20, transport=FlakyTransport()) as api:
        storage.url = server.url
        (page,) = [page async for page in api.downloads.list(EREQ).pages()]
        assert page.extra == {"unavailable_ids": ["ereq_gone"]}
        done = await api.downloads.fetch(page.items[0], tmp_path / "mine")
        storage.stale = 9
        with pytest.raises(CoworldError):
            await api.downloads.fetch(page.items[0], tmp_path / "other")
    assert done.path == tmp_path / "mine"
    assert files(tmp_path) == {"mine": b"replay"}


async def test_compressed_artifact_is_unpacked_and_verified(tmp_path: Path) -> None:
    storage = Storage(content=zlib.compress(b"replay" * 100), encoding="zlib")
    async with serve(storage) as server, CoworldClient(server.url, token="t" * 20, transport=FlakyTransport()) as api:
        storage.url = server.url
        (entry,) = await api.downloads.list(EREQ)
        await api.downloads.fetch(entry, tmp_path / "plain")
        await api.downloads.fetch(entry, tmp_path / "packed", unpack=False)
        with pytest.raises(CoworldError):
            await api.downloads.fetch(entry, tmp_path / "none", limit=50)
        with pytest.raises(CoworldError):
            await api.downloads.fetch(entry.model_copy(update={"size": 3}), tmp_path / "none")
    assert files(tmp_path) == {"plain": b"replay" * 100, "packed": storage.content}


async def test_pending_artifact_is_not_fetched(tmp_path: Path) -> None:
    async with canned_platform() as platform, api_of(platform.url) as api:
        (entry,) = await api.downloads.list(EREQ)
        with pytest.raises(NotFound, match="it is pending"):
            await api.downloads.fetch(entry, tmp_path / "none")
    assert files(tmp_path) == {}


async def test_notes_of_a_policy_are_read_line_by_line() -> None:
    async with canned_platform() as platform, api_of(platform.url) as api:
        place = f"/v2/episode-requests/{EREQ}/{uid(4)}/annotations"
        platform.on("GET", place, Say(200, b'{"step": 1}\n\n[2]\n'))
        assert await api.episodes.annotations(EREQ, uid(4)) == ({"step": 1}, [2])
        platform.on("GET", place, Say(200, b'{"step": 1}\n{"st'))
        with pytest.raises(ApiShapeError):
            await api.episodes.annotations(EREQ, uid(4))


async def test_a_platform_that_is_busy_for_a_moment_is_not_the_coworlds_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coworlds, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(coworlds, "_LONGEST_PAUSE", 0.0)
    cow = str(EPISODE["coworld_id"])
    answers = [(200, "running"), (503, ""), (429, ""), (200, "completed"), (200, "running"), (501, "")]

    def listed(_: Ask) -> Say:
        status, word = answers.pop(0)
        body = {"entries": [episode(1, status=word)], "next_cursor": None} if word else {"detail": "not now"}
        return json_say(body, status)

    async with canned_platform() as platform, CoworldClient(platform.url, max_retries=0) as api:
        platform.on("GET", f"/v2/coworlds/{cow}/episode-requests", listed)
        assert (await api.coworlds.wait_for_smoke(cow)).verdict == "passed"
        with pytest.raises(NotOffered):
            await api.coworlds.wait_for_smoke(cow)
    assert answers == []


async def test_smoke_episodes_that_never_begin_are_not_awaited() -> None:
    cow = str(EPISODE["coworld_id"])
    async with canned_platform() as platform, api_of(platform.url) as api:
        platform.on("GET", f"/v2/coworlds/{cow}/episode-requests", {"entries": [], "next_cursor": None})
        status = await api.coworlds.wait_for_smoke(cow, wait_timeout=3600, start_timeout=0)
    assert status.verdict == "none"


async def test_evidence_of_your_own_players(monkeypatch: pytest.MonkeyPatch) -> None:
    async def mine(**_: Any) -> frozenset[str]:
        return frozenset({uid(200)})

    rows = [{"position": slot, "policy_version_id": uid(100 * (slot + 1)), "has_log": True} for slot in range(2)]
    async with canned_platform() as platform, api_of(platform.url) as api:
        platform.on("GET", f"/v2/episode-requests/{EREQ}/policy-artifacts", rows)
        monkeypatch.setattr(api.episodes, "my_policy_versions", mine)
        assert [seat.position for seat in await api.episodes.agent_logs(EREQ)] == [0, 1]
        assert [seat.position for seat in await api.episodes.agent_logs(EREQ, mine=True)] == [1]
