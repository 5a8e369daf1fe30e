"""The operator's lists: search, pages, and the forms that create accounts and leagues."""

from __future__ import annotations

import datetime as dt
import html
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import sqlalchemy as sa
from support.observatory import Inside, inside
from support.uploads import upload_coworld, upload_policy

from observatory.identity.accounts import find_user, make_account
from observatory.store.audit import audit_lines
from observatory.store.models import Coworld, EpisodeRequest, League, User
from observatory.work.league_settings import LeagueSettings
from observatory.work.seasons import CONTINUOUS

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


@dataclass
class Desk:
    """An operator's browser."""

    platform: Inside
    token: str
    headers: dict[str, str]

    async def text(self, path: str, **params: str) -> str:
        """A page without its tags, as one line."""
        answer = await self.platform.http.get(f"/operator/{path}", params=params, headers=self.headers)
        assert answer.status_code == 200, (path, answer.text)
        return words(answer)

    async def send(self, path: str, **form: str) -> httpx2.Response:
        return await self.platform.http.post(f"/operator/{path}", data=form, headers=self.headers)


def words(answer: httpx2.Response) -> str:
    """What a page says, as one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


@asynccontextmanager
async def desk_of(tmp_path: Path, database: str | None = None) -> AsyncGenerator[Desk]:
    async with inside(tmp_path, database=database) as platform:
        token = await platform.add_user("boss", team=True)
        entered = await platform.http.post("/sign-in", data={"token": token}, headers=SAME_ORIGIN)
        platform.http.cookies.clear()
        cookie = entered.headers["set-cookie"].partition(";")[0]
        yield Desk(platform, token, {**SAME_ORIGIN, "Cookie": cookie})


async def test_accounts_are_searched_and_turned_over(tmp_path: Path, database: str | None) -> None:
    async with desk_of(tmp_path, database) as desk:
        async with desk.platform.services.database.writing() as session:
            for at in range(103):
                await make_account(session, f"student {at}", email="Class-B@example.org" if at < 2 else None)
            (await find_user(session, "student 0")).quotas = {"stored": 20 * 2**30, "rows": None}
        first = await desk.text("accounts")
        assert "1–50 of 104" in first
        # The newest first
        assert "student 102" in first
        assert "student 52" not in first
        assert "51–100 of 104" in await desk.text("accounts", offset="50")
        last = await desk.text("accounts", offset="100")
        assert "stored 20 GiB, rows any" in last
        assert "stored 50 GiB, image 2 GiB" in last
        assert ("101–104 of 104" in last, "boss operator" in last, "Next" in last) == (True, True, False)
        assert "1–11 of 11" in await desk.text("accounts", q="Student 9")
        assert "1–2 of 2" in await desk.text("accounts", q="class-b@")
        # The address of the next page keeps what is searched for
        answer = await desk.platform.http.get("/operator/accounts?q=student", headers=desk.headers)
        assert 'href="?q=student&amp;state=&amp;offset=50"' in answer.text
        for nothing in ("%", "_", "nobody", "\0nobody"):
            assert "0 in all" in await desk.text("accounts", q=nothing)
        for offset in ("9" * 15, "-1", "x", "9" * 40):
            await desk.text("accounts", offset=offset)
        # A button leads back to the same part of the list
        done = await desk.send("user/disable?q=student+9&offset=0", name="student 9", reason="loud")
        assert done.headers["location"] == "/operator/accounts?q=student+9&offset=0"
        assert "loud" in await desk.text("accounts", q="student 9")
        assert (await desk.platform.http.get("/operator/none", headers=desk.headers)).status_code == 404


async def test_account_is_made_with_a_link_that_is_shown_once(tmp_path: Path) -> None:
    async with desk_of(tmp_path) as desk:
        made = await desk.send("user/invite", name=" Zoë ", email="zoe@example.org")
        assert made.status_code == 200
        [link] = re.findall(r"/invitations/[\w-]+", made.text)
        assert link not in await desk.text("accounts")
        # The same name again gives nobody a way into the account
        again = await desk.send("user/invite", name="Zoë", email="<b>@x")
        assert (again.status_code, "Zoë has an account already." in again.text) == (409, True)
        assert "/invitations/" not in again.text
        assert 'value="&lt;b&gt;@x"' in again.text
        assert (await desk.send("user/invite", name="Zo\u0451")).status_code == 422
        assert (await desk.send("user/invite", name="")).status_code == 422
        welcome = await desk.platform.http.post(link, headers=SAME_ORIGIN)
        assert "Welcome, Zoë" in words(welcome)
        desk.platform.http.cookies.clear()
        assert (await desk.platform.http.post(link, headers=SAME_ORIGIN)).status_code == 410
        async with desk.platform.services.database.reading() as session:
            user = await session.scalar(sa.select(User).where(User.name == "Zoë"))
            assert user is not None
            assert (user.email, user.is_team) == ("zoe@example.org", False)
            lines = await audit_lines(session, user="Zoë")
        assert [(line["by"], line["action"]) for line in lines[:2]] == [
            ("boss", "account.made"),
            ("boss", "account.invited"),
        ]


async def test_league_is_made_as_at_the_command_line(tmp_path: Path) -> None:
    async with desk_of(tmp_path) as desk:
        assert "none is uploaded yet" in await desk.text("leagues")
        await upload_coworld(desk.platform, desk.token)
        form = {
            "name": "Autumn",
            "coworld": "paint-arena",
            "pairing": "round-robin",
            "minutes": "125.5",
            "rounds": "10",
            "entries_per_user": "2",
            "closes_at": "2026-12-24T18:00",
            "check": "true",
            "private": "true",
        }
        made = await desk.send("league/create", **form)
        assert made.headers["location"] == "/operator/leagues"
        shown = await desk.text("leagues", q="AUTUMN")
        assert "round-robin, a round every 2 h 5 min, season 1, 0 members" in shown
        async with desk.platform.services.database.reading() as session:
            league = (await session.scalars(sa.select(League))).unique().one()
        terms = LeagueSettings.of(league.commissioner_config)
        assert (league.public, league.commissioner_key, terms.every_seconds) == (False, CONTINUOUS, 7530)
        assert (terms.rounds, terms.entries_per_user, terms.check) == (10, 2, True)
        assert terms.closes_at == dt.datetime(2026, 12, 24, 18, tzinfo=dt.UTC)
        for wrong, said in (
            ({}, "already"),
            ({"name": "Winter", "coworld": "nothing"}, "There is no Coworld 'nothing' here."),
            ({"name": "Winter", "variant": "none"}, "has no variant 'none'"),
            ({"name": "Winter", "pairing": "none"}, "none"),
            ({"name": "Winter", "rounds": "0"}, "rounds: Input should be greater than or equal to 1"),
            ({"name": "Winter", "rounds": "some"}, "rounds: Input should be a valid integer"),
            ({"name": "Winter", "minutes": "soon"}, "'soon' is no number of minutes."),
            ({"name": "Winter", "minutes": "inf"}, "every_seconds: Input should be a finite number"),
            ({"name": "Winter", "minutes": "-1"}, "every_seconds: Input should be greater"),
            ({"name": "Winter", "closes_at": "x"}, "closes_at: "),
        ):
            refused = await desk.send("league/create", **{**form, **wrong})
            assert (refused.status_code, said in words(refused)) == (422, True), (wrong, words(refused))
            # What was typed is still there
            assert f'value="{wrong.get("name", "Autumn")}"' in refused.text
        plain = await desk.send("league/create", name="Winter", coworld="paint-arena", minutes="")
        assert plain.status_code == 303
        # Without minutes it plays no rounds
        assert "stands still, free-play, season 1" in await desk.text("leagues", q="winter")
        assert "1–2 of 2" in await desk.text("leagues", q="paint")


async def test_episodes_storage_policies_and_log_are_searched(tmp_path: Path, database: str | None) -> None:
    async with desk_of(tmp_path, database) as desk:
        ann = await desk.platform.add_user("ann")
        await upload_coworld(desk.platform, ann)
        await upload_policy(desk.platform, ann)
        began = dt.datetime.now(dt.UTC) - dt.timedelta(hours=3)
        async with desk.platform.services.database.writing() as session:
            owner, game = await session.scalar(sa.select(User.id).where(User.name == "ann")), Coworld.id
            coworld = await session.scalar(sa.select(game))
            for at in range(60):
                failed = at < 7
                session.add(
                    EpisodeRequest(
                        user_id=owner,
                        coworld_id=coworld,
                        own_config={},
                        index=at,
                        status="failed" if failed else "pending",
                        error_type="game_crashed" if failed else None,
                        error="It fell over. <b>" if failed else None,
                        attempts=2 if failed else 0,
                        started_at=began if failed else None,
                        completed_at=began + dt.timedelta(seconds=7500) if failed else None,
                    )
                )
        assert "1–50 of 54" in await desk.text("episodes")
        assert "51–54 of 54" in await desk.text("episodes", state="pending", offset="50")
        assert "0 in all" in await desk.text("episodes", state="running")
        shown = await desk.text("episodes", state="failed", q="FELL OVER")
        assert "1–7 of 7" in shown
        assert "game_crashed: It fell over. <b> after 2 h 5 min, 2 attempts" in shown
        for found in ("ann", "paint"):
            assert "1–7 of 7" in await desk.text("episodes", state="failed", q=found)
        assert "0 in all" in await desk.text("episodes", state="failed", q="eve")
        stored = await desk.text("storage", q="AN")
        assert "1–1 of 1" in stored
        assert re.search(r"images [\d.]+ (KiB|MiB|bytes) \(\d+\)", stored)
        assert "0 in all" in await desk.text("storage", q="eve")
        assert "racer:v1" in await desk.text("policies", q="ann")
        assert "0 in all" in await desk.text("policies", state="disabled")
        done = await desk.send("policy/disable?state=all", name="racer", reason="loud")
        assert done.headers["location"] == "/operator/policies?state=all"
        assert "with all its versions: loud" in await desk.text("policies", state="disabled")
        log = await desk.text("audit", q="policy.dis")
        assert ("1–1 of 1" in log, "reason loud" in log) == (True, True)
        assert "account.made" in await desk.text("audit", q="ANN")
        assert re.search(r"kind web, until \d{4}-\d\d-\d\d \d\d:\d\d UTC", await desk.text("audit", q="session.opened"))
        # The newest first
        every = await desk.text("audit")
        assert every.index("policy.disabled") < every.index("account.made")
