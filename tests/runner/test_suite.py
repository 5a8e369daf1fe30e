"""Suites: what a file says is measured, added up in one report, and gone on with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.contest import contest
from support.small_world import World

from coworld_core.episode.events import EvaluationProgressed
from coworld_core.errors import UsageError, WorkspaceError
from coworld_core.evaluation.report_base import IntervalRecord, MeasuredEntrant
from coworld_core.evaluation.suite_report import SuiteCell, SuiteReport, read_suite_file
from coworld_runner.evaluation import report_page
from coworld_runner.evaluation.suite import play_suite, read_suite, read_suite_settings

TEXT = """
count_starved = true
episodes = 4

[[entry]]
name = "plain"
variants = ["*"]
lineups = [["{player}", "second"], ["first"]]

[[entry]]
name = "more ticks"
episodes = 2
config = { ticks = 2 }
lineups = [["{player}", "third"]]
"""


def suite(directory: Path, text: str = TEXT) -> Path:
    path = directory / "strength.toml"
    path.write_text(text)
    return path


async def played(small: World, path: Path, workspace: Path, *players: str, **more: Any) -> SuiteReport:
    run: Any = {"backend": small.backend, "workspace": workspace, "parallel": 4, **more}
    return await play_suite(path, package=small.package, players=players, **run)


async def test_each_line_up_is_measured_in_each_variant(tmp_path: Path) -> None:
    async with contest(2.0) as small:
        report = await played(small, suite(tmp_path), tmp_path / "out", "first")
    assert [(cell.entry, cell.variant, cell.lineup, cell.blocks) for cell in report.cells] == [
        ("plain", "default", ("first", "second"), 2),
        ("plain", "default", ("first",), 4),
        ("plain", "long", ("first", "second"), 2),
        ("plain", "long", ("first",), 4),
        ("more ticks", "certification", ("first", "third"), 1),
    ]
    assert (report.name, report.ok) == ("strength", True)
    assert [(player.name, player.cells) for player in report.players] == [("First", 5), ("Second", 2), ("Third", 1)]
    means = [cell.entrants[0].mean_score or 0 for cell in report.cells]
    assert report.players[0].value == pytest.approx(sum(means) / 5)
    assert read_suite_file(tmp_path / "out") == report
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| more ticks | certification | First |" in text
    again, measured = read_suite(tmp_path / "out")
    assert again == report
    page = report_page(measured, beside=tmp_path, summary=again)
    assert len(re.findall("<article", page)) == 6
    assert "5 of 5 measurements ended" in page


@pytest.mark.slow
async def test_an_interrupted_suite_goes_on(tmp_path: Path) -> None:
    path, out = suite(tmp_path), tmp_path / "out"
    async with contest(2.0) as small:
        whole = await played(small, path, tmp_path / "whole", "first")
        path = suite(tmp_path, f"seed = {whole.seed}\n{TEXT}")
        seen = 0
        with anyio.CancelScope() as scope:

            def stop(event: Any) -> None:
                nonlocal seen
                seen += isinstance(event, EvaluationProgressed) and bool(event.blocks)
                if seen == 4:
                    scope.cancel()

            await played(small, path, out, "first", listeners=(stop,))
        so_far, _ = read_suite(out)
        assert not so_far.complete
        assert "not over yet" in (out / "report.md").read_text()
        rows = (out / so_far.cells[0].directory / "episodes.jsonl").read_bytes()
        # Whoever goes on need not name the seed again
        assert await played(small, suite(tmp_path), out, "first") == whole
        assert (out / so_far.cells[0].directory / "episodes.jsonl").read_bytes().startswith(rows)
        # Nothing is left to play
        events: list[Any] = []
        assert await played(small, path, out, "first", listeners=(events.append,)) == whole
        assert events == []
        # An entry more is measured in addition
        more = TEXT + '\n[[entry]]\nname = "last"\nepisodes = 2\nlineups = [["second"]]\n'
        longer = await played(small, suite(tmp_path, more), out, "first")
        assert [cell.entry for cell in longer.cells[-2:]] == ["more ticks", "last"]
        with pytest.raises(UsageError) as hooked:
            await played(small, path, out, "first", hooks=[lambda plan: plan])
        assert hooked.value.code == "hooks_changed"
        for players, text in ((("third",), more), (("first",), more.replace("more ticks", "ticks"))):
            with pytest.raises(UsageError) as other:
                await played(small, suite(tmp_path, text), out, *players)
            assert other.value.code == "another_suite"
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "mine").touch()
        with pytest.raises(WorkspaceError):
            await played(small, suite(tmp_path), tmp_path / "full", "first")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("episodes = 4", "episode = 4", r"strength\.toml: episode: Extra inputs"),
        ("more ticks", "plain", r"several entries are called plain"),
        ('["*"]', '["x*"]', r"Entry 'plain': No variant of counting matches"),
        ('"third"', '"thrid"', r"Entry 'more ticks', line-up 1 \(first, thrid\): "),
        ("ticks = 2", "tick = 2", r"Entry 'more ticks', line-up 1 \(first, third\): counting has no \"tick\""),
        ('["first"]', '["first", "second", "third"]', r"line-up 2 .*: There are 3 players and 2 seats"),
    ],
)
async def test_a_wrong_suite_is_refused_before_anything_is_played(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert old in TEXT
    async with contest() as small:
        with pytest.raises(UsageError, match=words):
            await played(small, suite(tmp_path, TEXT.replace(old, new)), tmp_path / "out", "first")
    assert not (tmp_path / "out").exists()


async def test_players_are_named_if_and_only_if_there_is_a_place_for_them(tmp_path: Path) -> None:
    async with contest() as small:
        with pytest.raises(UsageError, match="and no player is named"):
            await played(small, suite(tmp_path), tmp_path / "out")
        with pytest.raises(UsageError, match="there is no seat for third"):
            await played(small, suite(tmp_path, TEXT.replace("{player}", "first")), tmp_path / "out", "third")
        with pytest.raises(UsageError, match="names no game"):
            await play_suite(suite(tmp_path), players=["first"])


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    path = suite(tmp_path / "below", 'game = "./game"\n' + TEXT.replace('"third"', '"./bot.py"'))
    monkeypatch.chdir(tmp_path)
    found = read_suite_settings(path)
    assert (found.game, found.entry[1].lineups) == ("below/game", [["{player}", "below/bot.py"]])


def test_a_mean_over_cells_has_an_interval_only_if_each_has_one() -> None:
    def cell(mean: float, half: float | None) -> SuiteCell:
        interval = IntervalRecord(low=mean - half, high=mean + half, method="bootstrap") if half is not None else None
        return SuiteCell(
            entry="a",
            variant="b",
            lineup=("x",),
            directory=str(mean),
            episodes=1,
            names=("X",),
            images=("x",),
            entrants=(MeasuredEntrant(label="a", mean_score=mean, interval=interval),),
        )

    empty = SuiteReport(name="s", coworld="c", version="1", seed=0, cells=())
    (both,) = empty.with_cells([cell(1.0, 0.3), cell(3.0, 0.4)]).players
    # Independent errors add up by squares: half the root of 0.3² + 0.4²
    assert both.interval is not None
    assert (both.value, both.interval.low, both.interval.high) == pytest.approx((2.0, 1.75, 2.25))
    (one,) = empty.with_cells([cell(1.0, 0.3)]).players
    assert one.interval is not None
    assert one.interval.method == "bootstrap"
    (none,) = empty.with_cells([cell(1.0, 0.3), cell(3.0, None)]).players
    assert (none.value, none.interval) == (2.0, None)
