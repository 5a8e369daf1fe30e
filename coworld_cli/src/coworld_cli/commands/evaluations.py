"""Commands that measure players: alone, against each other, in mixtures, by what they replace; and show the reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from .._group import NounGroup
from ..options.common import overwrite_option
from ..options.declarations import SectionOption, takes
from ..options.play_options import REQUIREMENTS, EvaluationOptions
from ..options.values import DIRECTORY, FILE, RATINGS
from ..output import Output, output_options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from coworld_core.evaluation.comparison import ComparisonReport
    from coworld_core.evaluation.ratings import RatingName
    from coworld_core.evaluation.report_contents import ShownReport
    from coworld_runner.episode.run_options import BatchArguments
    from coworld_runner.evaluation import EvaluationRules
    from coworld_runner.package.resolver import Package

    from ..event_loop import Running

    _Report = TypeVar("_Report", bound=ShownReport)

__all__ = ["commands", "passes"]

commands = NounGroup()

_BETTER = "better"
_FAILED = ("worse", "not_better")
_ELSEWHERE = ("watch", "manifest", "players", "player", "human", "admin", "verify_replay", "resume", "episodes")
"""Options for playing that commands which measure declare differently, or do not need."""
_SEED = {"default": 0, "show_default": True, "help": "Base seed, from which the seed of every block is derived."}
_OUTPUT = {
    "help": "Directory for the evidence: new, empty, or that of the same command, which then resumes. "
    "Default: a fresh one under results/ beside the manifest."
}
_MEASURING = ("watch", "max_blocks", *(name for name in _ELSEWHERE if name != "episodes"))
"""The same, for commands that take a number of episodes instead of blocks."""
_EPISODES = {"default": 50, "help": "Minimum number of episodes to play: the last block is played whole."}
_game_option = click.option(
    "--game",
    "-m",
    cls=SectionOption,
    section="What to play",
    default=".",
    metavar="MANIFEST",
    help="The game: a file, a directory that holds one, an address, or a cow_… id.  [default: the current directory]",
)
_markdown_option = click.option(
    "--markdown",
    is_flag=True,
    cls=SectionOption,
    section="Evidence",
    help="Write the result as Markdown, for a pull request.",
)


@commands.command("compare")
@click.argument("new")
@click.argument("old")
@_game_option
@takes(
    "options",
    EvaluationOptions,
    without=_ELSEWHERE,
    seed=_SEED,
    output_dir=_OUTPUT,
    require={
        "type": click.Choice([_BETTER, *REQUIREMENTS]),
        "section": "What counts",
        "help": f"Fail unless NEW is {_BETTER}; or refuse to start on a backend that cannot enforce this. Repeatable.",
    },
)
@click.option(
    "--margin",
    cls=SectionOption,
    section="What counts",
    type=click.FloatRange(min=0),
    metavar="X",
    help="Differences of mean scores up to this do not matter: stop when there is certainly no larger one.",
)
@click.option(
    "--elo1",
    cls=SectionOption,
    section="What counts",
    type=float,
    metavar="ELO",
    help="Test instead whether NEW is better by more than --elo0, as Fishtest does: an Elo difference worth having.",
)
@click.option(
    "--elo0",
    cls=SectionOption,
    section="What counts",
    type=float,
    metavar="ELO",
    help="In that test, an Elo difference that is not worth having.  [default: 0]",
)
@click.option(
    "--alpha",
    cls=SectionOption,
    section="What counts",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    metavar="RISK",
    help="How often an equal player may be called better or worse, or one of --elo0 pass.",
)
@click.option(
    "--beta",
    cls=SectionOption,
    section="What counts",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    metavar="RISK",
    help="How often a player that is better by --elo1 may fail that test.",
)
@click.option(
    "--plan",
    "only_plan",
    is_flag=True,
    cls=SectionOption,
    section="What to play",
    help="Play nothing: say how many blocks it takes for which difference.",
)
@_markdown_option
@output_options
def compare(
    out: Output,
    options: EvaluationOptions,
    new: str,
    old: str,
    game: str,
    margin: float | None,
    elo0: float | None,
    elo1: float | None,
    alpha: float,
    beta: float,
    only_plan: bool,
    markdown: bool,
) -> int:
    """Find out whether one player is better than another.

    NEW and OLD are files or directories of yours, ids of bundled players, or images. They play in blocks, each on one
    seed and in both orders; with more than two seats, one after the other in the same seat. The comparison ends as soon
    as the evidence decides: better, worse, no difference worth having (--margin), or not enough evidence.

    Exit status: 1 when NEW is worse, fails a test (--elo1), or nothing could be measured; with --require better
    whenever it is not better.
    """
    from ..event_loop import run_async

    if elo0 is not None and elo1 is None:
        raise click.UsageError("--elo0 needs --elo1.", click.get_current_context())
    _refuse({"--margin": margin is not None and elo1 is not None}, "and --elo1 exclude each other.")
    must_win = _BETTER in options.require
    options = options.but(manifest=game, require=tuple(word for word in options.require if word != _BETTER))
    if only_plan:
        _refuse({"--markdown": markdown, "--output-dir": options.output_dir is not None}, "has no meaning with --plan.")
        terms = {"margin": margin, "elo0": elo0, "elo1": elo1, "alpha": alpha, "beta": beta}
        return run_async(out, lambda running: _forecast(options, running, new, old, terms))

    async def body(running: Running) -> int:
        from coworld_runner.evaluation import compare

        report, workspace = await _play(
            options,
            running,
            (new, old),
            lambda package, run, rules: compare(
                package, new, old, rules=rules, margin=margin, elo0=elo0, elo1=elo1, alpha=alpha, beta=beta, **run
            ),
        )
        return _show(report, workspace, out, ok=passes(report, must_win=must_win), markdown=markdown)

    return run_async(out, body)


@commands.command("rank")
@click.argument("manifest")
@click.argument("bots", metavar="PLAYER PLAYER...", nargs=-1, required=True)
@click.option(
    "--rating",
    type=click.Choice(RATINGS),
    cls=SectionOption,
    section="What counts",
    help="Rating system; the same command with another one rates the episodes again, without playing.  "
    "[default: plackett-luce for games of more than two seats, otherwise bradley-terry]",
)
@takes("options", EvaluationOptions, without=_ELSEWHERE, seed=_SEED, output_dir=_OUTPUT)
@_markdown_option
@output_options
def rank(
    out: Output,
    options: EvaluationOptions,
    manifest: str,
    bots: tuple[str, ...],
    rating: RatingName | None,
    markdown: bool,
) -> int:
    """Rank several players.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id. PLAYER is a file
    or a directory of yours, the id of a bundled player, or an image.

    They play a round robin of blocks: each has a group of as many players as there are seats, on one seed, with every
    player in every seat. It ends when all players can be told apart, or after --max-blocks.
    """
    from ..event_loop import run_async

    async def body(running: Running) -> int:
        from coworld_runner.evaluation import rank

        report, workspace = await _play(
            options.but(manifest=manifest),
            running,
            bots,
            lambda package, run, rules: rank(package, bots, rating=rating, rules=rules, **run),
        )
        return _show(report, workspace, out, ok=_measured(report), markdown=markdown)

    return run_async(out, body)


@commands.command("scrimmage")
@click.argument("manifest")
@click.argument("bot")
@takes(
    "options",
    EvaluationOptions,
    without=("manifest", "players", "human", "admin", "resume", "watch", "max_blocks"),
    output_dir=_OUTPUT,
    episodes={"help": "Number of episodes. With 2 or more, each has its own seed, and you get means with intervals."},
    seed={"help": "Put this seed into the game config; with several episodes, derive their seeds from it."},
)
@_markdown_option
@output_options
def scrimmage(out: Output, options: EvaluationOptions, manifest: str, bot: str, markdown: bool) -> int:
    """Measure a player that plays itself in every seat.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id. BOT is a file, a
    directory, the id of a bundled player, or an image.

    A single episode is shown as run shows it. With -n 2 or more you get the mean score, how far scores spread,
    what each seat is worth, faults and times.
    """
    from ..event_loop import run_async
    from .episodes import play_episodes

    options = options.but(manifest=manifest)
    if options.episodes == 1:
        given = {
            "--metric": bool(options.metric),
            "--forfeit": options.forfeit is not None,
            "--count-starved": options.count_starved,
            "--markdown": markdown,
        }
        _refuse(given, "needs -n 2 or more: one episode measures nothing.")
        return run_async(out, lambda running: play_episodes(options.but(players=(bot,)), running))
    _refuse({"--verify-replay": options.verify_replay}, "is for one episode.")

    async def body(running: Running) -> int:
        from coworld_runner.evaluation import scrimmage

        report, workspace = await _play(
            options,
            running,
            (bot,),
            lambda package, run, rules: scrimmage(package, bot, episodes=options.episodes, rules=rules, **run),
        )
        return _show(report, workspace, out, ok=_measured(report), markdown=markdown)

    return run_async(out, body)


@commands.command("mix")
@click.argument("manifest")
@click.option(
    "--player",
    "bots",
    cls=SectionOption,
    section="What to play",
    multiple=True,
    metavar="PLAYER[,proportion=X]",
    help="A player, and its share of the seats relative to the others; repeatable.  [default proportion: 1]",
)
@takes("options", EvaluationOptions, without=_MEASURING, seed=_SEED, output_dir=_OUTPUT, episodes=_EPISODES)
@_markdown_option
@output_options
def mix(out: Output, options: EvaluationOptions, manifest: str, bots: tuple[str, ...], markdown: bool) -> int:
    """Measure players that share the seats.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id. PLAYER is a file,
    a directory, the id of a bundled player, or an image.

    The seats are shared in proportion. Each block is one seed and a full rotation, so every player has every seat
    equally often. You get means by player, by seat and by pair.
    """
    from ..event_loop import run_async

    players = _proportions(bots)

    async def body(running: Running) -> int:
        from coworld_runner.evaluation import mix

        report, workspace = await _play(
            options.but(manifest=manifest),
            running,
            tuple(players),
            lambda package, run, rules: mix(package, players, episodes=options.episodes, rules=rules, **run),
        )
        return _show(report, workspace, out, ok=_measured(report), markdown=markdown)

    return run_async(out, body)


@commands.command("pickup")
@click.argument("manifest")
@click.argument("bot")
@click.option(
    "--pool",
    cls=SectionOption,
    section="What to play",
    multiple=True,
    metavar="PLAYER",
    help="A player that BOT replaces; repeatable.",
)
@click.option(
    "--team",
    is_flag=True,
    cls=SectionOption,
    section="What counts",
    help="Measure the mean of the whole table: for games that score a team with one number.",
)
@click.option(
    "--credit",
    type=click.Choice(["shapley"]),
    cls=SectionOption,
    section="What counts",
    help="Also measure what BOT, each player of the pool, and each pair of them add to the mean of the whole table.",
)
@takes("options", EvaluationOptions, without=_MEASURING, seed=_SEED, output_dir=_OUTPUT, episodes=_EPISODES)
@_markdown_option
@output_options
def pickup(
    out: Output,
    options: EvaluationOptions,
    manifest: str,
    bot: str,
    pool: tuple[str, ...],
    team: bool,
    credit: Literal["shapley"] | None,
    markdown: bool,
) -> int:
    """Measure what a player adds beyond the players it replaces.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id. BOT and PLAYER are
    files, directories, ids of bundled players, or images.

    Each block is one seed, played with BOT in no seat, in one, and so on up to all; the pool has the other seats. The
    value is BOT's score in its seats minus the pool's score there.
    """
    from ..event_loop import run_async

    async def body(running: Running) -> int:
        from coworld_runner.evaluation import pickup

        report, workspace = await _play(
            options.but(manifest=manifest),
            running,
            (bot, *pool),
            lambda package, run, rules: pickup(
                package,
                bot,
                pool,
                episodes=options.episodes,
                team=team,
                credit=credit or "",
                rules=rules,
                **run,
            ),
            others=credit is not None,
        )
        return _show(report, workspace, out, ok=_measured(report), markdown=markdown)

    return run_async(out, body)


@commands.group("evaluation", cls=NounGroup)
def evaluation() -> None:
    """Diagnose a player, and report what was measured."""


@evaluation.command("diagnose")
@click.argument("manifest")
@click.argument("bot")
@click.option(
    "--baseline",
    cls=SectionOption,
    section="What to play",
    metavar="PLAYER",
    help="A weak player: it scores 0 on the normalised scale.",
)
@click.option(
    "--strong",
    cls=SectionOption,
    section="What to play",
    metavar="PLAYER",
    help="A strong player: it scores 1 on the normalised scale.",
)
@click.option(
    "--compare",
    "before",
    cls=SectionOption,
    section="What counts",
    type=DIRECTORY,
    metavar="DIR",
    help="Say what has certainly changed since the diagnosis in this directory.",
)
@takes(
    "options",
    EvaluationOptions,
    without=_ELSEWHERE,
    seed=_SEED,
    output_dir=_OUTPUT,
    variant={"help": "Variant to play, or a pattern ('small-*') for several, block by block. Default: all of them."},
    max_blocks={"default": 10, "show_default": True, "help": "Play this many blocks of each variant."},
)
@_markdown_option
@output_options
def diagnose(
    out: Output,
    options: EvaluationOptions,
    manifest: str,
    bot: str,
    baseline: str | None,
    strong: str | None,
    before: Path | None,
    markdown: bool,
) -> int:
    """Find out what is wrong with a player.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id. BOT and PLAYER are
    files, directories, ids of bundled players, or images.

    BOT plays a battery over the game's variants. Each block is one seed: BOT with itself in every seat, in the first
    two blocks twice, and then in one seat among the game's own players, in turn with --baseline and --strong. You get
    faults, turns that BOT let pass, times, the effects of seats and seeds, and what to look at first.
    """
    from ..event_loop import run_async

    async def body(running: Running) -> int:
        from coworld_runner.evaluation import diagnose

        report, workspace = await _play(
            options.but(manifest=manifest),
            running,
            [player for player in (bot, baseline, strong) if player is not None],
            lambda package, run, rules: diagnose(
                package, bot, baseline=baseline, strong=strong, before=before, rules=rules, **run
            ),
            others=True,
        )
        return _show(report, workspace, out, ok=_measured(report), markdown=markdown)

    return run_async(out, body)


@evaluation.command("report")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=DIRECTORY)
@click.option("--html", type=FILE, metavar="FILE", help="Write a page instead: one self-contained file.")
@overwrite_option
@click.option("--markdown", is_flag=True, help="Write Markdown, for a pull request.")
@output_options
def report(out: Output, runs: tuple[Path, ...], html: Path | None, overwrite: bool, markdown: bool) -> int:
    """Show the results of any of these measurements.

    RUN is a directory that compare, rank, scrimmage, mix, pickup or diagnose wrote, even if it has not ended.
    """
    from coworld_core.evaluation.markdown import report_markdown
    from coworld_runner.evaluation import read_evaluation, report_page
    from coworld_runner.evaluation.evaluation_page import different_games

    from .. import exitcodes
    from ..files import target_file, write_whole
    from ..render.evaluation_text import evaluation_result
    from ..render.text import shown_path

    if html is not None and markdown:
        raise click.UsageError("--html and --markdown exclude each other.", click.get_current_context())
    page = target_file(html, "", overwrite=overwrite) if html is not None else None
    played = [read_evaluation(run) for run in runs]
    differ = different_games([one.report for one in played])
    if page is not None:
        write_whole(page, report_page(played, beside=page.parent).encode())
    out.answer(
        {
            "html": str(page) if page is not None else None,
            "different_games": differ or None,
            "runs": [{"workspace": str(one.workspace), **one.report.model_dump(mode="json")} for one in played],
        }
    )
    if differ:
        out.warn(differ)
    if page is not None:
        out.say(f"Page: {shown_path(page)}")
    else:
        texts = [
            report_markdown(one.report).rstrip("\n") if markdown else evaluation_result(one.report, one.workspace)
            for one in played
        ]
        out.say("\n\n".join(texts))
    return exitcodes.OK


@evaluation.command("replay")
@click.argument("run", metavar="RUN", type=DIRECTORY)
@click.argument("episode", metavar="EPISODE")
@click.option(
    "--game", "-m", metavar="MANIFEST", help="The game, if it is no longer where it was: a directory or a manifest."
)
@output_options
def replay(out: Output, run: Path, episode: str, game: str | None) -> int:
    """Play an episode again of which only its row was kept.

    RUN is the directory of a measurement or a tournament, EPISODE the key of one of its rows: block-0007.1-2. It is
    played with the same seed and the same players, and leaves its evidence in RUN, with a replay. An episode that has
    its evidence is not played again.

    Exit status: 1 when it ended differently, as a player does not always do the same with the same seed.
    """
    from ..event_loop import run_async

    async def body(running: Running) -> int:
        del running
        from coworld_runner.evaluation import play_row_again

        from .. import exitcodes
        from ..render.text import command_line, shown_path

        again = await play_row_again(run, episode, what=game)
        out.answer(
            {
                "workspace": str(again.directory),
                "played": again.played,
                "same": again.same,
                **again.record.model_dump(mode="json"),
            }
        )
        if not again.same:
            out.warn("it ended differently: a player does not always do the same with the same seed.")
        out.say(f"{again.record}\nShow it with {command_line('replay', shown_path(again.directory))}")
        return exitcodes.OK if again.same else exitcodes.ANSWER_IS_NO

    return run_async(out, body)


def _refuse(given: Mapping[str, bool], why: str) -> None:
    """Refuse options that have no meaning here.

    Raises:
        click.UsageError: One of the options was given.
    """
    for option, is_given in given.items():
        if is_given:
            raise click.UsageError(f"{option} {why}", click.get_current_context())


def _proportions(bots: Sequence[str]) -> dict[str, float]:
    """Players and their shares of the seats.

    Raises:
        click.UsageError: No player is named, a proportion cannot be read, or a player is named twice.
    """
    if not bots:
        raise click.UsageError(
            "This measures players: name them with --player. To play an episode, use `coworld run MANIFEST`.",
            click.get_current_context(),
        )
    players: dict[str, float] = {}
    for bot in bots:
        name, given, text = bot.rpartition(",proportion=")
        try:
            proportion = float(text) if given else 1.0
        except ValueError:
            raise click.UsageError(
                f"--player {bot!r}: {text!r} is not a proportion. Write it as in {name},proportion=3.",
                click.get_current_context(),
            ) from None
        if (name or text) in players:
            raise click.UsageError(
                f"--player {name or text!r} is given twice: give it a larger proportion instead.",
                click.get_current_context(),
            )
        players[name or text] = proportion
    return players


async def _forecast(options: EvaluationOptions, running: Running, new: str, old: str, terms: Mapping[str, Any]) -> int:
    """Say how many blocks a comparison takes."""
    from coworld_runner.evaluation.comparison import ComparisonTerms, forecast_comparison

    from .. import exitcodes
    from ..render.evaluation_text import forecast_text
    from ..run_preparation import evaluation_rules, find_package

    package = await find_package(options, running)
    found = await forecast_comparison(
        package, new, old, rules=evaluation_rules(options, package), terms=ComparisonTerms(**terms)
    )
    running.out.answer(found.model_dump(mode="json"))
    running.out.say(forecast_text(found))
    return exitcodes.OK


async def _play(
    options: EvaluationOptions,
    running: Running,
    players: Sequence[str],
    play: Callable[[Package, BatchArguments, EvaluationRules], Awaitable[_Report]],
    *,
    others: bool = False,
) -> tuple[_Report, Path]:
    """Play an evaluation and show its progress; returns its report and its directory.

    Args:
        options: The options of the command.
        running: The command that runs.
        players: The players.
        play: Plays it.
        others: Whether the game's own players sit among them even if there are only two seats.
    """
    from coworld_core.ids import new_run_id
    from coworld_runner.evaluation.entrants import Entrants
    from coworld_runner.package.player_names import read_players

    from ..render.progress import show_progress
    from ..render.text import shown_path
    from ..run_preparation import (
        batch_arguments,
        episode_arguments,
        evaluation_rules,
        evidence_directory,
        find_package,
        opened_for_measuring,
        player_secrets,
        tell_players,
    )

    out = running.out
    package = await find_package(options, running)
    # Report a wrong player before opening a backend
    named = read_players(players, package)
    rules = evaluation_rules(options, package, await player_secrets(options, out))
    run_id = new_run_id()
    workspace = evidence_directory(options, package, run_id)
    where = "" if options.output_dir is not None else f" with -o {shown_path(workspace)}"
    # Whether variants fit together is for the measurement to say
    entrants = Entrants(package, {player: player for player in players}, rules, any_seats=True)
    others = others or entrants.seats > 2
    async with opened_for_measuring(options, package, entrants, running, others=others) as backend:
        running.to_go_on = f"Run the same command{where} again to resume."
        own, registered = [player.own for player in named], [player.registered for player in named]
        tell_players(options, own, rules.secret_env, package, backend, out, registered=registered, measured=True)
        with show_progress(running, package.manifest.game.name) as progress:
            episode = episode_arguments(options, progress, backend, workspace, run_id, watch=out.live)
            run = batch_arguments(options, progress, episode)
            return await play(package, run, rules), workspace


def _measured(report: ShownReport) -> bool:
    """Whether anything could be measured."""
    from coworld_core.evaluation.report_base import UNMEASURED

    return report.stopped not in UNMEASURED


def passes(report: ComparisonReport, *, must_win: bool) -> bool:
    """Whether a comparison passes.

    Args:
        report: The comparison's report.
        must_win: Whether NEW must be better; otherwise it must not be worse, nor fail a test.
    """
    return report.verdict == "better" if must_win else report.verdict not in _FAILED and _measured(report)


def _show(report: ShownReport, workspace: Path, out: Output, *, ok: bool, markdown: bool) -> int:
    """Write the result of an evaluation, and return the exit status."""
    from coworld_core.evaluation.markdown import report_markdown

    from .. import exitcodes
    from ..render.evaluation_text import evaluation_result

    names = {"plan": "plan.json", "episodes": "episodes.jsonl", "report": "report.json", "markdown": "report.md"}
    out.answer(
        {
            "workspace": str(workspace),
            "paths": {name: str(workspace / file) for name, file in names.items()},
            "ok": ok,
            **report.model_dump(mode="json"),
        }
    )
    out.say(report_markdown(report).rstrip("\n") if markdown else evaluation_result(report, workspace))
    return exitcodes.OK if ok else exitcodes.ANSWER_IS_NO
