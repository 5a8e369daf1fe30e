"""The index of runs with many rows, and the export of many turns and samples, beside pyarrow alone.

python tests/benchmarks/records.py --rows 100000 --turns 1000000 --samples 1000000
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _measure import finish, machine, peak_mib, python, run, show

from coworld_core.episode.events import RunFinished, RunStarted
from coworld_core.episode.record import EpisodeRecord, EpisodeRow, ImageRecord, SlotRecord, SlotRow
from coworld_core.records.run_filter import RunFilter
from coworld_core.records.samples import SAMPLES_FORMAT
from coworld_core.rules.replay import ReplayWriter
from coworld_runner.records.local_runs import LocalRuns
from coworld_runner.records.run_export import EXPORTED

_ROWS_OF_RUN = 1000
_TURNS_OF_REPLAY = 1000


def leave_runs(results: Path, rows: int) -> None:
    """Write workspaces of runs of a thousand episodes each, as runs leave them."""
    for number in range(rows // _ROWS_OF_RUN):
        place = results / f"run-{number:04d}"
        place.mkdir(parents=True)
        start = RunStarted(what="batch", seq=1, run_id=f"{number:016x}", coworld=f"game-{number % 7}", variant="quick")
        end = RunFinished(status="completed", ok=True, seconds=1.0, seq=2, run_id=start.run_id)
        (place / "events.ndjson").write_text(f"{start.model_dump_json()}\n{end.model_dump_json()}\n")
        with (place / "episodes.jsonl").open("w") as file:
            for index in range(1, _ROWS_OF_RUN + 1):
                file.write(row(number, index).model_dump_json() + "\n")


def leave_episodes(results: Path, count: int) -> None:
    """Write workspaces of single episodes."""
    now = dt.datetime.now(dt.UTC)
    for number in range(count):
        place = results / f"episode-{number:06d}"
        place.mkdir(parents=True)
        slots = tuple(
            SlotRecord(slot=slot, name=f"player-{slot}", image=ImageRecord(image="./bot.py", digest="f" * 64))
            for slot in (0, 1)
        )
        record = EpisodeRecord(
            run_id=f"{number:016x}",
            coworld="game",
            version="1",
            backend="process",
            variant="quick",
            started_at=now,
            ended_at=now,
            seconds=1.5,
            status="completed",
            scores=(1.0, 0.0),
            slots=slots,
        )
        start = RunStarted(what="episode", seq=1, run_id=record.run_id, coworld="game", variant="quick")
        (place / "events.ndjson").write_text(f"{start.model_dump_json()}\n")
        (place / "episode.json").write_text(record.model_dump_json(indent=2))


def row(run: int, index: int) -> EpisodeRow:
    """A row of an episode of two players; every hundredth has a fault."""
    failed = index % 100 == 0
    return EpisodeRow(
        index=index,
        key=f"episode-{index:04d}",
        run_id=f"{run:08x}{index:08x}",
        workspace=f"episode-{index:04d}",
        variant="quick",
        seed=index,
        status="failed" if failed else "completed",
        ok=not failed,
        slots=tuple(SlotRow(name=f"player-{(run + slot) % 13}", image="./bot.py", digest="f" * 64) for slot in (0, 1)),
        scores=() if failed else (float(index % 5), float(index % 3)),
        seconds=1.5,
        error_type="player_timeout" if failed else None,
        party="player" if failed else None,
    )


def leave_turns(results: Path, turns: int) -> None:
    """Write the workspace of a run of many episodes with replays of a game of two seats, as the kit writes them."""
    from coworld_core.rules.play import Frame
    from coworld_core.rules.replay import ReplayHeader

    place = results / "turns"
    place.mkdir(parents=True)
    start = RunStarted(what="batch", seq=1, run_id="turns", coworld="game", variant="quick")
    (place / "events.ndjson").write_text(f"{start.model_dump_json()}\n")
    header = ReplayHeader(rules="Game", version="1", config={}, seed=1, seats=2, names=["a", "b"])
    with (place / "episodes.jsonl").open("w") as file:
        for number in range(1, turns // _TURNS_OF_REPLAY + 1):
            writer = ReplayWriter(header)
            for tick in range(_TURNS_OF_REPLAY + 1):
                frame = Frame(tick=tick, drawing="", to_act=(tick % 2,), scores=(tick / 2, tick / 3))
                writer.add(frame, {(tick - 1) % 2: {"take": tick % 3}} if tick else None)
            directory = place / f"episode-{number:04d}"
            directory.mkdir()
            scores = [_TURNS_OF_REPLAY / 2, _TURNS_OF_REPLAY / 3]
            (directory / "replay").write_bytes(writer.finish(reason="over", results={"scores": scores}))
            file.write(row(0, number).model_dump_json() + "\n")


def timed(what: Callable[[], object]) -> dict[str, float]:
    """Seconds that something takes, and those of a processor, which other programs on the machine do not lengthen."""
    begun, used = time.monotonic(), time.process_time()
    what()
    return {"seconds": round(time.monotonic() - begun, 3), "cpu_seconds": round(time.process_time() - used, 3)}


def index_figures(rows: int, alone: int) -> dict[str, Any]:
    """Index, refresh and ask, with an index of its own."""
    figures: dict[str, Any] = {"rows": rows, "alone": alone}
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch, "alone")
        leave_episodes(place, alone)

        def once() -> None:
            with LocalRuns(place, index=Path(scratch, "alone.sqlite3")):
                pass

        figures["index_alone"], figures["refresh_alone"] = timed(once), timed(once)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch, "results")
        leave_runs(place, rows)

        def opened() -> LocalRuns:
            return LocalRuns(place, index=Path(scratch, "index.sqlite3"))

        with opened() as runs:
            pass
        Path(scratch, "index.sqlite3").unlink()

        def again() -> None:
            with opened():
                pass

        figures["index"] = timed(again)
        figures["refresh"] = timed(again)
        with opened() as runs:
            asked = {
                "runs of a game": lambda: runs.runs(RunFilter(game="game-3")),
                "runs with a fault of a player": lambda: runs.runs(RunFilter(fault="player_*", player="player-5")),
                "episodes by player and score": lambda: runs.episodes(
                    RunFilter(player="player-5", min_score=4), limit=50
                ),
                "SQL: mean score by player": lambda: runs.query("SELECT name, avg(score) FROM seats GROUP BY name"),
                "SQL: faults by game": lambda: runs.query(
                    "SELECT coworld, error_type, count(*) FROM episodes GROUP BY 1, 2"
                ),
            }
            figures["queries"] = {words: timed(question) for words, question in asked.items()}
    return figures


def leave_samples(results: Path, samples: int) -> None:
    """Write the workspace of a run of many episodes with samples of a game of two seats, as the kit writes them."""
    place = results / "samples"
    place.mkdir(parents=True)
    start = RunStarted(what="batch", seq=1, run_id="samples", coworld="game", variant="quick")
    (place / "events.ndjson").write_text(f"{start.model_dump_json()}\n")
    header = {"format": SAMPLES_FORMAT, "episode": "e", "names": ["a", "b"]}
    legal = '[{"take":1},{"take":2},{"take":3}]'
    with (place / "episodes.jsonl").open("w") as file:
        for number in range(1, samples // _TURNS_OF_REPLAY + 1):
            directory = place / f"episode-{number:04d}"
            directory.mkdir()
            with (directory / "samples.ndjson").open("w") as written:
                written.write(f"{json.dumps(header)}\n")
                for tick in range(_TURNS_OF_REPLAY):
                    written.write(
                        f'{{"tick":{tick},"time":{tick}.5,"seat":{tick % 2},"observation":{{"left":{tick}}},'
                        f'"legal":{legal},"action":{{"take":{tick % 3}}},"acted":true}}\n'
                    )
                written.write('{"end":"over","complete":true,"scores":[1.0,0.0]}\n')
            file.write(row(0, number).model_dump_json() + "\n")


def export_alone(place: str, to: str, table: str) -> None:
    """Export a table of a run, and print the peak of memory: in a process of its own."""
    with LocalRuns(place, index=Path(to, "index.sqlite3")) as runs:
        before = peak_mib()
        took = timed(lambda: runs.export(Path(to, "out"), tables=(table,)))
    print(json.dumps({**took, "before_mib": before, "peak_mib": peak_mib()}))


def write_alone(count: str, to: str, table: str) -> None:
    """Write as many rows of the same columns with pyarrow alone, from memory."""
    import pyarrow
    import pyarrow.parquet

    before = peak_mib()
    legal = '[{"take":1},{"take":2},{"take":3}]'
    row = {
        "turns": ("/results/turns", "episode-0001", 7, 1, "a", '{"take":1}', None, 1.5, 0.5, False),
        "samples": (
            *("/results/samples", "episode-0001", 7, 1, 1, "a", '{"left":7}', legal, '{"take":1}', True),
            *(None, 1.5, 0.5, False),
        ),
    }[table]
    cells = [row] * 65536
    kinds = {name: "int64" if kind == "time" else kind for name, kind in EXPORTED[table].items()}
    schema = pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in kinds.items()])

    def write() -> None:
        with pyarrow.parquet.ParquetWriter(Path(to, "alone.parquet"), schema, compression="zstd") as writer:
            for start in range(0, int(count), len(cells)):
                part = list(zip(*cells[: int(count) - start], strict=True))
                arrays = [pyarrow.array(column, kind) for column, kind in zip(part, schema.types, strict=True)]
                writer.write_batch(pyarrow.record_batch(arrays, schema=schema))

    print(json.dumps({**timed(write), "before_mib": before, "peak_mib": peak_mib()}))


def export_figures(table: str, rows: int) -> dict[str, Any]:
    """Export turns or samples, a tenth of them, and write as many rows with pyarrow alone."""
    figures: dict[str, Any] = {"rows": rows}
    leave = {"turns": leave_turns, "samples": leave_samples}[table]
    with tempfile.TemporaryDirectory() as scratch:
        for name, count in (("tenth", max(rows // 10, _TURNS_OF_REPLAY)), ("all", rows)):
            place = Path(scratch, name)
            leave(place, count)
            figures[name] = _apart("--export", str(place), str(place), table)
        figures["pyarrow alone"] = _apart("--alone", str(rows), scratch, table)
    return figures


def _apart(*words: str) -> dict[str, Any]:
    return json.loads(run([python(), str(Path(__file__)), *words]).output.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="of episodes in the index")
    parser.add_argument("--alone", type=int, default=20_000, help="runs of one episode, each in a folder of its own")
    parser.add_argument("--turns", type=int, default=1_000_000, help="to export")
    parser.add_argument("--samples", type=int, default=1_000_000, help="to export")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = {
        "benchmark": "records",
        "machine": machine(),
        "index": index_figures(options.rows, options.alone),
        "export": {table: export_figures(table, getattr(options, table)) for table in ("turns", "samples")},
    }
    index = figures["index"]
    asked = {
        "index from nothing": index["index"],
        "look again, nothing changed": index["refresh"],
        f"index of {options.alone:,} runs of one episode": index["index_alone"],
        "look again, nothing changed (those)": index["refresh_alone"],
        **index["queries"],
    }
    rows = [[words, f"{took['seconds']:.3f}", f"{took['cpu_seconds']:.3f}"] for words, took in asked.items()]
    show(f"{options.rows:,} episodes", ["what", "seconds", "of a processor"], rows)
    for table, export in figures["export"].items():
        show(
            f"{export['rows']:,} {table} to Parquet",
            ["what", "seconds", "of a processor", "peak RSS, MiB", "grown by, MiB"],
            [
                [
                    *(name, f"{one['seconds']:.1f}", f"{one['cpu_seconds']:.1f}", f"{one['peak_mib']:.0f}"),
                    f"{one['peak_mib'] - one['before_mib']:.0f}",
                ]
                for name, one in export.items()
                if name != "rows"
            ],
        )
    finish(figures, as_json=options.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--export"]:
        export_alone(*sys.argv[2:])
    elif sys.argv[1:2] == ["--alone"]:
        write_alone(*sys.argv[2:])
    else:
        main()
