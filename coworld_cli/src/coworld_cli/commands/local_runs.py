"""What was played on this machine: list it, look at it, label it, ask about it, export it, and remove it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import exitcodes
from .._group import NounGroup
from ..options.declarations import Options, SectionCommand, option, refuse_options, takes
from ..options.values import DIRECTORY, PathType
from ..output import Output, output_options
from ..render.text import shown_path
from .verifications import key_option, show_summary, told, trusted_keys

if TYPE_CHECKING:
    from coworld_core.records import RunEntry, RunFilter
    from coworld_runner.records import LocalRuns

    from ..event_loop import Running


__all__ = ["PlaceOptions", "commands"]

commands = NounGroup()


class PlaceOptions(Options):
    """Where runs are looked for."""

    root: tuple[Path, ...] = option(
        "--root",
        section="Where it runs",
        type=DIRECTORY,
        multiple=True,
        metavar="DIR",
        help="Only runs at or below this directory, which is remembered; repeatable.  [default: all that are known, "
        "and those at or below the current directory]",
    )
    index: Path | None = option(
        "--index",
        section="Where it runs",
        type=PathType(dir_okay=False),
        metavar="FILE",
        help="The index, which is made anew if it is missing.  [default: ~/.cache/coworld/runs.sqlite3]",
    )

    def opened(self, out: Output) -> LocalRuns:
        """The runs on this machine, to be entered."""
        from coworld_runner.records import LocalRuns

        return LocalRuns(*self.root, index=self.index, on_progress=out.counted("runs looked at"))


class ReadingOptions(Options):
    """Whose runs are read."""

    store: str | None = option(
        "--store",
        section="Where it runs",
        metavar="URL",
        help="The runs of this store instead: that of `--store` when they were begun, or what several are right below.",
    )

    def opened(self, places: PlaceOptions, out: Output) -> LocalRuns:
        """The runs, to be entered."""
        if self.store is None:
            return places.opened(out)
        from coworld_runner.jobs import StoredRuns

        refuse_options({"root", "index"}, "is for runs on this machine.")
        return StoredRuns(self.store, on_progress=out.counted("runs looked at"))


class SearchOptions(PlaceOptions):
    """Which runs are meant."""

    game: str = option("--game", "-m", default="", metavar="NAME", help="Of this Coworld; `*` and `?` are wildcards.")
    variant: str = option("--variant", default="", metavar="ID", help="Of this variant; wildcards as above.")
    kind: str = option(
        "--kind", default="", metavar="KIND", help="episode, batch, compare, rank, mix, …, tournament, improvement."
    )
    player: str = option("--player", default="", metavar="PLAYER", help="With this player: its name, id or image.")
    digest: str = option(
        "--digest", default="", metavar="DIGEST", help="With a player of this content (its beginning)."
    )
    label: tuple[str, ...] = option(
        "--label", multiple=True, metavar="NAME[=VALUE]", help="With this label; repeatable. VALUE may have wildcards."
    )
    status: str = option(
        "--status", default="", metavar="STATUS", help="completed, failed, interrupted, running, or lost (killed)."
    )
    fault: str = option(
        "--fault", default="", metavar="TYPE", help="Episodes with a fault of this type or party (player); * for any."
    )
    min_score: float | None = option("--min-score", type=float, metavar="N", help="A score of at least this.")
    max_score: float | None = option("--max-score", type=float, metavar="N", help="A score of at most this.")
    since: str = option("--since", default="", metavar="TIME", help="Begun since: 2026-11-26, or 12h, 7d ago.")
    until: str = option("--until", default="", metavar="TIME", help="Begun before.")

    def asked(self) -> RunFilter:
        """What is asked for."""
        from coworld_core.records import RunFilter, label_patterns, read_moment

        return RunFilter(
            game=self.game,
            variant=self.variant,
            kind=self.kind,
            player=self.player,
            digest=self.digest,
            labels=label_patterns(self.label),
            status=self.status,
            fault=self.fault,
            min_score=self.min_score,
            max_score=self.max_score,
            since=read_moment(self.since) if self.since else None,
            until=read_moment(self.until) if self.until else None,
        )


def _warn(out: Output, runs: LocalRuns) -> None:
    for notice in runs.notices:
        out.warn(notice)


@commands.group("runs", cls=NounGroup)
def runs() -> None:
    """List, query, verify, label and export what was played here.

    Every run leaves a directory, which is the truth. One index over them is brought up to date by each of these
    commands: it can be deleted at any time. Runs are found where commands left them, at or below the current
    directory, and in every --root.
    """


_limit = click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="Show at most this many."
)
_run = click.argument("run", metavar="RUN")


@runs.command("list", cls=SectionCommand)
@takes("options", SearchOptions)
@takes("reading", ReadingOptions)
@click.option("--episodes", is_flag=True, help="List single episodes, also those of runs of many.")
@_limit
@output_options
def list_runs(out: Output, options: SearchOptions, reading: ReadingOptions, episodes: bool, limit: int) -> int:
    """List runs, the newest first.

    What an episode must have (a player, a score, a fault, a label) selects runs of which one episode has it.
    """
    from ..render.run_tables import episodes_text, runs_text

    with reading.opened(options, out) as local:
        _warn(out, local)
        if episodes:
            found = local.episodes(options.asked(), limit=limit + 1)
            shown = found.episodes[:limit]
            text = episodes_text(shown, more=len(found) > limit)
        else:
            found = local.runs(options.asked(), limit=limit + 1)
            shown = found.runs[:limit]
            text = runs_text(shown, more=len(found) > limit)
        out.answer(
            {
                "episodes" if episodes else "runs": [one.to_json() for one in shown],
                "more": len(found) > limit,
                "notices": local.notices,
            }
        )
        out.say(text)
    return exitcodes.OK


@runs.command("show", cls=SectionCommand)
@_run
@takes("options", PlaceOptions)
@takes("reading", ReadingOptions)
@_limit
@output_options
def show_run(out: Output, options: PlaceOptions, reading: ReadingOptions, run: str, limit: int) -> int:
    """Show a run, and its episodes.

    RUN is the directory of a run, `latest`, one episode of a run of many (`results/latest/3`), or the beginning of a
    run's id. With --store, it is the last part of a run's address, `latest`, or an episode (`3`, `latest/3`).
    """
    from ..render.run_tables import episode_text, run_text

    with reading.opened(options, out) as local:
        _warn(out, local)
        found = local.find(run)
        if found.episode is not None:
            evidence = local.evidence(found.episode)
            out.answer({"run": found.run.to_json(), "episode": found.episode.to_json(), "evidence": [*evidence]})
            out.say(episode_text(found.episode, evidence))
            return exitcodes.OK
        episodes = local.episodes_of(found.run, limit=limit)
        out.answer({"run": found.run.to_json(), "episodes": [one.to_json() for one in episodes]})
        out.say(run_text(found.run, episodes.episodes))
    return exitcodes.OK


@runs.command("query", cls=SectionCommand)
@click.argument("sql")
@click.option(
    "--parquet",
    type=PathType(),
    multiple=True,
    metavar="PATH",
    help="Also ask these Parquet files, each a table by its name (turns.parquet: turns); or a directory of them.",
)
@takes("options", PlaceOptions)
@takes("reading", ReadingOptions)
@output_options
def query(out: Output, options: PlaceOptions, reading: ReadingOptions, sql: str, parquet: tuple[Path, ...]) -> int:
    """Ask in SQL.

    The tables are runs, episodes, seats and labels, joined by run and key, and those of --parquet. A query is one
    SELECT, as SQLite reads it, and only reads. --parquet needs pyarrow: pip install 'coworld-core[parquet]'.
    """
    from ..render.run_tables import query_text

    with reading.opened(options, out) as local:
        _warn(out, local)
        found = local.query(sql, parquet=parquet)
        out.answer({"columns": list(found.columns), "rows": found.rows})
        out.say(query_text(found))
    return exitcodes.OK


@runs.command("label", cls=SectionCommand)
@_run
@click.argument("labels", nargs=-1, required=True, metavar="NAME=VALUE...")
@takes("options", PlaceOptions)
@output_options
def label(out: Output, options: PlaceOptions, run: str, labels: tuple[str, ...]) -> int:
    """Label a run, or one episode of a run of many; `NAME=` takes a label away.

    Labels are kept in labels.json in the run's directory.
    """
    from coworld_core.records import label_changes

    from ..render.run_tables import labels_text

    with options.opened(out) as local:
        found = local.label(run, label_changes(labels))
        one = found.episode or found.run
        out.answer(
            {
                "run": str(found.run.path),
                "key": found.episode.key if found.episode is not None else "",
                "labels": dict(one.labels),
            }
        )
        out.say(labels_text(one.labels))
    return exitcodes.OK


@runs.command("rm", cls=SectionCommand)
@click.argument("named", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", "-y", is_flag=True, help="Remove without asking.")
@takes("options", PlaceOptions)
@output_options
def remove(out: Output, options: PlaceOptions, named: tuple[str, ...], yes: bool) -> int:
    """Remove runs that are over: their directories, with what the runs have written.

    A run that is going on is refused, and so is a directory with files that no run has written. Without --yes, the
    command asks, or only says what it would remove.
    """
    from coworld_core.errors import CoworldError

    from ..manifest_fixes import may_ask
    from ..render.run_tables import runs_text

    with options.opened(out) as local:
        found = [local.find(word).run for word in named]
        agreed = yes
        if not yes:
            out.show(runs_text(found, more=False))
            agreed = may_ask() and click.confirm("Remove these directories?", err=True)
        removed: list[RunEntry] = []
        try:
            removed += (local.remove(run.path) for run in found if agreed)
        except CoworldError:
            for run in removed:
                out.note(f"Removed: {shown_path(run.path)}")
            raise
        out.answer(
            {"removed": [str(run.path) for run in removed], "kept": [] if agreed else [str(one.path) for one in found]}
        )
        for run in removed:
            out.say(f"Removed: {shown_path(run.path)}")
        if not agreed:
            out.say("Nothing was removed: add --yes to do so.")
    return exitcodes.OK if agreed else exitcodes.ANSWER_IS_NO


@runs.command("verify", cls=SectionCommand)
@click.argument("package", required=False, metavar="[PACKAGE]")
@key_option
@takes("options", SearchOptions)
@output_options
def verify_runs(out: Output, options: SearchOptions, package: str | None, keys: tuple[Path, ...]) -> int:
    """Verify that runs are what their records say, as `verify` does for one.

    Each run that is not is named, and at the end there is a summary. Runs that go on are passed over. The exit status
    is 1 if anything differs, else 4 if a run cannot be played again.
    """
    from ..event_loop import run_async

    async def work(_: Running) -> int:
        from coworld_runner.certification.verification import verify_local_runs

        trusted = await trusted_keys(keys)
        with options.opened(out) as local:
            _warn(out, local)
            found = local.runs(options.asked()).runs
            return show_summary(out, await verify_local_runs(found, game=package, trusted=trusted, tell=told(out)))

    return run_async(out, work)


@runs.command("export", cls=SectionCommand)
@click.argument("directory", type=DIRECTORY, metavar="DIR")
@click.option(
    "--table",
    "tables",
    type=click.Choice(["episodes", "seats", "turns", "samples", "events"]),
    multiple=True,
    help="Only this table; repeatable.",
)
@click.option("--overwrite", is_flag=True, help="Replace files of these names.")
@takes("options", SearchOptions)
@output_options
def export(out: Output, options: SearchOptions, directory: Path, tables: tuple[str, ...], overwrite: bool) -> int:
    """Write episodes, seats, turns, samples and events as Parquet files, for data frames and training.

    Turns come from the replays of games of the kit: what each seat did, with score and reward where the game gives
    them. Samples are of episodes that were recorded (--record samples). Needs pyarrow: pip install
    'coworld-core[parquet]'.
    """
    from ..render.run_tables import export_text

    with options.opened(out) as local:
        _warn(out, local)
        chosen: dict[str, Any] = {"tables": tables} if tables else {}
        done = local.export(
            directory, options.asked(), overwrite=overwrite, on_progress=out.counted("episodes written"), **chosen
        )
        for notice in done.notices:
            out.note(notice)
        out.answer(
            {
                "directory": str(done.directory),
                "tables": {table: {"path": str(done.path(table)), "rows": rows} for table, rows in done.rows.items()},
                "notices": list(done.notices),
            }
        )
        out.say(export_text(done))
    return exitcodes.OK
