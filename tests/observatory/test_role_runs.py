"""Graders, reporters and diagnosers on a platform: by request and after rounds, who sees what they say, and crashes."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from support.observatory import until_committed
from support.observatory_kit import Account, Platform, open_platform, roster, seed, until_over
from support.quick_roles import with_roles

from observatory.api.leagues import LeagueError, change_league_settings
from observatory.operations.retention import prune
from observatory.settings import Retention
from observatory.store.models import Coworld, League, RoleRun, User
from observatory.work.queue import Queue

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROLES = (
    ("grader", "margin", "measures"),
    ("grader", "broken", "fails"),
    ("reporter", "summary", "reports"),
    ("reporter", "caller", "calls"),
    ("diagnoser", "edges", "diagnoses"),
)


async def ended(platform: Platform, run: dict[str, Any]) -> RoleRun:
    """The row of a run, once it is over."""

    async def over() -> RoleRun | None:
        async with platform.services.database.reading() as session:
            row = await session.get_one(RoleRun, run["id"])
            return row if row.status not in ("pending", "running") else None

    return await until_committed(over, seconds=300)


async def asked(client: httpx2.AsyncClient, episode: str, role: str, **more: Any) -> httpx2.Response:
    return await client.post(f"/v2/episode-requests/{episode}/role-runs", json={"role": role, **more})


async def got(platform: Platform, account: Account | None, episode: str) -> list[dict[str, Any]]:
    async with platform.client(account) as client:
        answer = await client.get(f"/v2/episode-requests/{episode}/role-runs")
        assert answer.status_code == 200, answer.text
        return answer.json()


async def test_who_asks_gets_what_she_may_see_and_nobody_else(tmp_path: Path, database: str | None) -> None:
    subject = with_roles(tmp_path / "quick", *ROLES)
    async with open_platform(tmp_path, packages=[subject.directory], database=database) as platform:
        ann, bob, eve = [await platform.account(name) for name in ("ann", "bob", "eve")]
        world = await seed(platform.services, ann.id, subject=subject)
        versions = [await platform.policy(ann, "left"), await platform.policy(bob, "right")]
        for version in versions:
            await platform.join(world, version)
        async with platform.services.database.writing() as session:
            await change_league_settings(session, world.league, terms={"grade": True})
        row = await platform.until_played(await platform.play_round(world, *versions))
        assert row.status == "completed"

        # The league grades by itself, and a grader that fails harms nothing
        first = await got(platform, None, row.id)
        assert [(run["role"], run["runnable_id"], run["automatic"]) for run in first] == [
            ("grader", "margin", True),
            ("grader", "broken", True),
        ]
        good, bad = [await ended(platform, run) for run in first]
        assert (good.status, good.score, good.answer["scale"]) == ("completed", 0.25, "1: as close as can be")  # type: ignore[index]
        assert good.answer["given"] == ["logs/game.log", "metadata.json", "replay", "results.json"]  # type: ignore[index]
        shown = (await got(platform, None, row.id))[1]
        assert (bad.status, shown["error_type"]) == ("failed", "program_error")
        assert "status 3" in shown["error"]
        assert "I cannot go on" in shown["log_tail"]

        async with platform.client(ann) as anns, platform.client(bob) as bobs, platform.client(eve) as eves:
            for client, role, more, status, words in (
                (eves, "grader", {"runnable_id": "margin"}, 403, "members of its league"),
                (anns, "grader", {}, 422, "margin and broken"),
                (anns, "grader", {"runnable_id": "other"}, 422, "No 'other'"),
                (anns, "diagnoser", {}, 422, "give its slot"),
                (anns, "diagnoser", {"position": 1}, 403, "Only the owner"),
                (anns, "diagnoser", {"position": 7}, 422, "no slot 7"),
                (anns, "reporter", {"position": 0, "runnable_id": "summary"}, 422, "whole episode"),
                (anns, "grader", {"private": True, "runnable_id": "margin"}, 422, "Only a reporter"),
            ):
                refused = await asked(client, row.id, role, **more)
                assert (refused.status_code, words in refused.text) == (status, True), refused.text
            # What is done is not done again
            again = await asked(anns, row.id, "grader", runnable_id="margin")
            assert (again.json()["id"], again.json()["status"]) == (good.id, "completed")
            public = (await asked(bobs, row.id, "reporter", runnable_id="summary")).json()
            private = (await asked(bobs, row.id, "reporter", runnable_id="summary", private=True)).json()
            told = (await asked(anns, row.id, "diagnoser", position=0)).json()
            refused_page = (await asked(anns, row.id, "reporter", runnable_id="caller")).json()
            assert (public["slots"], private["slots"], told["slots"]) == ([], [1], [0])
            assert [(await ended(platform, run)).status for run in (public, private, told)] == ["completed"] * 3
            assert (await ended(platform, refused_page)).error_type == "output_refused"

            # Each report says what it was given
            for client, run, entry, given in (
                (eves, public, "page.html", "game_logs: replay: results:"),
                (bobs, private, "page.html", "game_logs: player_logs:1 replay: results:"),
                (anns, told, "diagnosis.md", "given logs/game.log, logs/policy_agent_0.log, metadata.json"),
            ):
                answer = await client.get(f"/v2/role-runs/{run['id']}/output")
                assert answer.headers["content-type"] == "application/zip"
                with zipfile.ZipFile(io.BytesIO(answer.content)) as report:
                    assert given in report.read(entry).decode()
            grade = await eves.get(f"/v2/role-runs/{good.id}/output")
            assert json.loads(grade.content)["score"] == 0.25
            for client, run in ((anns, private), (eves, private), (bobs, told), (eves, told)):
                for path in ("", "/output"):
                    assert (await client.get(f"/v2/role-runs/{run['id']}{path}")).status_code == 404
        seen = {
            account.name if account else None: {run["id"] for run in await got(platform, account, row.id)}
            for account in (None, ann, bob, eve)
        }
        everybody = {good.id, bad.id, public["id"], refused_page["id"]}
        assert seen == {
            None: everybody,
            "eve": everybody,
            "ann": everybody | {told["id"]},
            "bob": everybody | {private["id"]},
        }

        # The catalogue has what everybody sees
        async with platform.client(eve) as eves:
            listed = (await eves.get("/v2/reporters", params={"q": "summary"})).json()
            [reporter] = listed
            assert (reporter["name"], reporter["run_count"], reporter["output_count"]) == ("quick-summary", 1, 1)
            shown = (await eves.get(f"/v2/reporters/{reporter['id']}")).json()
            [output] = (await eves.get(f"/v2/reporters/{reporter['id']}/outputs")).json()["entries"]
            assert shown["latest_output"] == output
            assert (output["reporter_run_id"], output["media_type"]) == (public["id"], "application/zip")
            assert (await eves.get(output["url"])).status_code == 200

        # What is not kept any longer is not shown; grades are
        gone = await prune(platform.services, Retention(days=0))
        assert gone["episodes"] == 1
        async with platform.client(bob) as bobs:
            assert (await bobs.get(f"/v2/role-runs/{private['id']}/output")).status_code == 410
            assert (await bobs.get(f"/v2/role-runs/{good.id}/output")).status_code == 200
            assert (await asked(bobs, row.id, "diagnoser", position=1)).status_code == 410


async def test_a_role_whose_worker_died_is_run_again_and_counts_for_its_account(tmp_path: Path) -> None:
    subject = with_roles(tmp_path / "quick", ("grader", "slow", "waits"))
    packages = [subject.directory]
    async with open_platform(tmp_path, packages=packages) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id, subject=subject, league=False)
        await platform.policy(ann, "left")
        async with platform.client(ann) as client:
            body = {"coworld_id": world.id, "roster": roster("left", "left")}
            made = (await client.post("/v2/experience-requests", json=body)).json()
            (episode,) = (await until_over(client, made["id"]))["episodes"]
            run = (await asked(client, episode["id"], "grader")).json()

            async def begun() -> RoleRun | None:
                async with platform.services.database.reading() as session:
                    row = await session.get_one(RoleRun, run["id"])
                    return row if row.status == "running" else None

            first = await until_committed(begun, seconds=300)
        worker = platform.services.runtime.worker
        assert worker is not None
        worker.options = replace(worker.options, grace=0.1)
        async with platform.services.database.writing() as session:
            await session.execute(sa.update(User).where(User.id == ann.id).values(quotas={"episodes": 1}))
        async with platform.client(ann) as client:
            body = {"coworld_id": world.id, "roster": roster("left", "left")}
            full = await client.post("/v2/experience-requests", json=body)
            assert full.status_code == 429, full.text
    # The platform has ended while the grader ran, which is no attempt
    (subject.directory / "roles.py").write_text(
        (subject.directory / "roles.py").read_text().replace('while behaviour == "waits"', "while False")
    )
    async with open_platform(tmp_path, packages=packages) as platform:
        row = await ended(platform, run)
        assert (row.status, row.score, row.attempts) == ("completed", 0.25, 1)
        assert row.run_id != first.run_id
        # An upload with a command of its own does not run where nothing is isolated
        async with platform.services.database.writing() as session:
            coworld = await session.get_one(Coworld, world.id)
            [wild] = coworld.manifest["grader"]
            coworld.manifest = {**coworld.manifest, "grader": [{**wild, "run": ["python3", "-c", "0"]}]}
        async with platform.client(ann) as client:
            other = (await asked(client, episode["id"], "grader")).json()
        assert other["id"] != run["id"]
        refused = await ended(platform, other)
        assert refused.error is not None
        assert "is not declared by any package on this machine" in refused.error
        # A worker that is killed: its lease ends, and another takes over, three times in all
        async with platform.services.database.writing() as session:
            lost = await session.get_one(RoleRun, run["id"])
            lost.status, lost.attempts, lost.lease_token, lost.lease_owner = "running", 3, "t", "killed"
            lost.lease_expires_at = lost.created_at
        [taken] = await Queue(platform.services.database, owner="other").expire()
        assert run["id"] in taken.what
        row = await ended(platform, run)
        assert (row.status, row.error_type) == ("failed", "crash")


async def test_a_league_wants_only_what_its_game_has(tmp_path: Path) -> None:
    subject = with_roles(tmp_path / "quick", ("grader", "margin", "measures"))
    async with open_platform(tmp_path, backend="none", packages=[subject.directory]) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id, subject=subject)
        async with platform.services.database.writing() as session:
            with pytest.raises(LeagueError, match="declares no reporter"):
                await change_league_settings(session, world.league, terms={"report": True})
            league = await change_league_settings(session, world.league, terms={"grade": True})
            assert isinstance(league, League)
