"""`observatory` at the terminal: words for people, JSON for programs, an exit status for both."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import anyio
import httpx2
import pytest
from support.observatory import add_account, inside, new_services, run_server
from support.uploads import upload_coworld, upload_image

from observatory import server
from observatory.cli import main
from observatory.data_directory import locked_directory
from observatory.settings import Settings

pytestmark = pytest.mark.slow


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    out, err = capsys.readouterr()
    status = left.value.code
    assert isinstance(status, int)
    return status, out, err


def test_accounts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--data", str(tmp_path / "o"))
    status, out, err = _run(capsys, "user", "add", "ann", *where)
    assert (status, out.count("\n")) == (0, 1)
    assert out.startswith("obs_")
    assert "cannot be shown again" in err
    status, out, _ = _run(capsys, "user", "add", "bob", "--team", "--json", *where)
    made = json.loads(out)
    assert (status, made["name"], made["team"], made["token"][:4]) == (0, "bob", True, "obs_")
    status, out, err = _run(capsys, "user", "add", "ann", *where)
    assert (status, out) == (2, "")
    assert "observatory user token ann" in err
    assert (tmp_path / "o").stat().st_mode & 0o777 == 0o700
    _, out, _ = _run(capsys, "user", "token", "ann", "--revoke", "--json", *where)
    assert json.loads(out)["token"].startswith("obs_")
    assert _run(capsys, "user", "quota", "ann", "episodes=5", "requests=none", *where)[1] == (
        "ann: episodes 5, requests none\n"
    )
    assert _run(capsys, "user", "quota", "ann", "--reset", "sessions=1", *where)[1] == "ann: sessions 1\n"
    assert _run(capsys, "user", "quota", "ann", "--reset", *where)[1] == "ann: default quotas\n"
    status, out, err = _run(capsys, "user", "quota", "ann", "episode=5", *where)
    assert (status, out) == (2, "")
    assert "episodes, sessions, replays, stored, image, players, teams, requests" in err
    assert _run(capsys, "user", "disable", "ann", *where)[0] == 0
    _, out, _ = _run(capsys, "user", "list", *where)
    assert [line.split()[1:3] for line in out.splitlines()] == [
        ["NAME", "QUOTAS"],
        ["ann", "disabled"],
        ["bob", "team"],
    ]
    _, out, _ = _run(capsys, "user", "list", "--json", *where)
    assert [user["name"] for user in json.loads(out)["items"]] == ["ann", "bob"]


async def _coworld(tmp_path: Path, *commissioners: str) -> None:
    async with inside(tmp_path) as platform:
        token = await platform.add_user("ann")
        image = (await upload_image(platform, token, "head"))["id"]
        head = {"name": "Head", "type": "commissioner", "description": "Decides.", "image": image}
        await upload_coworld(platform, token, commissioner=[{"id": id, **head} for id in commissioners])


def test_leagues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--data", str(tmp_path / "observatory"))
    status, out, _ = _run(capsys, "league", "add", "open", "--coworld", "paint-arena", "--json", *where)
    error = json.loads(out)["error"]
    assert (status, error["code"]) == (2, "unknown_coworld")
    assert error["hint"] == "Upload it first."
    anyio.run(_coworld, tmp_path)
    status, out, _ = _run(capsys, "league", "add", "open", "--coworld", "Paint-Arena", "--json", *where)
    made = json.loads(out)
    assert (status, made["coworld"], made["division_id"][:4]) == (0, "paint_arena", "div_")
    status, _, err = _run(capsys, "league", "add", "open", "--coworld", "paint-arena", *where)
    assert status == 2
    assert "already" in err
    _, out, _ = _run(capsys, "league", "list", *where)
    plays = "stands still: free-play, season 1, 0 members, 1 division, entries of one account: 1"
    assert out == f"{made['id']}  open (paint_arena)\n    {plays}\n"
    status, out, _ = _run(capsys, "league", "set", "open", "--rounds", "3", "--faults", "0", *where)
    assert (status, out) == (0, "open: rounds 3, faults none, from the next round on.\n")
    status, out, _ = _run(capsys, "league", "set", "open", "--entries-per-user", "0", *where)
    assert (status, out) == (0, "open: entries none, from the next round on.\n")
    sizes = ("--log-bytes", "512K", "--artifact-bytes", "16M")
    _, out, _ = _run(capsys, "league", "set", "open", *sizes, "--json", *where)
    assert (json.loads(out)["terms"]["log_bytes"], json.loads(out)["terms"]["artifact_bytes"]) == (1 << 19, 1 << 24)
    times = ("--opens", "2001-01-31", "--closes", "2999-01-31T12:00", "--final-season", "3")
    status, out, _ = _run(capsys, "league", "set", "open", *times, *where)
    assert "opens 2001-01-31T00:00:00+00:00, closes 2999-01-31T12:00:00+00:00, final 3," in out
    said = "    Submissions close on 2999-01-31 at 12:00 UTC. Season 3 is the final one."
    assert said in _run(capsys, "league", "list", *where)[1].splitlines()
    status, _, err = _run(capsys, "league", "set", "open", "--opens", "soon", *where)
    assert (status, "'soon' is no moment" in err) == (2, True)
    never = ("--opens", "none", "--closes", "none", "--final-season", "0")
    assert _run(capsys, "league", "set", "open", *never, *where)[0] == 0
    assert said not in _run(capsys, "league", "list", *where)[1].splitlines()
    for given, why in (
        ("4K", "4096 is not in the range x>=8192"),
        ("much", "'much' is no size. Write a number"),
    ):
        status, _, err = _run(capsys, "league", "set", "open", "--log-bytes", given, *where)
        assert (status, why in err) == (2, True), err
    _, out, _ = _run(capsys, "league", "list", *where)
    assert "entries of one account: any number" in out
    status, _, err = _run(capsys, "league", "set", "open", *where)
    assert status == 2
    assert "Give at least one setting" in err
    _, out, _ = _run(capsys, "league", "season", "open", *where)
    assert out == "open: stands still, season 2.\n"
    status, _, err = _run(capsys, "league", "pause", "closed", *where)
    assert status == 2
    assert "There is no league 'closed'." in err


def test_a_league_with_a_commissioner_and_its_hooks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--data", str(tmp_path / "observatory"))
    anyio.run(_coworld, tmp_path, "head")
    add = ("league", "add", "open", "--coworld", "paint-arena")
    status, _, err = _run(capsys, *add, "--hook", "rank_division", *where)
    assert (status, "Name one that the Coworld declares." in err) == (2, True)
    status, _, err = _run(capsys, *add, "--commissioner", "head", "--hook", "rank", *where)
    assert (status, "'rank_division'" in err) == (2, True)
    hooks = ("--hook", "rank_division", "--hook", "describe_division")
    status, _, err = _run(capsys, *add, "--commissioner", "head", *hooks, "--hook", "none", *where)
    assert (status, "'none' stands alone" in err) == (2, True)
    assert _run(capsys, *add, "--commissioner", "head", *hooks, *where)[0] == 0
    _, out, _ = _run(capsys, "league", "list", *where)
    assert "plays: commissioner head" in out
    assert "No server runs its commissioner" in out

    def set_to(*terms: str) -> tuple[str, list[str]]:
        _, words, _ = _run(capsys, "league", "set", "open", *terms, *where)
        _, out, _ = _run(capsys, "league", "set", "open", "--every", "60", "--json", *where)
        return words, json.loads(out)["terms"]["hooks"]

    assert set_to("--lifetime", "60")[1] == ["rank_division", "describe_division"]
    said = "open: hooks round_completed, from the next round on.\n"
    assert set_to("--hook", "round_completed") == (said, ["round_completed"])
    assert set_to("--hook", "none") == ("open: hooks none, from the next round on.\n", [])
    # Without a commissioner there is nobody to ask
    set_to("--hook", "round_completed")
    assert set_to("--commissioner", "")[1] == []


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("serve", "--port", "70000"), 2, "usage"),
        (("serve", "--port", "0", "--database", "mysql://x"), 2, "bad_database"),
        (("serve", "--port", "0", "--artifacts", "nothing://x"), 3, "bad_artifacts_url"),
        (("user", "list", "--data", "/dev/null/x"), 2, "bad_directory"),
        (("user", "add", " "), 2, "bad_name"),
        (("nothing",), 2, "usage"),
        (("worker", "--backend", "none"), 2, "no_backend"),
    ],
)
def test_invalid_arguments_are_reported_with_code_and_status(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    status: int,
    code: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    left, out, _ = _run(capsys, *arguments, "--json")
    assert (left, json.loads(out)["error"]["code"]) == (status, code)
    left, out, err = _run(capsys, *arguments)
    assert (left, out) == (status, "")
    assert err.startswith("error: ")


async def test_address_in_use_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(Exception, match="Cannot listen on") as error:
            server.bind("127.0.0.1", taken.getsockname()[1])
    assert getattr(error.value, "code", "") == "address_in_use"


async def test_data_directory_has_one_server_at_a_time(tmp_path: Path) -> None:
    async with new_services(Settings(data=tmp_path)):
        with locked_directory(tmp_path), pytest.raises(Exception, match="already"), locked_directory(tmp_path):
            pass
        with locked_directory(tmp_path):
            pass


async def test_readme_walkthrough_works(tmp_path: Path) -> None:
    """Nobody has an account, and is told how to make one; the one that is made works at once."""
    data = tmp_path / "new"
    log = tmp_path / "log"
    command = ["serve", "--port", "0", "--json", "--backend", "none", "--data", str(data)]
    async with run_server(command, log=log) as (process, said):
        assert said["users"] == 0
        token = await add_account(Settings(data=data), "ann")
        async with httpx2.AsyncClient(base_url=said["url"]) as http:
            answer = await http.get("/observatory/whoami", headers={"Authorization": f"Bearer {token}"})
        assert answer.json()["name"] == "ann"
    assert process.returncode == 0
    assert "observatory user add" in await anyio.Path(log).read_text()
