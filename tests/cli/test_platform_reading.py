"""Reading a platform at the command line: what is asked, what is shown, and what programs get."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from support.cli_kit import Terminal
from support.fake_platform import (
    COWORLD,
    DIVISION,
    EVENT,
    EXPERIENCE,
    IMAGE,
    LEAGUE,
    MEMBERSHIP,
    PLAYER,
    RESULT,
    ROUND,
    SUBMISSION,
    VERSION,
    FakePlatform,
    episode,
    uid,
)
from support.fake_server import Ask, Say, json_say, nobody_there

from coworld_cli import exitcodes

Run = Callable[..., Result]


def rows_of(result: Result) -> list[list[str]]:
    """The cells of a table, its heading first."""
    import re

    return [re.split(r" {2,}", line.strip()) for line in result.stdout.splitlines()]


# --- lists ----------------------------------------------------------------------------------------------------------

LISTS: list[tuple[str, str, dict[str, Any], list[str], list[str]]] = [
    (
        "leagues",
        "/v2/leagues",
        LEAGUE,
        ["ID", "Name", "Game", "Public", "Created"],
        [LEAGUE["id"], "Open", "Paint Arena", "yes", "2026-11-01 12:30"],
    ),
    (
        "divisions",
        "/v2/divisions",
        DIVISION,
        ["ID", "Name", "Level", "League", "Created"],
        [DIVISION["id"], "First", "1", "Open", "2026-11-01 12:30"],
    ),
    (
        "policies list",
        "/stats/policy-versions",
        {"id": uid(4), "name": "painter", "version": 3, "tags": {"net": "big", "exp": "a"}},
        ["ID", "Policy", "Uploaded", "What", "Of", "Labels", "Disabled"],
        [uid(4), "painter:v3", "-", "-", "-", "net=big, exp=a", "-"],
    ),
    (
        "memberships",
        "/v2/league-policy-memberships",
        {**MEMBERSHIP, "substatus": "benched", "reason": "It could not be played."},
        ["ID", "Player", "Policy", "Division", "Status", "Substatus", "Reason"],
        [MEMBERSHIP["id"], "Ada", "painter:v3", "First", "competing", "benched", "It could not be played."],
    ),
    (
        "submissions",
        "/v2/league-submissions",
        SUBMISSION,
        ["ID", "Status", "Player", "Policy", "League", "Membership"],
        [SUBMISSION["id"], "placed", "Ada", "painter:v3", "Open", MEMBERSHIP["id"]],
    ),
    (
        "events",
        "/v2/competition-events",
        EVENT,
        ["ID", "Type", "When", "Headline", "Summary"],
        ["1", "placed", "2026-11-01 12:30", "Placed", "painter was placed."],
    ),
    (
        "list",
        "/v2/coworlds",
        COWORLD,
        ["ID", "Name", "Version", "Canonical", "Size", "Manifest Hash"],
        [COWORLD["id"], "paint-arena", "1.2.0", "yes", "4.2 KiB", "abc123"],
    ),
    (
        "images",
        "/v2/container_images",
        IMAGE,
        ["ID", "Name", "Version", "Status", "Public URI"],
        [IMAGE["id"], "painter", "v2", "ready", "-"],
    ),
]


@pytest.mark.parametrize(("name", "path", "row", "head", "cells"), LISTS, ids=[entry[0] for entry in LISTS])
def test_lists_are_shown(
    name: str, path: str, row: dict[str, Any], head: list[str], cells: list[str], run: Run, told: FakePlatform
) -> None:
    told.on("GET", path, [{**row, "invented_later": [1]}])
    assert rows_of(run(*name.split())) == [head, cells]
    listed = json.loads(run(*name.split(), "--json").stdout)
    # A bare list of what the server sent, unknown fields too
    assert [entry["id"] for entry in listed] == [row["id"]]
    assert listed[0]["invented_later"] == [1]
    (line,) = run(*name.split(), "--jsonl").stdout.splitlines()
    assert json.loads(line) == listed[0]
    assert all(asked.headers["authorization"] == "Bearer token-of-ada" for asked in told.asked)


@pytest.mark.parametrize("name", [entry[0] for entry in LISTS])
def test_empty_list(name: str, run: Run, told: FakePlatform) -> None:
    told.on("GET", next(path for known, path, *_ in LISTS if known == name), [])
    result = run(*name.split())
    assert result.exit_code == 0
    assert result.stdout.startswith("There are no ")
    assert json.loads(run(*name.split(), "--json").stdout) == []
    assert run(*name.split(), "--jsonl").stdout == ""


def test_rounds_are_an_envelope(run: Run, told: FakePlatform) -> None:
    told.on("GET", "/v2/rounds", {"entries": [ROUND], "total_count": 7, "limit": 1, "offset": 2})
    result = run("rounds", "--limit", "1", "--offset", "2", "--status", "completed", "-l", str(LEAGUE["id"]))
    assert rows_of(result) == [
        ["ID", "#", "Status", "Division", "Started", "Completed"],
        [ROUND["id"], "4", "completed", "First", "2026-11-01 12:30", "-"],
    ]
    assert "1 round of 7 shown, from row 3 on; --all lists all of them." in result.stderr
    asked = told.calls("GET", "/v2/rounds")[0]
    assert asked.query["status"] == "completed"
    assert asked.query["league_id"] == LEAGUE["id"]
    assert asked.query["offset"] == "2"
    answer = json.loads(run("rounds", "--limit", "1", "--json").stdout)
    assert set(answer) == {"entries", "total_count", "limit", "offset", "next_cursor"}
    assert (answer["total_count"], answer["next_cursor"]) == (7, None)
    assert answer["entries"][0]["id"] == ROUND["id"]


@pytest.mark.parametrize(
    ("words", "path", "row", "published"),
    [
        (
            ("rounds",),
            "/v2/rounds",
            ROUND,
            "id round_number commissioner_key execution_backend round_config round_display status error started_at "
            "completed_at division created_at",
        ),
        (
            ("xp-request", "list"),
            "/v2/experience-requests",
            EXPERIENCE,
            "id requester_user_id requester coworld_id coworld_name coworld_version variant_id status episode_count "
            "pending_count submitted_count running_count completed_count failed_count error created_at started_at "
            "completed_at",
        ),
    ],
    ids=["rounds", "xp-request"],
)
def test_programs_written_for_published_clients_find_every_field(
    words: tuple[str, ...], path: str, row: dict[str, Any], published: str, run: Run, told: FakePlatform
) -> None:
    """Fields that the server leaves out are null there, and servers that page by cursor are followed by cursor."""
    told.on("GET", path, {"entries": [row], "next_cursor": "further"})
    answer = json.loads(run(*words, "--limit", "1", "--json").stdout)
    assert answer["next_cursor"] == "further"
    (entry,) = answer["entries"]
    assert set(entry) == set(published.split())
    assert (entry["id"], entry["status"], entry["error"]) == (row["id"], row["status"], None)
    told.on("GET", path, {"entries": [{**row, "id": f"{row['id']}2"}]})
    rest = json.loads(run(*words, "--cursor", "further", "--json").stdout)
    assert (len(rest["entries"]), rest["next_cursor"]) == (1, None)
    asked = told.calls("GET", path)[-1]
    assert asked.query["cursor"] == "further"
    assert "offset" not in asked.query
    assert run(*words, "--cursor", "further", "--offset", "3").exit_code == exitcodes.USAGE


def paged(rows: list[dict[str, Any]]) -> Callable[[Ask], Any]:
    """An envelope by offset, with at most two rows a page."""

    def page(asked: Ask) -> Any:
        offset = int(asked.query.get("offset", "0"))
        limit = min(2, int(asked.query.get("limit", "2")))
        return {"entries": rows[offset : offset + limit], "total_count": len(rows), "limit": limit, "offset": offset}

    return page


def test_all_pages_are_read(run: Run, told: FakePlatform) -> None:
    told.on("GET", "/v2/episode-requests", paged([episode(number) for number in range(5)]))
    assert len(json.loads(run("episodes", "--all", "--json").stdout)) == 5
    lines = run("episodes", "--all", "--jsonl").stdout.splitlines()
    assert [json.loads(line)["seed"] for line in lines] == [0, 1, 2, 3, 4]
    cut = run("episodes", "--limit", "3", "--json")
    assert len(json.loads(cut.stdout)) == 3
    assert "3 episodes of 5 shown" in cut.stderr
    assert "shown" not in run("episodes", "--limit", "5", "--json").stderr


def test_limit_counts_matches(run: Run, told: FakePlatform) -> None:
    rows = [
        episode(number, replay_url=f"https://x.example/{number}.z" if number % 3 == 2 else None) for number in range(9)
    ]
    told.on("GET", "/v2/episode-requests", paged(rows))
    found = json.loads(run("episodes", "--with-replay", "--limit", "2", "--json").stdout)
    assert [row["seed"] for row in found] == [2, 5]
    policies = json.loads(run("episodes", "--policy", "rival:v1", "--all", "--json").stdout)
    assert len(policies) == 9
    assert json.loads(run("episodes", "--policy", "rival:v2", "--all", "--json").stdout) == []


def test_rows_come_while_pages_are_read(run: Run, told: FakePlatform) -> None:
    def page(asked: Ask) -> Any:
        if "cursor" in asked.query:
            return json_say({"detail": "Broken."}, 400)
        return {"entries": [episode(1)], "next_cursor": "more"}

    told.on("GET", "/v2/episode-requests", page)
    result = run("episodes", "--all", "--jsonl")
    assert result.exit_code == exitcodes.REMOTE
    first, last = map(json.loads, result.stdout.splitlines())
    assert first["seed"] == 1
    assert last["error"]["code"] == "bad_request"


def test_odd_row_does_not_break_a_list(run: Run, told: FakePlatform) -> None:
    told.on(
        "GET",
        "/v2/leagues",
        [{**LEAGUE, "created_at": "yesterday", "public": "perhaps"}, "nonsense", {**LEAGUE, "id": f"league_{uid(22)}"}],
    )
    result = run("leagues")
    assert result.exit_code == 0
    assert len(rows_of(result)) == 3
    assert "left out 1 row that cannot be read" in result.stderr
    assert "with unexpected values" in result.stderr
    listed = json.loads(run("leagues", "--json").stdout)
    assert listed[0]["created_at"] == "yesterday"


def test_names_cannot_steer_the_terminal(run: Run, told: FakePlatform) -> None:
    told.on("GET", "/v2/leagues", [{**LEAGUE, "name": "\x1b[2JOpen\x1b]0;title\x07\nNext\u202eline"}])
    result = run("leagues")
    assert "\x1b" not in result.stdout
    assert "Open Nextline" in result.stdout
    assert len(result.stdout.splitlines()) == 2


def test_narrow_terminal_shortens_prose_and_never_ids(
    terminal: Callable[..., Terminal], told: FakePlatform, tmp_path: Path
) -> None:
    told.on("GET", "/v2/competition-events", [{**EVENT, "id": "evt_" + "x" * 40, "summary": "so it goes " * 30}])
    env = {"COWORLD_SERVER": told.url, "COWORLD_TOKEN": "t", "SOFTMAX_CONFIG_DIR": str(tmp_path)}
    shell = terminal("events", env=env, columns=130)
    assert shell.end() == 0
    line = next(line for line in shell.text.splitlines() if "evt_" in line)
    assert "evt_" + "x" * 40 in line
    assert line.endswith("…")
    assert len(line) <= 130


def test_piped_prose_is_whole(run: Run, told: FakePlatform) -> None:
    told.on("GET", "/v2/competition-events", [{**EVENT, "summary": "so it goes " * 30}])
    assert ("so it goes " * 30).strip() in run("events").stdout


@pytest.mark.parametrize(
    ("words", "path", "wanted"),
    [
        (f"divisions -l {LEAGUE['id']}", "/v2/divisions", {"league_id": LEAGUE["id"]}),
        # A league by its name
        ("divisions -l open", "/v2/divisions", {"league_id": LEAGUE["id"]}),
        ("memberships -l Open", "/v2/league-policy-memberships", {"league_id": LEAGUE["id"]}),
        ("submissions --league Open", "/v2/league-submissions", {"league_id": LEAGUE["id"]}),
        ("rounds --league Open", "/v2/rounds", {"league_id": LEAGUE["id"]}),
        ("events --league Open", "/v2/competition-events", {"league_id": LEAGUE["id"]}),
        (
            f"memberships -l {LEAGUE['id']} -d {DIVISION['id']} --mine --active-only --champions-only",
            "/v2/league-policy-memberships",
            {
                "league_id": LEAGUE["id"],
                "division_id": DIVISION["id"],
                "mine": "true",
                "active_only": "true",
                "champions_only": "true",
            },
        ),
        (
            f"memberships --policy {VERSION['id']}",
            "/v2/league-policy-memberships",
            {"policy_version_id": VERSION["id"], "mine": "false"},
        ),
        (
            f"submissions --mine --player {PLAYER['id']}",
            "/v2/league-submissions",
            {"mine": "true", "player_id": PLAYER["id"]},
        ),
        (
            f"events -r {ROUND['id']} --event-type x --audience public",
            "/v2/competition-events",
            {"round_id": ROUND["id"], "event_type": "x", "audience": "public"},
        ),
        (
            f"episodes -d {DIVISION['id']} -r {ROUND['id']}",
            "/v2/episode-requests",
            {"division_id": DIVISION["id"], "round_id": ROUND["id"]},
        ),
    ],
)
def test_filters_are_asked_of_the_server(
    words: str, path: str, wanted: dict[str, str], run: Run, told: FakePlatform
) -> None:
    told.on("GET", "/v2/leagues", [LEAGUE])
    told.on("GET", path, [])
    assert run(*words.split()).exit_code == 0
    query = told.calls("GET", path)[0].query
    assert {name: query[name] for name in wanted} == wanted


# --- one thing ------------------------------------------------------------------------------------------------------

ONE: list[tuple[str, str, dict[str, Any], list[str]]] = [
    ("leagues", "/v2/leagues/{}", LEAGUE, ["Open", "Paint Arena"]),
    ("divisions", "/v2/divisions/{}", DIVISION, ["First", str(LEAGUE["id"])]),
    ("rounds", "/v2/rounds/{}", {**ROUND, "results": []}, ["completed", str(DIVISION["id"])]),
    ("show", "/v2/coworlds/{}", COWORLD, ["paint-arena", "1.2.0", "4.2 KiB", "abc123"]),
    ("images", "/v2/container_images/{}", IMAGE, ["painter v2", "sha256:1"]),
    ("episodes", "/v2/episode-requests/{}", episode(1), ["painter:v3=12.5", "rival:v1=3"]),
]


@pytest.mark.parametrize(("name", "path", "row", "said"), ONE, ids=[entry[0] for entry in ONE])
def test_single_resource_is_shown(
    name: str, path: str, row: dict[str, Any], said: list[str], run: Run, told: FakePlatform
) -> None:
    told.on("GET", path.format(row["id"]), row)
    result = run(name, row["id"])
    assert result.exit_code == 0, result.output
    for text in [row["id"], *said]:
        assert text in result.stdout
    answer = json.loads(run(name, row["id"], "--json").stdout)
    assert {key: answer[key] for key in ("id", "created_at") if key in row} == {
        key: row[key] for key in ("id", "created_at") if key in row
    }


def test_a_league_by_name(run: Run, told: FakePlatform) -> None:
    told.on("GET", "/v2/leagues", [LEAGUE])
    told.on("GET", f"/v2/leagues/{LEAGUE['id']}", LEAGUE)
    assert json.loads(run("leagues", "open", "--json").stdout)["id"] == LEAGUE["id"]
    assert run("leagues", "opem").exit_code == exitcodes.REMOTE
    # How many entries an account may have is shown where the server says it
    assert "Entries of one account" not in run("leagues", "open").stdout
    for most, words in ((1, "1"), (None, "any number")):
        told.on("GET", f"/v2/leagues/{LEAGUE['id']}", {**LEAGUE, "entries_per_user": most})
        [line] = [line for line in run("leagues", "open").stdout.splitlines() if "Entries of one account" in line]
        assert line.split("account")[1].strip(" :") == words


def test_policies_have_labels_for_programs(run: Run, told: FakePlatform) -> None:
    told.on("GET", f"/v2/episode-requests/ereq_{uid(1)}", episode(1))
    answer = json.loads(run("episodes", f"ereq_{uid(1)}", "--json").stdout)
    assert [seat["label"] for seat in answer["participants"]] == ["painter:v3", "rival:v1"]


@pytest.mark.parametrize("value", [[], None])
def test_standings(value: Any, run: Run, told: FakePlatform) -> None:
    told.on(
        "GET",
        f"/v2/leagues/{LEAGUE['id']}/division-ladder",
        [{"id": DIVISION["id"], "name": "First", "level": 1, "member_count": 5}],
    )
    board = [{"rank": 1, "player_id": PLAYER["id"], "player_name": "Ada", "score": 1.23456, "rounds_played": 9}]
    told.on("GET", f"/v2/divisions/{DIVISION['id']}/leaderboard", board)
    told.on("GET", "/v2/leagues", [LEAGUE])
    # Whoever is asked for by name is the same, and the players of a single division are shown at once
    for league in (str(LEAGUE["id"]), str(LEAGUE["name"]).upper()):
        assert rows_of(run("results", league)) == [
            ["Division", "ID", "Level", "Members"],
            ["First", DIVISION["id"], "1", "5"],
            [""],
            ["Rank", "Player", "Score", "Rounds"],
            ["1", "Ada", "1.2346", "9"],
        ]
        [first] = json.loads(run("results", league, "--json").stdout)
        assert (first["id"], [row["player_id"] for row in first["standings"]]) == (DIVISION["id"], [PLAYER["id"]])
    missing = run("results", str(LEAGUE["name"])[:-1])
    assert (missing.exit_code, f"Did you mean {LEAGUE['name']!r}?" in missing.stderr) == (exitcodes.REMOTE, True)
    assert rows_of(run("results", str(DIVISION["id"]), "--include-recent-rounds", "0")) == [
        ["Rank", "Player", "Score", "Rounds"],
        ["1", "Ada", "1.2346", "9"],
    ]
    assert told.asked[-2].query["include_recent_rounds"] == "0"
    told.on("GET", f"/v2/divisions/{DIVISION['id']}/leaderboard", lambda _: value)
    assert json.loads(run("results", str(DIVISION["id"]), "--json").stdout) == []
    told.on("GET", f"/v2/rounds/{ROUND['id']}", {**ROUND, "results": [RESULT]})
    assert rows_of(run("results", str(ROUND["id"])))[1] == ["1", "Ada", "painter:v3", "2.5000"]


def test_standings_show_what_they_are_sorted_by(run: Run, told: FakePlatform) -> None:
    place = f"/v2/divisions/{DIVISION['id']}"
    ranks = [{"rank": 1, "player_id": PLAYER["id"], "player_name": "Ada", "score": 1.0, "rounds_played": 9}]
    told.on("GET", f"{place}/leaderboard", ranks)
    columns = [{"key": key, "label": label} for key, label in (("rank", "Rank"), ("rating", "Rating"), ("won", "Won"))]
    values = {"rank": 1, "rating": 31.5, "won": 2}
    row = {"subject_id": PLAYER["id"], "subject_name": "Ada", "values": values}
    view = {"key": "score", "title": "First", "description": "By rating.", "columns": columns, "rows": [row]}
    told.on("GET", f"{place}/leaderboards", {"default_view_key": "score", "axes": [], "views": [view]})
    assert rows_of(run("results", str(DIVISION["id"]))) == [
        ["Rank", "Player", "Rating", "Won"],
        ["1", "Ada", "31.5000", "2"],
        [""],
        ["By rating."],
    ]
    [first] = json.loads(run("results", str(DIVISION["id"]), "--json").stdout)
    assert (first["rank"], first["values"]) == (1, values)


def test_next_version(run: Run, told: FakePlatform) -> None:
    told.on("GET", "/v2/coworlds", [COWORLD])
    assert run("next-version", "paint_arena").stdout == "1.2.1\n"
    missing = run("next-version", "chess")
    assert missing.exit_code == exitcodes.REMOTE
    assert "There is no Coworld 'chess'" in missing.stderr


def test_stats(run: Run, told: FakePlatform) -> None:
    stats = {
        "game_stats": {"ticks": 40.0},
        "policy_stats": [
            {
                "position": 0,
                "policy_name": "painter",
                "policy_version": 3,
                "num_agents": 1,
                "avg_reward": 2.0,
                "agents": [],
            }
        ],
        "steps": 40,
    }
    told.on("GET", f"/v2/episode-requests/ereq_{uid(1)}/episode-stats", stats)
    result = run("episode-stats", f"ereq_{uid(1)}")
    assert "Steps: 40" in result.stdout
    assert "painter:v3" in result.stdout
    assert "2.0000" in result.stdout


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 429])
def test_server_error_message_is_shown(status: int, run: Run, told: FakePlatform) -> None:
    told.on(
        "POST",
        f"/v2/league-policy-memberships/{MEMBERSHIP['id']}/retire",
        json_say({"detail": f"Words of the server for {status}."}, status, x_request_id="req-9", retry_after="0"),
    )
    result = run("retire-membership", str(MEMBERSHIP["id"]))
    assert result.exit_code == exitcodes.REMOTE
    assert f"Words of the server for {status}." in result.stderr
    assert len([line for line in result.stderr.splitlines() if line.startswith("error:")]) == 1
    error = json.loads(run("retire-membership", str(MEMBERSHIP["id"]), "--json").stdout)["error"]
    assert error["context"]["status"] == status
    assert error["context"]["request_id"] == "req-9"
    assert set(error) >= {"code", "message", "hint", "context"}


def test_validation_names_the_field(run: Run, told: FakePlatform) -> None:
    detail = [{"loc": ["body", "roster", 0], "msg": "Field required", "type": "missing"}]
    told.on("POST", "/v2/experience-requests", json_say({"detail": detail}, 422))
    result = run("xp-request", "create", "-", input="{}")
    assert result.exit_code == exitcodes.REMOTE
    assert "roster.0: Field required" in result.stderr


def test_server_that_cannot_be_reached(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with nobody_there() as nobody:
        for server in (nobody, "https://no-such-host.invalid"):
            monkeypatch.setenv("COWORLD_SERVER", server)
            result = run("leagues")
            assert result.exit_code == exitcodes.ENVIRONMENT
            lines = result.stderr.splitlines()
            assert lines[0].startswith("error: ")
            assert server.split("//")[1].split(":")[0] in lines[0]
            assert len(lines) <= 3
            assert json.loads(run("leagues", "--json").stdout)["error"]["message"] == lines[0].removeprefix("error: ")


def test_tls_to_a_plain_server_is_reported(run: Run, told: FakePlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COWORLD_SERVER", told.url.replace("http://", "https://"))
    result = run("leagues")
    assert result.exit_code == exitcodes.ENVIRONMENT
    assert "127.0.0.1" in result.stderr.splitlines()[0]


def test_page_for_people_is_not_an_api(run: Run, told: FakePlatform) -> None:
    told.on("GET", "/v2/leagues", Say(200, b"<html>hello</html>", {"Content-Type": "text/html"}))
    result = run("leagues")
    assert result.exit_code == exitcodes.REMOTE
    assert "<html>" not in result.stderr or len(result.stderr) < 600


def test_anonymous_user_reads_public_resources(run: Run, told: FakePlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COWORLD_TOKEN")
    told.on("GET", f"/v2/coworlds/{COWORLD['id']}", COWORLD)
    told.on("GET", "/v2/leagues", [LEAGUE])
    assert run("show", str(COWORLD["id"])).exit_code == 0
    assert run("leagues").exit_code == 0
    assert all("authorization" not in asked.headers for asked in told.asked)
    assert run("show", str(COWORLD["id"]), "--as-user").exit_code == exitcodes.ENVIRONMENT
    assert run("episodes").exit_code == exitcodes.ENVIRONMENT


def test_a_name_that_is_no_path_is_that_of_a_coworld_on_the_platform(
    run: Run, told: FakePlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.on("GET", "/v2/coworlds", [{**COWORLD, "canonical": True}])
    shown = run("show", str(COWORLD["name"]))
    assert (shown.exit_code, str(COWORLD["id"]) in shown.stdout) == (0, True)
    assert "There is no manifest at" in run("show", f"./{COWORLD['name']}").stderr
    monkeypatch.delenv("COWORLD_TOKEN")
    assert "There is no manifest at" in run("show", str(COWORLD["name"])).stderr


def test_team_rights_are_asked_for_by_name(run: Run, told: FakePlatform) -> None:
    told.on("GET", "/v2/leagues", [])
    run("leagues")
    run("leagues", "--elevated")
    plain, elevated = told.calls("GET", "/v2/leagues")
    assert "x-use-elevated-privileges" not in plain.headers
    assert elevated.headers["x-use-elevated-privileges"] == "true"
