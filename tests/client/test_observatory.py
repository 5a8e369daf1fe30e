"""The client against a real platform: whatever it serves is read without anything odd, and a player's day works."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.flaky_transport import Fault, FlakyTransport
from support.observatory_kit import Account, Platform, World, open_platform, roster, seed
from support.quick_roles import with_roles

from coworld_client import (
    AsyncPager,
    Backoff,
    Change,
    Conflict,
    CoworldClient,
    Forbidden,
    NotAuthenticated,
    NotFound,
    Unprocessable,
)
from coworld_client.resources._base import Resource
from coworld_core.api import EpisodeRequest, ExperienceBody, LobbySeatBody, RoleRun, Wire
from coworld_core.errors import UsageError

pytestmark = pytest.mark.slow

AT_ONCE = Backoff(base=0.0, cap=0.0)


def client(platform: Platform, account: Account | None, *faults: Fault) -> CoworldClient:
    token = account.token if account is not None else None
    return CoworldClient(platform.url, token=token, transport=FlakyTransport(*faults), backoff=AT_ONCE)


async def peopled(platform: Platform) -> tuple[Account, Account, World, str, str]:
    """Two people, each with a policy in the league."""
    ann, ben = await platform.account("ann"), await platform.account("ben")
    world = await seed(platform.services, ann.id)
    first, second = await platform.policy(ann, "walker"), await platform.policy(ben, "runner")
    await platform.join(world, first)
    await platform.join(world, second)
    return ann, ben, world, first, second


async def rows(*lists: Any) -> AsyncIterator[Wire]:
    for pager in lists:
        async for row in pager:
            yield row


async def test_platform_responses_match_the_models(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann, _, world, first, _ = await peopled(platform)
        async with client(platform, ann) as api:
            assert str((await api.whoami()).subject_type) == "user"
            made = await api.submissions.create(world.league, "walker:v1")
            assert made.status.is_terminal or made.status == "pending"
            player = await api.players.create("Second Self")
            asked = await api.experience.create(
                ExperienceBody.model_validate(
                    {"coworld_id": world.id, "roster": roster("walker", "walker"), "num_episodes": 3}
                )
            )
            division = await api.divisions.get(world.division)
            one = [
                division,
                asked,
                player,
                await api.leagues.get(world.league),
                await api.coworlds.find(world.name),
                await api.policies.lookup("walker"),
                *await api.leagues.ladder(world.league),
                *await api.divisions.leaderboard(world.division),
            ]
            many = [
                row
                async for row in rows(
                    api.games.list(),
                    api.leagues.list(),
                    api.divisions.list(league=world.league),
                    api.rounds.list(),
                    api.events.list(),
                    api.memberships.list(league=world.league),
                    api.submissions.list(mine=True),
                    api.policies.list(),
                    api.players.list(),
                    api.coworlds.list(),
                    api.images.list(),
                    api.experience.list(mine=True),
                    api.experience.episodes(asked.id),
                    api.episodes.list(mine=True),
                )
            ]
            assert {type(row).__name__ for row in many} >= {
                "Game",
                "League",
                "Division",
                "Membership",
                "Submission",
                "PolicyVersionRow",
                "OwnedPlayer",
                "Coworld",
                "Image",
                "ExperienceRequest",
                "EpisodeRequest",
            }
            for row in (*one, *many):
                assert row.odd == (), f"{type(row).__name__}: {row.odd}"
            assert {row.id async for row in api.memberships.list(mine=True, policy="walker")}
            assert [row async for row in api.memberships.list(policy="runner:v9")] == []
            assert await api.episodes.my_policy_versions() == {first}


async def test_refusals_carry_the_platforms_message(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        _, ben, world, first, _ = await peopled(platform)
        async with client(platform, ben) as api:
            with pytest.raises(NotFound, match="There is no league") as absent:
                await api.leagues.get("league_00000000-0000-4000-8000-000000000000")
            assert absent.value.request_id
            with pytest.raises((Forbidden, NotFound)):
                await api.memberships.retire((await api.memberships.list(policy=first))[0].id)
            mine = (await api.memberships.list(mine=True))[0]
            assert not (await api.memberships.retire(mine.id, reason="enough")).status.is_competing
            with pytest.raises(Conflict):
                await api.memberships.retire(mine.id)
        async with CoworldClient(platform.url, token="cwt_unknown.nothing") as api:
            assert (await api.whoami()).subject_type.is_anonymous
            with pytest.raises(NotAuthenticated):
                await api.players.list()
        async with client(platform, None) as api:
            assert (await api.coworlds.get(world.id)).name == world.name


async def test_lost_response_does_not_duplicate_a_write(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann, _, world, _, _ = await peopled(platform)
        body = {"coworld_id": world.id, "roster": roster("walker", "walker"), "num_episodes": 2}
        lost = [
            Fault("lost", method="POST", path="experience-requests$"),
            Fault("lost", method="POST", path="players$"),
        ]
        async with client(platform, ann, *lost) as api:
            asked = await api.experience.create(body)
            player = await api.players.create("Once")
            assert [row.id async for row in api.experience.list(mine=True)] == [asked.id]
            assert [row.id async for row in api.players.list() if row.name == "Once"] == [player.id]
            assert len(await api.episodes.list(mine=True)) == 2


async def test_long_lists_are_read_whole_and_each_row_once(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann, _, world, _, _ = await peopled(platform)
        body = {"coworld_id": world.id, "roster": roster("walker", "walker"), "num_episodes": 25}
        async with client(platform, ann) as api:
            wanted = {row.id for row in (await api.experience.create(body)).episodes}
            pages = [page async for page in listed(api).pages()]
            assert [len(page) for page in pages] == [10, 10, 5]
            assert [page.has_more for page in pages] == [True, True, False]
            assert {row.id for page in pages for row in page.items} == wanted
            assert len(await listed(api, limit=13)) == 13
            assert len(await listed(api, offset=20)) == 5
            if pages[0].next_cursor is not None:
                assert len(await listed(api, cursor=pages[0].next_cursor)) == 15


def listed(api: CoworldClient, **options: Any) -> AsyncPager[EpisodeRequest]:
    """The list of episodes in short pages."""
    return api.episodes._list(EpisodeRequest, "/v2/episode-requests", page_size=10, **options)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_player_workflow_works_end_to_end(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="process") as platform:
        ann, ben, world, _, second = await peopled(platform)
        seen: list[Change] = []
        async with client(platform, ann) as api:
            asked = await api.experience.create(
                {"coworld_id": world.id, "roster": roster("walker", second), "num_episodes": 2}
            )
            detail = await api.experience.wait(asked.id, on_change=seen.append)
            assert [str(row.status) for row in detail.episodes] == ["completed", "completed"]
            assert {change.id for change in seen} == {row.id for row in detail.episodes}
            assert seen[-1].episode is not None
            assert seen[-1].episode.status.is_terminal

            async with api.watch(asked.id, cursor=seen[-1].cursor) as changes:
                assert [change async for change in changes] == []

            episode = detail.episodes[0]
            results = await api.episodes.results(episode)
            assert len(results["scores"]) == 2
            assert json.loads(await api.episodes.artifact(episode.id, "results")) == results
            assert isinstance(await api.episodes.game_log(episode), str)
            assert (await api.episodes.stats(episode)).odd == ()
            assert [row.position for row in await api.episodes.agent_logs(episode) if row.has_log] == [0]
            assert isinstance(await api.episodes.agent_log(episode, 0), str)
            with pytest.raises((Forbidden, NotFound)):
                await api.episodes.agent_log(episode, 1)

            replay = await api.episodes.download_replay(episode, tmp_path / "replay")
            assert replay.size > 0
            bundle = await api.episodes.download_bundle(episode, tmp_path / "bundle.zip")
            assert "results.json" in names(bundle.path)
            some = await api.episodes.download_bundle(episode, tmp_path / "some.zip", include=["replay"])
            assert names(some.path) >= {"manifest.json", "replay"}
            assert "results.json" not in names(some.path)
            assert content(some.path, "replay") == plain(replay.path)

            things = await api.downloads.list(asked.id, include=["results", "replay"])
            assert {(thing.category, thing.state) for thing in things} == {("results", "ready"), ("replay", "ready")}
            replays = [one for one in things if (one.category, one.episode_request_id) == ("replay", episode.id)]
            await api.downloads.fetch(replays[0], tmp_path / "again")
            assert content(some.path, "replay") == plain(tmp_path / "again")
            short = await api.episodes.progress(asked.id, view="results")
            assert {row.id for row in short} == {row.id for row in detail.episodes}
            assert all(row.odd == () for row in (*things, *short))

            assert len(await api.episodes.list(policy="runner", with_replay=True, limit=5)) == 2
        async with client(platform, ben) as api:
            assert {row.id async for row in api.episodes.list(mine=True)} == {row.id for row in detail.episodes}


def plain(path: Path) -> bytes:
    return path.read_bytes()


def names(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def content(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        return archive.read(name)


def test_every_noun_is_a_resource() -> None:
    api = CoworldClient()
    nouns = [name for name in dir(type(api)) if isinstance(getattr(api, name, None), Resource)]
    assert len(nouns) == 25


async def test_variants_are_named_by_patterns(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann, _, world, first, second = await peopled(platform)
        async with client(platform, ann) as api:
            seats = [{"player": {"policy_ref": name}} for name in (first, second)]
            for target in ({"coworld_id": world.id}, {"target": {"division_id": world.division}}):
                made = await api.experience.create_each({**target, "variant_id": "du*", "roster": seats})
                assert [row.variant_id for row in made] == ["duel"]
            (made,) = await api.experience.create_each({**target, "variant_id": "duel", "roster": seats})
            assert made.variant_id == "duel"
            with pytest.raises(UsageError, match="whose variants"):
                await api.experience.create_each({"variant_id": "*", "roster": seats})
            lobby = await api.lobbies.create(world.league, variant="f*")
            assert lobby.variant_id == "four"
            with pytest.raises(UsageError, match=r"No variant of .* matches") as none:
                await api.hosted.create(world.id, variant="x*")
            with pytest.raises(UsageError, match="and one is needed: duel and four") as several:
                await api.lobbies.create(world.league, variant="*")
            assert (none.value.code, several.value.code) == ("unknown_variant", "several_variants")


async def test_a_lobby_from_the_draft_to_its_end(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        ann, ben, world, _, _ = await peopled(platform)
        # Whatever gets lost on the way, each of them happens once
        async with client(platform, ann, Fault("lost", method="POST")) as host, client(platform, ben) as guest:
            seats = [LobbySeatBody.parse("1:human_open"), LobbySeatBody.parse(f"2:league_player:{ben.id}")]
            lobby = await host.lobbies.create(world.league, players=3, seats=seats, overrides={"seed": 2})
            assert (lobby.odd, str(lobby.status), lobby.revision, lobby.host_name) == ((), "draft", 1, "ann")
            assert [seat.kind for seat in lobby.seats] == ["human", "human_open", "league_player", "closed"]
            taken = await guest.lobbies.claim(lobby.id, 1)
            assert [seat.is_me for seat in taken.seats] == [False, True, False, False]
            assert [seat.can_remove for seat in (await host.lobbies.get(lobby.id)).seats] == [True, True, False, False]
            with pytest.raises(Conflict, match="is at revision 2, and"):
                await host.lobbies.seat(lobby.id, 3, "random", revision=1)
            with pytest.raises(Forbidden, match=r"Only the host of the lobby .*, ann, may"):
                await guest.lobbies.start(lobby.id)
            await guest.lobbies.leave(lobby.id)
            with pytest.raises(Conflict, match="Seat 1 is still open"):
                await host.lobbies.start(lobby.id)
            await host.lobbies.seat(lobby.id, 1, "random")
            started = await host.lobbies.start(lobby.id)
            assert started.odd == ()
            assert started.permissions.can_end_game
            assert started.session_id is not None
            seat = await host.hosted.join(started.session_id)
            assert (seat.slot, seat.player_url is None) == (0, False)
            ended = await host.lobbies.end(lobby.id)
            assert (str(ended.status), ended.status.is_terminal, ended.odd) == ("ended", True, ())
            other = await host.lobbies.create(world.league)
            assert str((await host.lobbies.cancel(other.id)).status) == "cancelled"
            with pytest.raises(NotFound):
                await host.lobbies.get("lby_none")


@pytest.mark.timeout(300)
async def test_roles_are_run_waited_for_and_fetched(tmp_path: Path) -> None:
    subject = with_roles(
        tmp_path / "quick",
        ("grader", "margin", "measures"),
        ("grader", "broken", "fails"),
        ("reporter", "summary", "reports"),
    )
    async with open_platform(tmp_path, packages=[subject.directory]) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id, subject=subject, league=False)
        await platform.policy(ann, "left")
        async with client(platform, ann, Fault("lost", method="POST", path="role-runs$")) as api:
            asked = await api.experience.create({"coworld_id": world.id, "roster": roster("left", "left")})
            [episode] = (await api.experience.wait(asked.id)).episodes
            with pytest.raises(Unprocessable, match="margin and broken"):
                await api.role_runs.create(episode, "grader")
            seen: list[RoleRun] = []
            made = await api.role_runs.create(episode, "grader", runnable_id="margin")
            grade = await api.role_runs.wait(made.id, on_change=seen.append)
            assert (str(grade.status), grade.answer["score"], seen[-1]) == ("completed", 0.25, grade)
            bad = await api.role_runs.create(episode.id, "grader", runnable_id="broken")
            bad = await api.role_runs.wait(bad.id)
            assert (str(bad.status), bad.error_type, "I cannot go on" in (bad.log_tail or "")) == (
                "failed",
                "program_error",
                True,
            )
            report = await api.role_runs.wait((await api.role_runs.create(episode, "reporter")).id)
            runs = await api.role_runs.list(episode)
            assert runs == [grade, bad, report]

            written = await api.role_runs.download_output(grade, tmp_path / "grade.json")
            assert json.loads(written.path.read_bytes())["score"] == 0.25
            with pytest.raises(NotFound, match="has failed"):
                await api.role_runs.download_output(bad.id, tmp_path / "bad.json")
            fetched = await api.role_runs.download_output(report, tmp_path / "report.zip")
            assert (fetched.size, "page.html" in names(fetched.path)) == (report.output_size, True)

            [reporter] = await api.reporters.list(text="summary", author="ann")
            assert await api.reporters.list(mode="external") == []
            [output] = await api.reporters.outputs(reporter.id)
            detail = await api.reporters.get(reporter.id)
            assert (detail.latest_output, output.reporter_run_id) == (output, report.id)
            again = await api.reporters.download(output, tmp_path / "again.zip")
            assert again.path.read_bytes() == fetched.path.read_bytes()
            for row in (*runs, reporter, detail, output):
                assert row.odd == (), f"{type(row).__name__}: {row.odd}"
