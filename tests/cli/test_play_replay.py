"""`play` and `replay`: links, people's seats, browsers, and how they end."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import shutil
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli_kit import Started, Terminal, coworld, write_world
from websockets.sync.client import connect

from coworld_cli import browser
from coworld_runner.kit.server.scaffolds import new_game

pytestmark = pytest.mark.slow

World = Callable[..., Path]
Start = Callable[..., Started]
LINK = re.compile(r"http://127\.0\.0\.1:\d+/client/\S+")


def links(text: str) -> dict[str, str]:
    """The links of a text by their page."""
    return {re.sub(r"^.*/client/|token=.*", "", link): link for link in LINK.findall(text)}


def take_seat(link: str) -> None:
    """Play a seat to the end, as the page behind the link does."""
    with connect(link.replace("http://", "ws://").replace("/client", ""), proxy=None) as socket:
        while json.loads(socket.recv(timeout=60))["type"] != "final":
            pass


def fetch(link: str) -> int:
    """The status of a page."""
    with urllib.request.urlopen(link, timeout=30) as answer:
        return answer.status


def test_bots_play_and_a_person_watches(world: World, start: Start, tmp_path: Path) -> None:
    run = start("play", world("well", play_seconds=6), "-o", tmp_path / "out")
    # A program reads the links from standard output
    found = run.until(lambda: links(run.stdout) if "global" in run.stdout else None, "links")
    assert set(found) == {"player?slot=0&", "player?slot=1&", "global"}
    assert fetch(found["global"]) == 200
    assert run.stdout.count(", a bot; this link takes its seat\n") == 2
    done = run.end()
    assert done.status == 0, done.stderr
    assert "completed" in done.stdout
    tokens = re.findall(r"token=([\w-]+)", done.stdout)
    assert len(tokens) == 2
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert written
    # The misfits' players do not print their links
    assert not [path for path in written for token in tokens if token.encode() in path.read_bytes()]


def test_a_person_plays_a_seat(world: World, start: Start, tmp_path: Path) -> None:
    run = start(
        "play", world("well"), "--human", "0", "--variant", "default", "-o", tmp_path / "out", "--json", "--admin"
    )
    # Standard output belongs to the answer
    found = run.until(lambda: links(run.stderr) if "Admin" in run.stderr else None, "links")
    assert "Seat 0  Left, for you\n" in run.stderr
    assert "Seat 1  Right (well-1), a bot; this link takes its seat\n" in run.stderr
    assert found["admin"].endswith("/client/admin")
    take_seat(found["player?slot=0&"])
    done = run.end()
    assert done.status == 0, done.stdout
    slots = done.json["slots"]
    assert [slot["human"] for slot in slots] == [True, False]
    assert slots[0]["exit"] is None


def test_a_seat_that_is_not_there(world: World, tmp_path: Path) -> None:
    done = coworld("play", world(), "--human", "7", "-o", tmp_path / "out", "--json")
    assert done.status == 2
    assert done.json["error"]["code"] == "unknown_seat"


def test_interrupted_play_is_not_latest(world: World, start: Start) -> None:
    directory = world("well", play_seconds=60)
    run = start("play", directory)
    run.until_printed("/client/global")
    run.send(signal.SIGINT)
    assert run.end().status == 130
    assert not (directory / "results" / "latest").is_symlink()
    assert len(list((directory / "results").iterdir())) == 1


def test_finished_play_is_latest(world: World) -> None:
    directory = world()
    done = coworld("play", directory, "--json", "--quiet")
    assert done.status == 0
    assert (directory / "results" / "latest").resolve() == Path(done.json["workspace"])


def test_links_stand_above_the_display_whole(world: World, terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    run = terminal("play", world("well"), "--human", "1", "-o", tmp_path / "out", columns=60)
    run.until_printed("a person")
    found = links(run.text)
    assert len(found["player?slot=1&"]) > 60
    take_seat(found["player?slot=1&"])
    assert run.end() == 0, run.text


# --- replay ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A world and the workspace of an episode of it."""
    place = tmp_path_factory.mktemp("played")
    directory, out = write_world(place / "world"), place / "out"
    assert coworld("run-episode", directory, "-o", out, "--quiet").status == 0
    return directory, out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_replay_is_shown_until_a_person_has_seen_enough(
    number: signal.Signals, played: tuple[Path, Path], start: Start
) -> None:
    directory, out = played
    run = start("replay", directory, out / "replay")
    run.until_printed("Ctrl-C ends it.")
    link = LINK.findall(run.stdout)[0]
    assert run.stdout == f"Replay:  {out}/replay\nWatch:   {link}\n"
    assert fetch(link) == 200
    run.send(number)
    done = run.end()
    assert done.status == 0, done.stderr
    assert done.stderr.endswith("Ctrl-C ends it.\nStopping the replay.\n")
    with contextlib.suppress(OSError), urllib.request.urlopen(link, timeout=5):
        pytest.fail("the game still runs")


