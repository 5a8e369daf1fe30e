"""Names that people give: which are refused, which can be taken for another's, and that every route asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from support.observatory import Inside, inside
from support.uploads import manifest_for, upload_coworld, upload_image, upload_policy

from observatory.api.leagues import create_league
from observatory.app import document
from observatory.names import NameRefused, look_alike, new_name
from observatory.store.models import Policy

_GOOD = {
    "bot": "bot",
    " my bot-2_v1.0 ": "my bot-2_v1.0",
    "Åsa": "Åsa",
    "A\u030asa": "Åsa",
    "ＢＯＴ": "BOT",
    "спринтер-2": "спринтер-2",
    "東京タワー bot": "東京タワー bot",
    "한국 bot": "한국 bot",
    "ㄅㄆ bot": "ㄅㄆ bot",
    "हिन्दी": "हिन्दी",
    "Tiếng Việt": "Tiếng Việt",
    "\U0001f916": "\U0001f916",
    "x" * 100: "x" * 100,
}
_BAD = {
    "": "The name is empty",
    " \t": "The name is empty",
    "x" * 101: "101 characters",
    "a\nb": r"U\+000A CONTROL CHARACTER",
    "a\x1b[2Jb": r"U\+001B CONTROL CHARACTER",
    "a\u202eb": r"U\+202E RIGHT-TO-LEFT OVERRIDE",
    "a\u200bb": r"U\+200B ZERO WIDTH SPACE",
    "a\u2028b": r"U\+2028 LINE SEPARATOR",
    "a\u0378b": r"U\+0378 UNASSIGNED",
    "a\ue000b": r"U\+E000 UNASSIGNED",
    "a\u3164b": r"U\+1160 HANGUL JUNGSEONG FILLER",
    "a\ufe0fb": r"U\+FE0F VARIATION SELECTOR-16",
    "\u0301a": r"U\+0301 COMBINING ACUTE ACCENT",
    "a" + "\u0363" * 4: r"U\+0363 COMBINING LATIN SMALL LETTER A",
    "go\u043ed-bot": r"Latin and Cyrillic: U\+043E CYRILLIC SMALL LETTER O",
    "\u03b1lpha": r"Greek and Latin: U\+03B1 GREEK SMALL LETTER ALPHA",
    "한국あ": r"Hangul and Hiragana: U\+3042",
    "-_.": "only punctuation",
}


@pytest.mark.parametrize(("text", "kept"), _GOOD.items(), ids=ascii)
def test_good_names_are_kept_in_their_normal_form(text: str, kept: str) -> None:
    assert new_name(text) == kept
    assert new_name(kept) == kept


@pytest.mark.parametrize(("text", "said"), _BAD.items(), ids=ascii)
def test_bad_names_are_refused_by_character(text: str, said: str) -> None:
    with pytest.raises(NameRefused, match=said) as refused:
        new_name(text)
    assert refused.value.code == "bad_name"
    assert refused.value.hint
    assert refused.value.message.isprintable()


_ALIKE = ("Sprinter", "ѕprіnter", "ＳＰＲＩＮＴＥＲ", "spr1nter", "sprlnter", "Sprínter", "sprin ter", "sprin–ter")


@pytest.mark.parametrize("name", _ALIKE, ids=ascii)
def test_names_that_look_the_same_are_found(name: str) -> None:
    assert look_alike(name, ["runner", "sprinter"]) == "sprinter"
    assert look_alike(name, ["printer", "sprinters", "sprinter 2", "спринтер"]) is None


def test_one_letter_that_looks_like_two_is_found() -> None:
    assert look_alike("Modern", ["rnodern"]) == "rnodern"
    assert look_alike("ORNATE", ["omate"]) == "omate"


_NAMED: dict[str, dict[str, Any]] = {
    "POST /players": {"name": "$"},
    "POST /credentials/tokens": {"name": "$"},
    "POST /v2/teams": {"name": "$"},
    "POST /stats/policies/docker-img/complete": {"name": "$", "container_image_id": "$image"},
    "POST /stats/policies/files": {
        "name": "$",
        "player": {"file": "a", "files": {"a": "aGk="}, "command": ["{}/a"]},
    },
    "POST /v2/container_images/upload": {"name": "$", "client_hash": "sha256:x"},
    "POST /v2/coworlds/upload": {"manifest": "$manifest"},
    "POST /v2/coworld-league-seeds": {"coworld_name": "paint_arena", "league_name": "$"},
    "PATCH /v2/coworld-league-seeds/{seed_id}": {"league_name": "$"},
}
"""Every route that gives something a name, and what it is sent."""
_OTHERS = {"POST /v2/coworlds/patch-commissioner"}
"""Routes whose bodies refer to something by its name."""


def test_the_table_has_every_route_that_takes_a_name() -> None:
    said = document("http://127.0.0.1")
    schemas = said["components"]["schemas"]
    found: set[str] = set()
    for path, methods in said["paths"].items():
        for method, route in methods.items():
            body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            fields = schemas.get(body.get("$ref", "").rpartition("/")[2], {}).get("properties", {})
            if any(field == "manifest" or field == "name" or field.endswith("_name") for field in fields):
                found.add(f"{method.upper()} {path.removeprefix('/observatory')}")
    assert found - _OTHERS == set(_NAMED)


@pytest.mark.parametrize(("name", "said"), [("a\u202eb", "U+202E RIGHT-TO"), ("go\u043ed", "U+043E CYRILLIC")])
async def test_every_route_refuses_a_broken_name(name: str, said: str, tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        admin = await platform.add_user("admin", team=True)
        image = (await upload_image(platform, admin))["id"]
        await upload_coworld(platform, admin)
        seed = await platform.post("/v2/coworld-league-seeds", admin, {"coworld_name": "paint_arena"})
        words = {"$": name, "$image": image, "$manifest": manifest_for(image, name=name)}
        for route, body in _NAMED.items():
            method, path = route.split()
            sent = {key: words.get(value, value) if isinstance(value, str) else value for key, value in body.items()}
            path = path.replace("{seed_id}", seed["id"])
            refused = (await platform.ask(method, path, admin, json=sent, expect=422)).json()
            assert refused["type"] == "bad_name", route
            assert said in refused["detail"], route
        with pytest.raises(NameRefused, match=said.replace("+", r"\+")):
            await platform.add_user(name)
        async with platform.services.database.writing() as session:
            with pytest.raises(NameRefused, match=said.replace("+", r"\+")):
                await create_league(session, name, coworld="paint_arena")


async def test_a_policy_may_be_called_like_others_but_not_like_an_account(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        teacher, eve = await platform.add_user("teacher"), await platform.add_user("eve")
        for name in ("teacher", "Teacher", "t-e-a-c-h-e-r"):
            image = await upload_image(platform, eve)
            body = {"name": name, "container_image_id": image["id"]}
            refused = await platform.ask("POST", "/stats/policies/docker-img/complete", eve, json=body, expect=409)
            assert refused.json()["type"] == "name_taken"
            assert "can be taken for the user 'teacher'" in refused.json()["detail"]
        for token in (teacher, eve):
            assert (await upload_policy(platform, token, "bot"))["version"] == 1
        for token, own in ((teacher, "teacher"), (eve, "Eve")):
            assert (await upload_policy(platform, token, own))["name"] == own
        # One name, however it is typed
        assert (await upload_policy(platform, eve, "\uff22\uff4f\uff54"))["name"] == "Bot"
        assert (await upload_policy(platform, eve, "Bot"))["version"] == 2


async def test_a_policy_that_stands_keeps_its_name(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        eve = await platform.add_user("eve")
        await platform.add_user("teacher")
        made = await upload_policy(platform, eve)
        image = (await upload_image(platform, eve))["id"]
        for former in ("go\u043ed-bot", "teacher"):
            async with platform.services.database.writing() as session:
                await session.execute(sa.update(Policy).values(name=former))
            body = {"name": former, "container_image_id": image}
            more = await platform.post("/stats/policies/docker-img/complete", eve, body)
            assert (more["name"], more["version"]) == (former, made["version"] + 1)
            made = more
        assert {row["name"] for row in (await platform.get("/stats/policy-versions", eve))["entries"]} == {former}


async def test_coworlds_and_leagues_may_not_look_like_others(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, eve = await platform.add_user("ann", team=True), await platform.add_user("eve")
        await upload_coworld(platform, ann)

        async def refused(token: str, name: str, status: int) -> Any:
            image = await upload_image(platform, token)
            body = {"manifest": manifest_for(image["id"], name=name)}
            return (await platform.ask("POST", "/v2/coworlds/upload", token, json=body, expect=status)).json()

        assert (await refused(eve, "paint arena", 409))["type"] == "name_taken"
        assert (await refused(eve, "ＰＡＩＮＴ", 422))["detail"].endswith("Write it as 'PAINT'.")
        await refused(ann, "paint arena", 200)
        await _seed(platform, ann, "Term 10", 200)
        assert (await _seed(platform, ann, "term lO", 409))["type"] == "name_taken"
        seed = await _seed(platform, ann, "Term 2", 200)
        path = f"/v2/coworld-league-seeds/{seed['id']}"
        taken = await platform.ask("PATCH", path, ann, json={"league_name": "Term-10"}, expect=409)
        assert taken.json()["type"] == "name_taken"
        # Its own name in other letters is free
        changed = await platform.ask("PATCH", path, ann, json={"league_name": "TERM 2"})
        assert changed.json()["league_name"] == "TERM 2"


async def _seed(platform: Inside, token: str, name: str, status: int) -> Any:
    body = {"coworld_name": "paint_arena", "league_name": name}
    return (await platform.ask("POST", "/v2/coworld-league-seeds", token, json=body, expect=status)).json()
