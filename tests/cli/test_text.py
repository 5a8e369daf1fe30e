"""Words and tables: what a person reads, without a run behind it."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.formats import LATER, files, with_added_fields, with_later_values

from coworld_cli.hints import worded
from coworld_cli.output import Output, to_json
from coworld_cli.render import results, text
from coworld_cli.render.certification import verdict_text
from coworld_cli.terminal import echo
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import Exit, Fault
from coworld_core.episode.record import (
    BatchSummary,
    EpisodeRecord,
    EpisodeRow,
    ImageRecord,
    LeakRecord,
    PlayerSummary,
    SlotRecord,
    StarvationRecord,
    read_record,
    read_summary,
)
from coworld_core.hints import Hint
from coworld_runner.backend import Found, Reaped
from coworld_runner.certification import read_certification
from coworld_runner.runs.reaper import Sweep

LEFT = ("player-fault/episode.json", "batch/summary.json", "certified/certification.json")
NOW = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)


def _unstyled(text: object, **_: object) -> str:
    return str(text)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No colours, so that texts compare."""
    monkeypatch.setattr("click.style", _unstyled)
    monkeypatch.delenv("UV_RUN_RECURSION_DEPTH", raising=False)
    monkeypatch.setattr(sys, "argv", ["coworld"])


# --- pieces ---------------------------------------------------------------------------------------------------------


def test_clean_to_one_line() -> None:
    assert text.clean(" a\n b\tc\r\n", one_line=True) == "a b c"


@pytest.mark.parametrize(("shown", "columns"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("\x1b[1mx\x1b[0m", 1)])
def test_width(shown: str, columns: int) -> None:
    assert text.width(shown) == columns


def test_a_name_that_would_widen_every_line_is_shortened() -> None:
    assert text.shown_name("Random\nTaker") == "Random Taker"
    assert text.shown_name("x" * 40) == "x" * 40
    assert text.shown_name("x" * 41) == "x" * 39 + "…"
    assert text.width(text.shown_name("木" * 200)) <= 40


def test_table_aligns_and_never_cuts() -> None:
    long = "x" * 300
    assert text.table([("a", "1", long), ("日本", "20", "")], right=(1,)) == f"a      1  {long}\n日本  20"
    assert text.table([]) == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3.0, "3"),
        (0.25, "0.25"),
        (1 / 3, "0.3333"),
        (-2.50, "-2.5"),
        (1e20, "100000000000000000000"),
        (1234567, "1234567"),
    ],
)
def test_number(value: float, shown: str) -> None:
    assert text.number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0.00 s"),
        (0.42, "0.42 s"),
        (12.34, "12.3 s"),
        (59.96, "1 min 00 s"),
        (185, "3 min 05 s"),
        (7620, "2 h 07 min"),
    ],
)
def test_seconds(value: float, shown: str) -> None:
    assert text.seconds(value) == shown


def test_shown_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert text.shown_path(tmp_path / "a" / "b") == "a/b"
    assert text.shown_path(tmp_path.parent / "b") == str(tmp_path.parent / "b")
    assert text.shown_path("https://example.org/x.json") == "https://example.org/x.json"
    assert text.shown_path(tmp_path / "a\nb") == "a b"


@pytest.mark.parametrize(
    ("argv", "depth", "begins"),
    [
        ("/venv/bin/coworld", None, "coworld replay"),
        ("/venv/bin/coworld", "1", "uv run coworld replay"),
        ("/lib/coworld_cli/__main__.py", None, f"{Path(sys.executable).name} -m coworld_cli replay"),
    ],
)
def test_commands_to_copy_are_called_as_this_one(
    argv: str, depth: str | None, begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [argv])
    if depth is not None:
        monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", depth)
    assert text.command_line("replay", "my world", Path("it's")) == f"""{begins} 'my world' 'it'"'"'s'"""


def test_commands_with_names_that_are_not_utf8_can_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = os.fsdecode(b"it's caf\xe9\xff/b")
    word = text.command_line("replay", name).removeprefix(text.command_line("replay"))
    echo(os.fsdecode(b"caf\xe9\xff/b"))
    shown = capsys.readouterr().out.rstrip()
    hint = worded(Hint("build_directory", "Build it.", directory=name))
    pasted = subprocess.run(["bash", "-c", f"printf '%s\\0' {word} {shown}"], capture_output=True, check=True).stdout
    assert pasted == b"it's caf\xe9\xff/b\0caf\xe9\xff/b\0"
    assert hint == f"Run `coworld build{word}` first."


# --- output ---------------------------------------------------------------------------------------------------------


