"""Labels at the command line: given, changed and searched for on a platform, also on one that keeps none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import pytest
from click.testing import Result
from support.fake_platform import COWORLD, EPISODE, EXPERIENCE, LOBBY, FakePlatform, uid
from support.fake_server import json_say

from coworld_cli import exitcodes

Run = Callable[..., Result]

XREQ, EREQ, COW = str(EXPERIENCE["id"]), str(EPISODE["id"]), str(COWORLD["id"])
ROWS = [{"exp": "ab", "n": "1"}, {"exp": "b"}, {}]
LISTS = {
    "episodes": ("/v2/episode-requests", EPISODE),
    "xp-request list": ("/v2/experience-requests", EXPERIENCE),
    "policies list": ("/stats/policy-versions", {"id": uid(4), "name": "painter", "version": 3}),
    "list": ("/v2/coworlds", COWORLD),
}


@pytest.mark.parametrize("command", LISTS)
def test_lists_are_searched_even_if_the_server_does_not(command: str, run: Run, told: FakePlatform) -> None:
    path, row = LISTS[command]
    told.on("GET", path, [{**row, "id": uid(n), "tags": tags} for n, tags in enumerate(ROWS)])
    result = run(*command.split(), "--label", "exp=a*", "--label", "n", "--json")
    assert result.exit_code == 0, result.output
    answer: Any = json.loads(result.stdout)
    found: list[dict[str, Any]] = answer["entries"] if command.startswith("xp") else answer
    assert [one["id"] for one in found] == [uid(0)]
    asked = told.calls("GET", path)[-1]
    assert parse_qs(asked.target.partition("?")[2])["tags"] == ["exp=a*", "n=*"]


@pytest.mark.parametrize("command", LISTS)
def test_a_platform_without_labels_does_not_seem_to_search(command: str, run: Run, told: FakePlatform) -> None:
    path, row = LISTS[command]
    told.on("GET", path, [row])
    result = run(*command.split(), "--label", "exp=a")
    assert (result.exit_code, result.stdout) == (exitcodes.USAGE, "")
    assert "keeps no labels here, so nothing can be found by them" in result.stderr


@pytest.mark.parametrize("command", [*LISTS, "xp-request create -", "hosted-game create COW", "label COW"])
def test_what_is_no_label_is_refused_before_anything_is_sent(command: str, run: Run, told: FakePlatform) -> None:
    words = command.replace("COW", COW).split()
    wrong = ["a b=c"] if command.startswith("label") else ["--label", "a b=c"]
    result = run(*words, *wrong, input="{}")
    assert result.exit_code == exitcodes.USAGE
    assert "'a b' cannot be the name of a label." in result.stderr
    assert told.asked == []


def test_labels_of_a_request_are_sent_and_shown(run: Run, told: FakePlatform) -> None:
    body = {"coworld_id": COW, "roster": [{"player": {"random": True}}], "tags": {"exp": "old", "n": "1"}}
    told.on("POST", "/v2/experience-requests", {**EXPERIENCE, "tags": {"exp": "a", "n": "1"}})
    result = run("xp-request", "create", "-", "--label", "exp=a", input=json.dumps(body))
    assert "Labels:              exp=a, n=1" in result.stdout
    (asked,) = told.asked
    assert asked.json == {**body, "tags": {"exp": "a", "n": "1"}}
    # A platform that keeps none says so by not telling them
    told.on("POST", "/v2/experience-requests", EXPERIENCE)
    result = run("xp-request", "create", "-", "--label", "exp=a", input=json.dumps(body))
    assert result.exit_code == 0
    assert "keeps no labels: those that were given are lost" in result.stderr


def test_labels_of_a_hosted_game(run: Run, told: FakePlatform) -> None:
    told.on("POST", "/v2/coworlds/play/session", {"session_id": "cps_1", "player_count": 2, "tags": {"exp": "a"}})
    assert "exp=a" in run("hosted-game", "create", COW, "--label", "exp=a").stdout
    assert told.asked[-1].json["tags"] == {"exp": "a"}
    told.on("POST", "/v2/coworlds/play/session", {"session_id": "cps_1", "player_count": 2})
    assert "keeps no labels" in run("hosted-game", "create", COW, "--label", "exp=a").stderr


def test_labels_of_a_lobby(run: Run, told: FakePlatform) -> None:
    league, place = f"league_{uid(7)}", f"/v2/leagues/league_{uid(7)}/lobbies"
    told.on("POST", place, {**LOBBY, "tags": {"exp": "a"}})
    assert "exp=a" in run("lobby", "create", league, "--label", "exp=a").stdout
    assert told.asked[-1].json["tags"] == {"exp": "a"}
    told.on("POST", place, LOBBY)
    assert "keeps no labels" in run("lobby", "create", league, "--label", "exp=a").stderr
    run("lobby", "create", league)
    assert "tags" not in told.asked[-1].json


def test_labels_are_changed(run: Run, told: FakePlatform) -> None:
    told.on("GET", "/stats/policy-versions", [{"id": uid(4), "name": "painter", "version": 3}])
    for thing, path in (
        (EREQ, f"/v2/episode-requests/{EREQ}/tags"),
        (XREQ, f"/v2/experience-requests/{XREQ}/tags"),
        (COW, f"/v2/coworlds/{COW}/tags"),
        (uid(4), f"/v2/policy-versions/{uid(4)}/tags"),
        ("painter:v3", f"/v2/policy-versions/{uid(4)}/tags"),
    ):
        told.on("PATCH", path, {"id": thing, "tags": {"exp": "b"}})
        assert run("label", thing, "exp=b", "why=").stdout == "exp=b\n"
        assert told.calls("PATCH", path)[-1].json == {"tags": {"exp": "b", "why": None}}
    assert json.loads(run("label", COW, "exp=b", "--json").stdout) == {"id": COW, "tags": {"exp": "b"}}


def test_what_has_no_labels_and_who_keeps_none(run: Run, told: FakePlatform) -> None:
    result = run("label", f"league_{uid(2)}", "exp=b")
    assert (result.exit_code, told.asked) == (exitcodes.USAGE, [])
    assert "is the id of a league, which has no labels" in result.stderr
    path = f"/v2/coworlds/{COW}/tags"
    told.on("PATCH", path, json_say({"detail": "Not Found"}, 404))
    result = run("label", COW, "exp=b")
    assert (result.exit_code, "keeps no labels that can be changed" in result.stderr) == (exitcodes.USAGE, True)
    told.on("PATCH", path, json_say({"detail": f"There is no Coworld {COW!r}."}, 404))
    result = run("label", COW, "exp=b")
    assert (result.exit_code, f"There is no Coworld {COW!r}." in result.stderr) == (exitcodes.REMOTE, True)
