"""Whoever sits in a seat is the one that is named there: in tables, records, files and on the game's own pages."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.browser import Pages
from support.cli_kit import Done, Started, coworld

from coworld_core.episode.artifacts import EpisodeLayout
from coworld_core.episode.events import RunStarted, parse_event
from coworld_core.episode.record import read_record, read_summary

pytestmark = pytest.mark.slow

PAINT = Path(__file__).parents[2] / "examples" / "paintarena"
QUICK = Path(__file__).parents[1] / "support" / "quick"
BOTH = {"frontier-painter": "Frontier Painter", "sweep-painter": "Sweep Painter"}
"""In another order than that of the game's own config."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """An episode of both, and what was said while it was played."""
    out = tmp_path_factory.mktemp("played") / "out"
    done = coworld("run-episode", PAINT, *BOTH, "--variant", "quick", "--backend", "process", "-o", out)
    assert done.status == 0, done.stderr
    return out, done


@pytest.fixture
def start(no_leaks: None) -> Iterator[Callable[..., Started]]:
    started: list[Started] = []

    def begin(*words: str | Path, cwd: Path) -> Started:
        started.append(Started(words, None, cwd))
        return started[-1]

    yield begin
    for one in started:
        one.close()


def shown(page: Page) -> list[str]:
    """The names beside the scores."""
    expect(page.locator("#scores .name")).to_have_count(2, timeout=60_000)
    return page.locator("#scores .name").all_inner_texts()


def test_an_episode_names_who_played_it(played: tuple[Path, Done]) -> None:
    out, done = played
    players, names = list(BOTH), list(BOTH.values())
    layout = EpisodeLayout(out)
    record = read_record(layout.record)
    assert [(slot.name, slot.player_id) for slot in record.slots] == list(zip(names, players, strict=True))
    assert [player["name"] for player in record.game_config["players"]] == names
    assert json.loads(layout.replay.read_bytes())["player_names"] == names
    first = parse_event(layout.events.read_text().splitlines()[0])
    assert isinstance(first, RunStarted)
    assert (first.players, first.player_ids) == (tuple(names), tuple(players))
    rows = [line.split("  ") for line in done.stdout.splitlines() if "-painter" in line]
    told = [[cell.strip() for cell in row if cell] for row in rows]
    assert [row[:4] for row in told] == [
        [str(slot), name, player, f"{score:g}"]
        for slot, (name, player, score) in enumerate(zip(names, players, record.scores, strict=True))
    ]
    if record.scores[0] != record.scores[1]:
        assert told[record.scores.index(max(record.scores))][4:] == ["winner"]
    assert f"{names[0]} ({players[0]}) vs {names[1]} ({players[1]})" in done.stderr


def test_several_episodes_are_summed_up_by_player(tmp_path: Path) -> None:
    several = ("--backend", "process", "-n", "2")
    done = coworld("run-episode", QUICK, "guest", "confidant", *several, "-o", "out", cwd=tmp_path)
    assert done.status == 0, done.stderr
    summary = read_summary(tmp_path / "out")
    assert [(player.player_id, player.name, player.slots, player.episodes) for player in summary.players] == [
        ("guest", "Guest", (0,), 2),
        ("confidant", "Confidant", (1,), 2),
    ]
    assert tuple(player.mean_score for player in summary.players) == summary.mean_scores
    assert [[str(seat) for seat in row.slots] for row in summary.episodes] == [
        ["Guest (guest)", "Confidant (confidant)"]
    ] * 2
    assert "  episode  Guest  Confidant " in done.stdout
    alone = coworld("run-episode", QUICK, "guest", *several, "-o", "alone", "--json", cwd=tmp_path)
    (player,) = alone.json["players"]
    assert (player["name"], player["player_id"], player["slots"]) == ("Guest", "guest", [0, 1])
    assert player["mean_score"] == sum(alone.json["mean_scores"]) / 2
    assert [seat["name"] for seat in alone.json["episodes"][0]["slots"]] == ["Guest", "Guest (2)"]


@pytest.mark.browser
def test_the_games_pages_name_who_plays(
    pages: Pages, start: Callable[..., Started], played: tuple[Path, Done], tmp_path: Path
) -> None:
    words = ("--human", "0", "--backend", "process", "--no-open-browser", "-o", "live")
    live = start("play", PAINT, *BOTH, *words, cwd=tmp_path)
    found = live.until(lambda: [word for word in live.stdout.split() if "/client/global" in word], "the viewer's link")
    # the game waits for the person, who never comes
    assert shown(pages(found[0])) == ["Person", "Sweep Painter"]
    live.send(signal.SIGINT)
    live.end()
    replay = start("replay", PAINT, played[0], "--backend", "process", "--no-open-browser", "--json", cwd=tmp_path)
    replay.until(lambda: replay.stdout.rstrip().endswith("}"), "the answer")
    assert shown(pages(json.loads(replay.stdout)["link"])) == list(BOTH.values())
    replay.send(signal.SIGINT)
    assert replay.end().status == 0