def test_a_workspace_a_compressed_file_and_a_bundle_are_replays(
    played: tuple[Path, Path], start: Start, tmp_path: Path
) -> None:
    directory, out = played
    packed = tmp_path / "packed file.gz"
    packed.write_bytes(gzip.compress((out / "replay").read_bytes()))
    bundle = tmp_path / "episode.zip"
    assert coworld("bundle", out, "-o", bundle).status == 0
    # An episode's record says which game played it
    for words in ((directory, out), (directory, packed), (directory, packed.as_uri()), (directory, bundle), (out,)):
        run = start("replay", *words, "--json", "--at", "3")
        run.until(lambda run=run: run.stdout.endswith("}\n"), "the answer")
        answer = json.loads(run.stdout)
        link, _, place = answer["link"].partition("#")
        assert (fetch(link), place) == (200, "tick=3")
        assert answer["backend"] == "process"
        assert re.fullmatch(r"[0-9a-f]+", answer["run_id"])
        run.send(signal.SIGINT)
        assert run.end().status == 0


def test_a_game_that_ends_by_itself_ends_the_replay(world: World, played: tuple[Path, Path], start: Start) -> None:
    _, out = played
    broken = world("well", directory="broken")
    template = broken / "coworld_manifest_template.json"
    # Serves the page, and fails a moment later
    game = "import os, sys, threading, runpy; threading.Timer(3, os._exit, [7]).start(); sys.argv = ['game.py']; "
    game += "print('about to fail', flush=True); runpy.run_path('game.py', run_name='__main__')"
    template.write_text(template.read_text().replace('"game.py"', f'"-c", {json.dumps(game)}'))
    run = start("replay", broken, out)
    done = run.end()
    assert done.status == 1, done.stderr
    assert "The game exited with status 7 while it showed the replay.\n  │ about to fail\n" in done.stderr


