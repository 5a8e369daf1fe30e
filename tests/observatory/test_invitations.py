"""Inviting people: one by one or as a list, by links that work once."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
import sqlalchemy as sa
from support.observatory import Inside, inside

from observatory.cli import main
from observatory.identity.accounts import AccountError
from observatory.identity.invitations import Person, invite, invite_all, read_people
from observatory.operations.moderation import disable_user
from observatory.store.audit import audit_lines
from observatory.store.columns import now
from observatory.store.models import AuthCode, User

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


async def _invited(platform: Inside, name: str) -> str:
    async with platform.services.database.writing() as session:
        made = await invite(session, Person(name=name), days=14)
    assert made.code is not None
    return f"/invitations/{made.code}"


async def test_invitation_gives_a_token_once(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        place = await _invited(platform, "ann")
        # Whatever looks at links beforehand does not use them up
        for _ in range(2):
            assert "ann" in (await platform.http.get(place)).text
        assert (await platform.http.post(place, headers={"Sec-Fetch-Site": "cross-site"})).status_code == 403
        accepted = await platform.http.post(place, headers=SAME_ORIGIN)
        [token] = re.findall(r"obs_[\w-]+", accepted.text)
        assert (await platform.get("/whoami", token))["name"] == "ann"
        # The browser is signed in as well
        cookie = {"Cookie": accepted.headers["set-cookie"].partition(";")[0]}
        platform.http.cookies.clear()
        assert "invitation" in (await platform.http.get("/account", headers=cookie)).text
        for ask in (platform.http.get(place), platform.http.post(place, headers=SAME_ORIGIN)):
            assert (await ask).status_code == 410
        async with platform.services.database.reading() as session:
            actions = [line["action"] for line in await audit_lines(session, user="ann")]
        assert actions == ["account.made", "account.invited", "token.made", "session.opened"]
        # Who has lost the token is invited again, into the same account
        again = await platform.http.post(await _invited(platform, "ann"), headers=SAME_ORIGIN)
        [other] = re.findall(r"obs_[\w-]+", again.text)
        first = await platform.get("/whoami", token)
        assert (await platform.get("/whoami", other))["subject_id"] == first["subject_id"]


async def test_expired_invitation_and_disabled_account_are_refused(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        old, closed = await _invited(platform, "ann"), await _invited(platform, "bob")
        async with platform.services.database.writing() as session:
            ann = sa.select(User.id).where(User.name == "ann").scalar_subquery()
            await session.execute(sa.update(AuthCode).where(AuthCode.user_id == ann).values(expires_at=now()))
            await disable_user(session, "bob")
        assert (await platform.http.get(old)).status_code == 410
        assert (await platform.http.post(old, headers=SAME_ORIGIN)).status_code == 410
        refused = await platform.http.post(closed, headers=SAME_ORIGIN)
        assert (refused.status_code, "obs_" in refused.text) == (403, False)


async def test_list_is_invited_whole_or_not_at_all(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        await platform.add_user("ann")
        wrong = [Person(name=name) for name in ("bob", "go\u043ed", "bob", "ann", "B-o-b")]
        with pytest.raises(AccountError) as refused:
            async with platform.services.database.writing() as session:
                await invite_all(session, wrong, days=1)
        assert len(refused.value.message.splitlines()) == 3
        assert "in the list twice" in refused.value.message
        async with platform.services.database.writing() as session:
            assert (await session.scalars(sa.select(User.name))).all() == ["ann"]
            made = await invite_all(session, [Person(name="ann"), Person(name="bob", team=True)], days=1)
        assert [(one.user.name, one.user.is_team, one.code is None) for one in made] == [
            ("ann", False, True),
            ("bob", True, False),
        ]


@pytest.mark.parametrize(
    "text",
    [
        "name,email,team\nAda L.,ada@example.org,yes\n\nbob,,\n",
        "\ufeffName;Team;Email\r\n Ada L. ;X;ada@example.org\r\nbob;no;\r\n",
    ],
)
def test_list_is_read_as_spreadsheets_write_it(text: str) -> None:
    ada = Person(name="Ada L.", email="ada@example.org", team=True)
    assert read_people(text.encode()) == [ada, Person(name="bob")]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "has no column `name`"),
        (b"ann\nbob\n", "has no column `name`"),
        (b"name,role\nann,x\n", "unknown columns: role"),
        (b"name,team\nann,perhaps\n,yes\n", "Line 2: 'perhaps' is neither yes nor no.\nLine 3: the name is missing."),
        (b"name\nann,x\n", "Line 2 has more cells than the first."),
        (b"name\nAnn\xe9\n", "not in UTF-8"),
    ],
)
def test_list_that_is_wrong_says_where(data: bytes, said: str) -> None:
    with pytest.raises(AccountError) as refused:
        read_people(data)
    assert said in refused.value.message


@pytest.mark.slow
def test_import_writes_a_list_of_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people, links = tmp_path / "class.csv", tmp_path / "links.csv"
    people.write_text("name,email\nann,ann@example.org\nbob,\n")
    where = ("--data", str(tmp_path / "o"), "--url", "https://arena.example.org/")

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as left:
            main(("user", *words, *where))
        assert left.value.code == 0
        return capsys.readouterr().out

    assert run("import", str(people), "--to", str(links)) == ""
    assert links.stat().st_mode & 0o777 == 0o600
    rows = list(csv.DictReader(links.read_text().splitlines()))
    assert [(row["name"], row["email"]) for row in rows] == [("ann", "ann@example.org"), ("bob", "")]
    assert all(row["link"].startswith("https://arena.example.org/invitations/obc_") for row in rows)
    assert [one["link"] for one in json.loads(run("import", str(people), "--json"))["items"]] == [None, None]
    assert run("invite", "ann").startswith("https://arena.example.org/invitations/obc_")