def test_result_and_narration_go_apart(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output()
    out.note("narration")
    out.warn("careful")
    out.say("result")
    out.answer({"ok": True})
    assert capsys.readouterr() == ("result\n", "narration\nwarning: careful\n")


def test_json_is_all_there_is_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(json=True, quiet=True)
    out.note("narration")
    out.say("result")
    out.answer({"name": "Zoë", "when": NOW})
    written, err = capsys.readouterr()
    assert err == ""
    assert json.loads(written) == {"name": "Zoë", "when": str(NOW)}
    assert written.startswith('{\n  "name"')
    assert written.endswith("}\n")


def test_narration_goes_above_a_display() -> None:
    lines: list[str] = []
    out = Output()
    out.above = lines.append
    out.note("narration")
    assert lines == ["narration"]


def test_json_escapes_where_the_stream_has_no_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        encoding = "latin-1"

    monkeypatch.setattr(sys, "stdout", Stream())
    assert to_json({"name": "日本"}) == '{\n  "name": "\\u65e5\\u672c"\n}\n'
    assert to_json({"name": "\udcc3\udca9\udce9"}) == '{\n  "name": "\\u00e9\\ufffd"\n}\n'


def test_json_has_no_half_of_a_surrogate_pair() -> None:
    assert to_json(["caf\udce9"]) == '[\n  "caf\ufffd"\n]\n'


# --- results --------------------------------------------------------------------------------------------------------


def record(**changes: object) -> EpisodeRecord:
    """A record of a good episode, with changes."""
    seats = tuple(
        SlotRecord(slot=slot, name=name, player_id=player, image=ImageRecord(image="w"))
        for slot, (name, player) in enumerate([("Ada", "sweep"), ("Bob", "hunt")])
    )
    fields: dict[str, object] = {
        "run_id": "0123456789abcdef",
        "coworld": "paint",
        "version": "1.0.0",
        "backend": "process",
        "variant": "default",
        "started_at": NOW,
        "ended_at": NOW,
        "seconds": 2.5,
        "status": "completed",
        "scores": (17.0, 25.0),
        "slots": seats,
        **changes,
    }
    return EpisodeRecord.model_validate(fields)


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EpisodeLayout:
    """A workspace with results, replay and logs, seen from where it is."""
    monkeypatch.chdir(tmp_path)
    found = EpisodeLayout(tmp_path / "out")
    found.logs.mkdir(parents=True)
    found.results.write_text("{}")
    found.replay.write_text("r")
    return found


def test_episode_result(layout: EpisodeLayout) -> None:
    shown = results.episode_result(record(seed=7), layout, follow_up="coworld replay w out/replay")
    assert shown == (
        "paint 1.0.0 default · seed 7 · process  completed in 2.5 s\n"
        "\n"
        "  0  Ada  sweep  17\n"
        "  1  Bob  hunt   25  winner\n"
        "\n"
        "Artifacts:  out\n"
        "Scores:     0=17, 1=25\n"
        "Results:    out/results.json\n"
        "Replay:     out/replay\n"
        "Logs:       out/logs\n"
        "Record:     out/episode.json\n"
        "\n"
        "Watch it:  coworld replay w out/replay"
    )


def test_missing_paths_are_not_printed(layout: EpisodeLayout) -> None:
    layout.replay.unlink()
    layout.results.unlink()
    shown = results.episode_result(record(status="failed", scores=()), layout, follow_up=None)
    assert "Replay" not in shown
    assert "Results" not in shown
    assert "Scores" not in shown
    assert "Watch" not in shown
    assert shown.startswith("paint 1.0.0 default · process  failed in 2.5 s")


def test_ties_and_single_players(layout: EpisodeLayout) -> None:
    assert results.episode_result(record(scores=(3, 3)), layout, follow_up=None).count("  tie") == 2
    alone = results.episode_result(record(scores=(3,)), layout, follow_up=None)
    assert "winner" not in alone
    assert "tie" not in alone


def test_people_are_named_as_such(layout: EpisodeLayout) -> None:
    seats = (SlotRecord(slot=0, name="Ada", human=True, image=ImageRecord(image="")),)
    assert "  0  Ada       a person  1\n" in results.episode_result(
        record(scores=(1, 2), slots=seats), layout, follow_up=None
    )


def test_faults_warnings_starvation_and_leaks(layout: EpisodeLayout) -> None:
    fault = Fault(
        party="player",
        slot=1,
        error_type="player_error",
        message="Player 1 (Bob) exited with status 3.",
        hint="Read logs/policy_agent_1.log.",
        time=NOW,
        exit=Exit(reason="exited", code=3),
        log="logs/policy_agent_1.log",
        log_tail="\n".join(["first", *(f"line {index}" for index in range(20)), "\x1b[31mlast\x1b[0m", "", ""]),
    )
    shown = results.episode_result(
        record(
            faults=(fault,),
            warnings=("The game wrote no replay.",),
            starvation=StarvationRecord(starved=True, waited_share=0.731, threshold=0.5, source="x"),
            leaks=(LeakRecord(what="container c", reason="busy"),),
        ),
        layout,
        follow_up=None,
    )
    assert "completed with 1 fault in" in shown
    assert (
        "fault: player 1 · player_error\n"
        "  Player 1 (Bob) exited with status 3.\n"
        "  hint: Read logs/policy_agent_1.log.\n"
        "  the end of out/logs/policy_agent_1.log:\n"
        "    │ line 9\n"
    ) in shown
    assert "    │ last\n\nwarning: The game wrote no replay.\n" in shown
    assert "first" not in shown
    assert "short of processors for 73% of the time of play; players may have answered late" in shown
    assert "Left behind: container c. `coworld clean` finds it" in shown


def test_starved_unit_is_named() -> None:
    seen = StarvationRecord(starved=True, waited_share=1.3, threshold=1, source="x", unit="player-1", tick_seconds=0.05)
    assert seen.description == (
        "The machine was short of processors: player-1 and the game waited for one for 130% of the time they had to "
        "spare in 0.05 s"
    )


def test_batch_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def row(index: int, **changes: object) -> EpisodeRow:
        fields: dict[str, object] = {"index": index, "run_id": "r", "workspace": f"episode-{index:04d}", "seconds": 1.5}
        fields |= {"status": "completed", "ok": True, "seed": index, "scores": (1, 2.5, 4)}
        fields["slots"] = ({"name": "Ada"}, {"name": "B\x1b[2Job", "player_id": "bob"}, {"name": "Ada (2)"})
        return EpisodeRow.model_validate({**fields, **changes})

    summary = BatchSummary(
        coworld="paint",
        version="1.0.0",
        backend="docker",
        variant="default",
        status="failed",
        planned=3,
        completed=2,
        faulted=1,
        seconds=4.0,
        mean_scores=(1.0, 2.5, 4.0),
        players=(
            PlayerSummary(name="Ada", image="ada:7", slots=(0, 2), episodes=2, mean_score=2.5),
            PlayerSummary(name="B\x1b[2Job", player_id="bob", image="x", slots=(1,), episodes=2, mean_score=2.5),
            PlayerSummary(name="ghost", player_id="ghost", slots=(), episodes=0),
        ),
        episodes=(
            row(1),
            row(2, starved=True),
            row(3, status="failed", ok=False, scores=(), party="player", fault_slot=1, message="It left.", seed=None),
        ),
    )
    assert results.batch_result(summary, tmp_path / "out") == (
        "paint 1.0.0 default · docker  2 of 3 episodes completed, 1 with faults in 4.0 s\n"
        "\n"
        "  episode  seed  Ada  Bob  Ada (2)   time\n"
        "        1     1    1  2.5        4  1.5 s\n"
        "        2     2    1  2.5        4  1.5 s  short of processors\n"
        "        3     -    -    -        -  1.5 s  player 1: It left.\n"
        "     mean          1  2.5        4\n"
        "\n"
        "  player         seats  episodes  mean\n"
        "  Ada     ada:7  0, 2          2   2.5\n"
        "  Bob     bob    1             2   2.5\n"
        "  ghost                        0     -\n"
        "\n"
        "Artifacts:  out\n"
        "Summary:    out/summary.json"
    )


def test_values_of_later_versions_are_shown_as_they_are(layout: EpisodeLayout) -> None:
    written = {name: json.loads(files(f"{name}")[0].read_bytes()) for name in LEFT}
    later = {name: with_later_values(with_added_fields(value)) for name, value in written.items()}
    faulty, batch, certified = later.values()
    shown = results.episode_result(read_record(faulty), layout, follow_up=None)
    assert f"{LATER} in 1.2 s" in shown
    assert f"fault: {LATER} · {LATER}\n" in shown
    batch["episodes"][0] |= {"ok": False, "party": "\x1b[2Jsomebody"}
    shown = results.batch_result(read_summary(batch), layout.workspace)
    assert f"somebody: {LATER}\n" in shown
    shown = verdict_text(read_certification(certified).in_workspace(layout.workspace), manifest="paint")
    assert f"certified: {LATER}" in shown
    assert f"  [{LATER}] {LATER}  The manifest" in shown


def test_sweep_results() -> None:
    dead = Found(kind="container", id="abc", name="coworld-r1-game", run_id="r1", alive=False, age_seconds=90.0)
    busy = Found(kind="directory", id="/tmp/coworld-0/r2", name="r2", run_id="r2", alive=True, age_seconds=None)

    assert results.sweep_result(Sweep(()), apply=False, force=False) == "Nothing is left."
    assert results.sweep_result(Sweep((dead, busy)), apply=False, force=False) == (
        "  r1  container  coworld-r1-game    1 min 30 s old\n"
        "  r2  directory  /tmp/coworld-0/r2                  in use\n"
        "Would remove 1 thing: add --yes to do so."
    )
    only_busy = results.sweep_result(Sweep((busy,)), apply=False, force=False)
    assert only_busy.endswith("Nothing of a killed run is left.")
    assert "Would remove 1 thing" in results.sweep_result(Sweep((busy,)), apply=False, force=True)
    removed = Sweep((dead, busy), (Reaped(found=dead, removed=True), Reaped(found=busy, removed=False, reason="busy")))
    shown = results.sweep_result(removed, apply=True, force=False)
    assert "1 min 30 s old  removed\n" in shown
    assert shown.endswith("Removed 1 thing.")
    stuck = Sweep((dead,), (Reaped(found=dead, removed=False, reason="denied"),), ("docker: no engine",))
    assert results.sweep_result(stuck, apply=True, force=False).splitlines()[-3:] == [
        "  r1  container  coworld-r1-game  1 min 30 s old  still there: denied",
        "Nothing was removed.",
        "Could not look at docker: no engine",
    ]