@pytest.mark.parametrize(
    ("replay", "status", "said"),
    [("nowhere", 2, "nowhere"), ("empty", 1, "empty"), ("ftp://example.org/replay", 2, "ftp")],
)
def test_invalid_replay_is_refused(replay: str, status: int, said: str, world: World, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    done = coworld("replay", world(), replay, cwd=tmp_path)
    assert done.status == status
    assert said in done.stderr
    assert done.stdout == ""


def test_a_game_that_shows_no_replay(world: World, played: tuple[Path, Path]) -> None:
    _, out = played
    broken = world("well", directory="broken")
    template = broken / "coworld_manifest_template.json"
    template.write_text(template.read_text().replace('"game.py"', '"-c", "raise SystemExit(\'cannot show it\')"'))
    done = coworld("replay", broken, out)
    assert done.status == 1
    assert "  | cannot show it\n" in done.stderr
    assert coworld("replay", broken, out, "--json").json["error"]["code"] == "replay_unloadable"


# --- the browser ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "terminal_there", "env", "wanted"),
    [
        (True, False, {}, True),
        (False, True, {"DISPLAY": ":0"}, False),
        (None, True, {"DISPLAY": ":0"}, True),
        (None, True, {"WAYLAND_DISPLAY": "w"}, True),
        (None, True, {}, False),
        (None, False, {"DISPLAY": ":0"}, False),
        (None, True, {"DISPLAY": ":0", "CI": "true"}, False),
    ],
)
def test_browser_opens_only_when_wanted(
    asked: bool | None, terminal_there: bool, env: dict[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "CI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: terminal_there)
    assert browser.wants_browser(asked) is wanted


def test_the_browser_gets_the_page(played: tuple[Path, Path], start: Start, tmp_path: Path) -> None:
    directory, out = played
    program = tmp_path / "my-browser"
    program.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened.new && mv {tmp_path}/opened.new {tmp_path}/opened\n')
    program.chmod(0o755)
    run = start("replay", directory, out, "--open-browser", env={"BROWSER": f"{program} %s"})
    opened = tmp_path / "opened"
    run.until(opened.exists, "the browser")
    assert opened.read_text().strip() in run.stdout
    run.send(signal.SIGINT)
    assert run.end().status == 0


def shown_in(place: Path) -> dict[str, str]:
    """The environment in which pages are opened by writing their addresses down."""
    program = place / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" >> {place}/opened\n')
    program.chmod(0o755)
    return {"BROWSER": f"{program} %s"}


def test_watched_game_uses_the_first_variant_and_leaves_a_page(tmp_path: Path) -> None:
    game = new_game("small", directory=tmp_path / "small").directory
    done = coworld("play", game, "--json", "--open-browser", env=shown_in(tmp_path))
    assert done.json["variant"] == "default", done.stderr
    live, again = (tmp_path / "opened").read_text().split()
    assert live.endswith("/client/global")
    assert again == (Path(done.json["workspace"]) / "replay.html").as_uri()
    assert "window.WebSocket" in Path(again.removeprefix("file://")).read_text()


def test_an_episode_is_watched_where_that_is_asked(world: World, tmp_path: Path) -> None:
    directory = world()
    done = coworld("run-episode", directory, "--watch", env=shown_in(tmp_path))
    assert done.status == 0, done.stderr
    (live,) = (tmp_path / "opened").read_text().split()
    assert f"Watch: {live}\n" in done.stderr
    many = coworld("run-episode", directory, "--watch", "-n", "2")
    assert (many.status, "--watch shows one episode" in many.stderr) == (2, True)


def test_missing_browser_is_not_a_failure(played: tuple[Path, Path], start: Start, tmp_path: Path) -> None:
    directory, out = played
    run = start("replay", directory, out, "--open-browser", env={"BROWSER": f"{tmp_path}/not-there %s", "PATH": ""})
    run.until_printed("No browser could be opened; open the link yourself.")
    run.send(signal.SIGINT)
    assert run.end().status == 0


def test_a_page_is_named_with_the_tick_to_begin_at(tmp_path: Path) -> None:
    nim = Path(__file__).parents[2] / "examples" / "nim"
    assert coworld("run", nim, "--backend", "process", "-o", tmp_path / "played").status == 0
    asked = ("replay", nim, tmp_path / "played", "--backend", "process", "--html", tmp_path / "page.html")
    link = f"{(tmp_path / 'page.html').as_uri()}#tick=3"
    assert f"Watch it:  {link}" in coworld(*asked, "--at", "3").stdout
    assert coworld(*asked, "--json").json["link"] == link.removesuffix("#tick=3")


def test_seats_say_in_words_what_a_picture_shows(tmp_path: Path) -> None:
    nim = tmp_path / "nim"
    shutil.copytree(Path(__file__).parents[2] / "examples" / "nim", nim, ignore=shutil.ignore_patterns("results"))
    assert coworld("run", nim, "--backend", "process", "--seed", "1", "-o", tmp_path / "played").status == 0
    asked = ("replay", nim, tmp_path / "played", "--in-terminal")
    shown = coworld(*asked)
    assert shown.status == 0, shown.stderr
    assert "  Random Taker sees:\n  |||" in shown.stdout
    assert "  Counter did {" in shown.stdout
    # Rules that do not play it again do not keep it from being shown
    rules = nim / "nim.py"
    rules.write_text(re.sub(r"(self\.left) -= .*", r"\1 -= 1", rules.read_text()))
    changed = coworld(*asked)
    assert changed.status == 0, changed.stderr
    assert changed.stderr.count("What seats saw is not shown: ") == 1
    assert changed.stdout.count("· tick ") == shown.stdout.count("· tick ")
