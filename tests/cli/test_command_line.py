"""The command line itself: help, lazy commands, options, and how errors and exit statuses come about."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support.cli_kit import command, coworld, environment, heavy

from coworld_cli import _group, event_loop, exitcodes, failures, former_words
from coworld_cli.commands.episodes import MEASURING
from coworld_cli.examples import examples_of
from coworld_cli.main import cli
from coworld_cli.options.declarations import takes
from coworld_cli.options.play_options import PlayOptions
from coworld_core.errors import (
    BackendUnavailable,
    CapabilityError,
    CertificationError,
    CoworldError,
    EnvironmentFault,
    EpisodeError,
    ImageError,
    ManifestError,
    NotReadyError,
    RemoteError,
    UsageError,
    WorkspaceError,
)
from coworld_core.issues import Issue, Report
from coworld_runner.backend import Limits
from coworld_runner.certification import CertifyOptions
from coworld_runner.episode.episode_options import EpisodeOptions

COMMANDS = [
    *("demo", "run", "run-episode", "play", "replay"),
    *("compare", "rank", "scrimmage", "mix", "pickup", "tournament", "evaluation"),
    *("init", "dev", "validate", "build", "certify", "game", "schema", "kubernetes"),
    *("docs", "doctor", "clean", "version"),
]
"""In the order of the help."""

LOADED = "import sys, json, atexit; atexit.register(lambda: sys.stderr.write('\\n' + json.dumps(sorted(sys.modules))))"


def loaded_by(*commands: str) -> set[str]:
    """Modules that commands, one after another, have loaded by the end of the last."""
    calls = [shlex.split(words) for words in commands]
    code = f"{LOADED}\nfrom coworld_cli.main import main\nfor words in {calls!r}:\n    assert main(words) == 0"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True, timeout=60
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


# --- help -----------------------------------------------------------------------------------------------------------


def test_the_whole_help_lists_every_command_in_order() -> None:
    shown = CliRunner(env={"COLUMNS": "140"}).invoke(cli, ["--help-all"]).output
    first = [line.split()[0] for line in shown.splitlines() if line.startswith("  ") and line.split()]
    assert [word for word in first if word in COMMANDS] == COMMANDS
    assert set(cli.list_commands(click.Context(cli))) <= set(first)
    assert "Exit status: 0 ok" in shown
    assert "COWORLD_<COMMAND>_<OPTION>" in shown
    assert "_COWORLD_COMPLETE=bash_source" in shown


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("args", [[], ["--help"], ["-h"]])
def test_the_help_fits_a_screen(args: list[str], columns: int) -> None:
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, args)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= columns
    explained = [line.split()[0] for line in lines[lines.index("Start with:") + 1 : lines.index("More:") - 1]]
    named = [word for line in lines[lines.index("More:") + 1 : -2] for word in re.findall(r"[\w-]+(?=,|$)", line)]
    assert explained[0] == "demo"
    assert {*explained, *named} <= set(cli.list_commands(click.Context(cli)))
    assert {"certify", "mix", "login", "submit"} <= set(named)
    assert "coworld --help-all lists all commands" in lines[-1]


def test_short_help_of_the_table_is_the_command_s_own() -> None:
    context = click.Context(cli, info_name="coworld")
    listed = {
        line.split()[0]: line
        for line in CliRunner(env={"COLUMNS": "140"}).invoke(cli, ["--help-all"]).output.splitlines()
        if line.startswith("  ")
    }
    for name in cli.list_commands(context):
        found = cli.get_command(context, name)
        assert found is not None
        if found.name != name:
            assert f"The same as {found.name}, by its published name." in listed[name]
            continue
        first = (found.help or "").split("\n")[0]
        assert " ".join(listed[name].split()[1:]) == first


def test_help_loads_next_to_nothing() -> None:
    assert heavy(loaded_by(*(f"{name} --help" for name in ("", *COMMANDS)))) == set()


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with its words; other names of a command are left out."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if command.name != name:
            continue
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


LEAVES = {" ".join(path): command for path, command in leaves(cli)}
UUID = "0b5f4d0e-5c1b-4a57-9d0c-3f8a1c2b7e61"


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_has_two_examples_that_it_understands(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("bot.py", "key.txt", "token.txt", "request.json"):
        (tmp_path / file).touch()
    path = name.split()
    found = examples_of(["coworld", *path])
    assert len(found) >= 2
    for example in found:
        plain = re.sub(r"\b([A-Z]+)_ID\b", lambda found: f"{found[1].lower()}_{UUID}", example)
        words = shlex.split(re.split(r" [|<] ", plain)[0])
        LEAVES[name].make_context(name, words[1 + len(path) :])
    shown = CliRunner(env={"COLUMNS": "140"}).invoke(cli, [*path, "--help"])
    assert shown.output.count("\n  coworld ") == len(found)


def test_an_example_is_of_a_command() -> None:
    assert sum(len(examples_of(["coworld", *name.split()])) for name in LEAVES) == len(examples_of(["coworld"]))


def test_a_help_has_the_basics_and_all_of_it_the_rest() -> None:
    short, whole = (CliRunner().invoke(cli, ["run", asked]).output for asked in ("--help", "--help-all"))
    assert "More with --help-all: Times, Limits, Secrets for players, Language models" in short
    assert "--backend" in short
    assert "--player-memory" not in short
    assert all(f"\n{title}:\n" in whole for title in ("What to play", "Limits", "Kubernetes", "Options"))
    assert "--player-memory" in whole
    assert "More with" not in whole


def test_a_help_is_as_wide_as_the_terminal() -> None:
    narrow, wide = (
        max(map(len, coworld("certify", "--help-all", env={"COLUMNS": columns}).stdout.split("\n")))
        for columns in ("100", "130")
    )
    assert narrow < 100 < wide <= 130


def test_help_of_the_command_that_is_called_most_loads_click_and_little_else() -> None:
    assert loaded_by("run --help") & {"difflib", "pathlib", "shlex", "unicodedata"} == set()


@pytest.mark.parametrize("name", [name for name in COMMANDS if name in {*LEAVES, "run-episode"}])
def test_every_option_has_help(name: str) -> None:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    silent = [option.name for option in found.params if isinstance(option, click.Option) and not option.help]
    assert silent == []
    assert {"json", "quiet"} <= {parameter.name for parameter in found.params}


def test_a_published_name_is_the_same_command() -> None:
    by_name, published = (CliRunner().invoke(cli, [name, "--help-all"]).output for name in ("run", "run-episode"))
    assert published == by_name
    assert published.startswith("Usage: coworld run [OPTIONS] MANIFEST")
    for name in ("run", "run-episode"):
        set_by = CliRunner(env={"COWORLD_RUN_PARALLEL": "none"}).invoke(cli, [name, "world"])
        assert "Invalid value for '--parallel'" in set_by.stderr


def parameters(*words: str) -> dict[str, object]:
    """What a command would be called with."""
    group: click.Command = cli
    arguments = list(words)
    while isinstance(group, click.Group):
        _, found, arguments = group.resolve_command(click.Context(group), arguments)
        assert found is not None
        group = found
    return group.make_context(group.name, arguments).params


@pytest.mark.parametrize(
    ("words", "players"),
    [
        ("rank", ["a", "b"]),
        ("scrimmage", ["a"]),
        ("mix", []),
        ("pickup", ["a"]),
        ("improve", ["a"]),
        ("evaluation diagnose", ["a"]),
    ],
)
def test_a_measurement_takes_its_game_by_option_or_first(words: str, players: list[str]) -> None:
    def parsed(*arguments: str) -> dict[str, object]:
        return parameters(*words.split(), *arguments)

    nim = str(Path(__file__).parents[2] / "examples" / "nim")
    by_option = parsed(*players, "-m", nim)
    assert by_option["game"] == nim
    assert parsed(nim, *players) == by_option
    if words != "rank":
        with pytest.raises(click.UsageError, match="given twice"):
            parsed(nim, *players, "-m", nim)
        with pytest.raises(click.UsageError, match="unexpected extra argument"):
            parsed(nim, nim, *players)


def test_players_alone_are_ranked_in_the_game_of_the_current_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2] / "examples" / "nim")
    ranked = parameters("rank", "counter", "random-taker")
    assert (ranked["game"], ranked["bots"]) == (".", ("counter", "random-taker"))


def test_options_that_lead_to_another_command_are_options_there() -> None:
    context = click.Context(cli)
    ours, there = (cli.get_command(context, name) for name in ("run", "mix"))
    assert ours is not None
    assert there is not None
    assert set(MEASURING) <= {option for parameter in there.params for option in parameter.opts}
    assert not set(MEASURING) & {option for parameter in ours.params for option in parameter.opts}


def test_usage_errors_load_no_models() -> None:
    code = f"{LOADED}\nfrom coworld_cli.main import main\nassert main(['run', '--nonsense']) == 2"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "pydantic" not in json.loads(done.stderr.splitlines()[-1])


def test_module_and_script_are_the_same() -> None:
    script = Path(sys.executable).with_name("coworld")
    assert script.exists(), "coworld-cli is not installed here"
    by_script, by_module = (
        subprocess.run(words, capture_output=True, text=True, env=environment(), check=True, timeout=60)
        for words in ([script, "--help"], command("--help"))
    )
    assert by_module.stdout == by_script.stdout == coworld("--help").stdout


def test_completion_names_commands_without_loading_them() -> None:
    done = subprocess.run(
        command(),
        capture_output=True,
        text=True,
        env=environment({"_COWORLD_COMPLETE": "bash_complete", "COMP_WORDS": "coworld repl", "COMP_CWORD": "1"}),
        check=False,
        timeout=60,
    )
    assert done.stdout.split() == ["plain,replay", "plain,replays", "plain,replay-open"]


def test_version_of_the_program() -> None:
    result = CliRunner().invoke(cli, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"coworld, version {importlib.metadata.version('coworld-cli')}\n"


# --- what cannot be meant -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("run-epsode", "run-episode"),
        ("run_episode", "run-episode"),
        ("run-ep", "run-episode"),
        ("Certify", "certify"),
        ("dcotor", "doctor"),
        ("Sample", "demo"),
    ],
)
def test_unknown_command_says_what_was_meant(typed: str, meant: str) -> None:
    result = CliRunner().invoke(cli, [typed])
    assert result.exit_code == exitcodes.USAGE
    assert f"There is no command {typed!r}. Did you mean {meant!r}?" in result.stderr
    assert result.stdout == ""


def test_common_words_suggest_commands() -> None:
    said = CliRunner().invoke(cli, ["eval"]).stderr
    assert "There is no command 'eval'. Did you mean 'compare' or 'rank' or 'scrimmage'?" in said
    known = set(cli.list_commands(click.Context(cli)))
    assert all(set(commands) <= {*known, *LEAVES} and word not in known for word, commands in _group._MEANT.items())


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("diagnose", "evaluation diagnose"),
        ("report", "evaluation report"),
        ("serve", "game serve"),
        ("sit", "game join"),
        ("wrap", "game wrap"),
        ("leaderboard", "results"),
        ("matches", "episodes"),
    ],
)
def test_a_former_name_leads_to_the_present_one(former: str, now: str) -> None:
    result = CliRunner().invoke(cli, [former, "something", "--json"])
    assert result.exit_code == exitcodes.USAGE
    assert json.loads(result.stdout)["error"]["message"] == f"There is no command {former!r}. Did you mean {now!r}?"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (
            ["ship"],
            "`ship` of CoGames is here: `coworld upload-policy BOT --league LEAGUE`, which uploads and submits.",
        ),
        (["train"], "`train` of CoGames is here: `coworld init player DIR --trainable --for GAME`"),
        (["create-bundle", "--help"], "`coworld registry publish NAME ./bot.py`"),
        (["season", "teams"], "`season` of CoGames is here: `coworld leagues`"),
        (["season", "leaderboard"], "`season leaderboard` of CoGames is here: `coworld results`"),
        (["assay", "submit", "x"], "`coworld suite run FILE --player BOT -o DIR`"),
        (["pools"], "`coworld divisions`"),
        (["missions"], "`coworld show PACKAGE`"),
        (["softmax", "login"], "`softmax login` of the published Python package is here: `coworld login`"),
        (["start_trial"], "See `coworld docs from-cogment`."),
        *(
            (["play", "world", option, "3"], f"`{option}` of CoGames is here: ")
            for option in ["-m", "-p", "-e", "-s", "-c", "-v"]
        ),
        (["results", "--season", "s"], "`--league`"),
        (["run", "world", "--cogs=3"], "`--cogs` of CoGames is here: seats"),
        (["run", "examples/nim", "--player", "class=random"], "is here: `--player random`."),
        (["run", "examples/nim", "--player", "class=my.Bot"], "`class=` of CoGames is here: `--player ./mine.py`"),
    ],
)
def test_a_word_of_a_former_system_leads_to_what_does_its_work(
    typed: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    result = CliRunner().invoke(cli, typed)
    assert result.exit_code == exitcodes.USAGE
    assert told in result.stderr
    assert "\n  hint: `" in result.stderr


def test_the_tables_of_former_words_name_commands_that_there_are() -> None:
    known = set(cli.list_commands(click.Context(cli)))
    for page in former_words._PAGES:
        named = re.findall(r"`coworld ([a-z][\w-]*)", former_words.page_text(page))
        assert set(named) <= known, page
        assert named


@pytest.mark.parametrize("words", ["run examples/nim", "compare a b -m examples/nim", "validate examples/paintarena"])
def test_examples_that_are_not_there_lead_to_the_sample(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, words.split())
    assert result.exit_code == exitcodes.USAGE
    assert "`coworld demo -o examples/paintarena` writes the sample world" in result.stderr


def test_unknown_command_without_a_guess() -> None:
    result = CliRunner().invoke(cli, ["xyzzy"])
    assert result.exit_code == exitcodes.USAGE
    assert result.stderr == "error: There is no command 'xyzzy'.\n  hint: See coworld --help.\n"


def test_unknown_option_says_what_was_meant() -> None:
    result = CliRunner().invoke(cli, ["run", "world", "--bakend", "docker"])
    assert result.exit_code == exitcodes.USAGE
    assert "'--backend'" in result.stderr
    assert "See coworld run --help." in result.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run"], "Missing argument 'MANIFEST'."),
        (["run", "w", "-n", "0"], "0 is not in the range x>=1."),
        (["run", "w", "--timeout-seconds", "0.5"], "'0.5' is not at least 1 seconds."),
        (["run", "w", "--timeout-seconds", "nan"], "'nan' is not at least 1 seconds."),
        (["run", "w", "--linger-seconds", "-1"], "'-1' is not at least 0 seconds."),
        (["run", "w", "--ready-timeout-seconds", "soon"], "'soon' is not a number of seconds."),
        (["run", "w", "--player-memory", "lots"], "'lots' is not a Kubernetes quantity."),
        (["run", "w", "--player-memory", "0"], "'0' must be more than zero."),
        (["run", "w", "--game-cpus", "1Gib"], "'1Gib' is not a Kubernetes quantity."),
        (["run", "w", "--require", "luck"], "'luck' is not one of"),
        (["run", "w", "--backend", "moon"], "There is no backend 'moon'. There are docker, kubernetes"),
        (["clean", "--backend", "auto"], "There is no backend 'auto'."),
        (["clean", "--namespace", "n"], "--namespace goes with --backend kubernetes."),
        (["doctor", "--backend", "process", "--context", "c"], "--context goes with --backend kubernetes."),
        (["doctor", "--fix", "m", "--backend", "process"], "--backend does not go with --fix."),
        (["doctor", "--yes"], "--yes goes with --fix."),
        (["validate", "m", "--fix", "--server", "https://s.example"], "--server does not go with --fix"),
        (["game", "wrap", "openspiel:chess", "--list", "openspiel"], "LIBRARY:GAME does not go with --list."),
        (["game", "wrap", "--list", "openspiel", "-o", "d"], "--output does not go with --list."),
        (["stop", "xreq_1", "--wait", "3"], "--wait is for a run or an episode"),
        (["stop", "ereq_1", "--index", "f"], "--index is for runs on this machine."),
        (["stop", "latest", "--as-user"], "--as-user is for episodes of a platform, and RUN is on this machine."),
        (["bundle", "latest", "--server", "https://s.example"], "--server is for episodes of a platform"),
        (["bundle", "latest", "--elevated"], "--elevated is for episodes of a platform"),
        (["episodes", "--local", "--server", "https://s.example"], "--server is for episodes of a platform"),
        (["episodes", "--watch", "--root", "."], "--root needs --local."),
        (["replay", "--in-terminal", "--at", "3"], "--at is for the browser: it does not go with --in-terminal."),
        (["replay", "--speed", "3"], "--speed goes with --in-terminal or --output."),
        (["replay", "--overwrite"], "--overwrite goes with --output."),
        (["replay", "-o", "a.gif", "--html", "a.html"], "--output excludes --html"),
        (["replay", "--show", "--in-terminal"], "--show excludes --html, --output and --in-terminal."),
        (["replay", "--show", "--at", "3"], "--at does not go with --show."),
        (["play", "m", "--rematch", "--in-terminal"], "--rematch is for games on pages."),
        (["login", "--with-token", "--force"], "--force is for signing in with the browser"),
        (["status", "cow_1", "--hosted-smoke-timeout-seconds", "3"], "goes with --wait-hosted-smoke."),
        (
            ["upload-coworld", "m", "--no-wait-hosted-smoke", "--hosted-smoke-timeout-seconds", "3"],
            "--hosted-smoke-timeout-seconds does not go with --no-wait-hosted-smoke.",
        ),
        (["upload-coworld", "m", "--skip-certification", "why", "--backend", "docker"], "--backend is for the certif"),
        (["upload-coworld", "--from-coworld", "w", "--version", "2", "--timeout-seconds", "3"], "--timeout-seconds is"),
        (["run", "w", "--aws-profile", "p"], "--aws-profile and --aws-region need --use-bedrock."),
        (["run", "w", "--player", "a,proportion=3"], "`coworld mix` shares the seats by them."),
        *((["run", "w", option], f"{option} is for measuring players: `coworld mix` takes it") for option in MEASURING),
        (["scrimmage"], "Missing argument 'BOT'."),
        (["scrimmage", "w", "i", "--metric", "/x"], "--metric needs -n 2 or more: one episode measures nothing."),
        (["scrimmage", "w", "i", "--on-platform"], "--on-platform needs -n 2 or more: one episode measures nothing."),
        (["compare", "a", "b", "--plan", "--on-platform"], "--on-platform has no meaning with --plan."),
        (["compare", "a", "b", "--plan", "--others", "c"], "--others has no meaning with --plan."),
        (["scrimmage", "w", "i", "-n", "2", "--verify-replay"], "--verify-replay is for one episode."),
        (["mix", "w"], "use `coworld run MANIFEST`"),
        (["mix", "w", "--player", "a,proportion=much"], "'much' is not a proportion. Write it as in a,proportion=3."),
        (["mix", "w", "--player", "a", "--player", "a,proportion=2"], "--player 'a' is given twice"),
        (["evaluation", "report", "r", "--html", "f", "--markdown"], "--html and --markdown exclude each other."),
        (["rank", "w"], "Missing argument 'PLAYER PLAYER...'."),
        (["compare", "a"], "Missing argument 'OLD'."),
        (["compare", "a", "b", "--max-blocks", "0"], "0 is not in the range x>=1."),
        (["compare", "a", "b", "--margin", "-1"], "-1.0 is not in the range x>=0."),
        (["compare", "a", "b", "--require", "worse"], "'worse' is not one of 'better', 'isolation'"),
        (["play", "w", "--human", "-1"], "-1 is not in the range x>=0."),
        (["build", "a", "b"], "Give DIR, or all of COMPOSE TEMPLATE VERSION OUTPUT, not 2 of them."),
        (["build", "a", "--project", "b"], "DIR and --project mean the same"),
        (["build", "c", "t", "1.0", "o", "--version", "2"], "--version does not go with"),
        (["build", ".", "--build-arg", "novalue"], "--build-arg 'novalue' is not NAME=VALUE."),
        (["schema", "nothing"], "'nothing' is not one of 'manifest', 'episode-request'"),
    ],
)
def test_usage_errors(args: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == exitcodes.USAGE, result.output
    assert said in result.stderr
    assert result.stderr.startswith("error: ")
    command = " ".join(args[: 2 if args[0] in ("evaluation", "game") else 1])
    assert f"hint: See coworld {command} --help." in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("given", "corrected"),
    [
        (["python -m my_player"], "--run python --run -m --run my_player"),
        (["python -m", "my_player", "a b"], "--run python --run -m --run my_player --run 'a b'"),
        (["'my player' x"], "--run 'my player' --run x"),
        (["it's here"], '--run "it\'s" --run here'),
    ],
)
def test_run_with_white_space_is_corrected(given: list[str], corrected: str) -> None:
    tokens = [word for token in given for word in ("--run", token)]
    result = CliRunner().invoke(cli, ["run", "world", "image", *tokens])
    assert result.exit_code == exitcodes.USAGE
    expected = corrected.replace('"it\'s"', "'it'\"'\"'s'")
    assert f"  hint: Write: {expected}\n" in result.stderr


@pytest.mark.parametrize("blank", ["", "  "])
def test_run_without_a_program(blank: str) -> None:
    result = CliRunner().invoke(cli, ["run", "world", "image", "--run", blank])
    assert result.exit_code == exitcodes.USAGE
    assert "The first --run is the program" in result.stderr


# --- options as values ----------------------------------------------------------------------------------------------


def flags(*args: str, env: dict[str, str] | None = None) -> PlayOptions:
    """What a command gets that has all options of the commands that play."""
    got: list[PlayOptions] = []

    @click.command(context_settings={"auto_envvar_prefix": "COWORLD_TRY"})
    @takes("options", PlayOptions)
    def probe(options: PlayOptions) -> None:
        got.append(options)

    result = CliRunner().invoke(probe, ["world", *args], env=env, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return got[0]


def test_unset_options_use_library_defaults() -> None:
    plain = flags()
    assert plain.episode(watch=False) == EpisodeOptions()
    assert (plain.episodes, plain.parallel) == (1, "auto")


@pytest.mark.parametrize("name", ["certify", "upload-coworld"])
def test_a_package_is_certified_with_the_same_deadline_wherever_that_is_done(name: str) -> None:
    with click.Context(cli) as context:
        found = cli.get_command(context, name)
    assert found is not None
    (deadline,) = (param.default for param in found.params if param.name == "timeout_seconds")
    assert deadline == CertifyOptions().episode.timeout_seconds


def test_options_become_episode_options() -> None:
    options = flags(
        *[
            "--timeout-seconds",
            "90",
            "--ready-timeout-seconds",
            "9.5",
            "--player-exit-timeout-seconds",
            "0",
            "--linger-seconds",
            "0",
            "--abandoned-timeout-seconds",
            "7",
        ],
        *["--on-player-failure", "continue", "--platform", "linux/amd64", "--admin", "--player-network", "open"],
    ).episode(watch=True)
    assert (options.timeout_seconds, options.ready_timeout_seconds) == (90, 9.5)
    assert (options.player_exit_timeout_seconds, options.linger_seconds) == (0, 0)
    assert options.abandoned_timeout_seconds == 7
    assert options.on_player_failure == "continue"
    assert options.player_network == "open"
    assert flags("--player-https", "a.example.com,b.example.com").episode(watch=False).player_https == (
        "a.example.com",
        "b.example.com",
    )
    assert options.platform == "linux/amd64"
    assert options.admin
    assert options.watch
    assert options.required == ()


def test_whatever_is_named_as_a_field_of_the_episode_is_passed_on() -> None:
    own = {item.name for item in fields(EpisodeOptions)} & PlayOptions.declared.keys() - {"watch", "player_network"}
    assert own > {"timeout_seconds", "linger_seconds", "on_player_failure", "admin"}
    given = {name: object() for name in own}
    options = PlayOptions(manifest="", **given).episode(watch=False)
    assert {name: getattr(options, name) for name in own} == given
    left = PlayOptions(manifest="", **dict.fromkeys(own)).episode(watch=False)
    assert left == EpisodeOptions()


@pytest.mark.parametrize(
    ("args", "required"),
    [
        ("--require isolation", {"network_isolation", "file_isolation"}),
        ("--require memory --require pids", {"memory_limit", "pids_limit"}),
        ("--player-network game-only", {"network_isolation"}),
        ("--players-drop-privileges", {"images"}),
        ("--player-memory 512Mi", {"memory_limit"}),
        ("--game-cpus 1.5", {"cpu_limit"}),
        ("--player-pids 10 --game-memory 1Gi", {"pids_limit", "memory_limit"}),
    ],
)
def test_options_set_required_capabilities(args: str, required: set[str]) -> None:
    assert set(flags(*args.split()).episode(watch=False).required) == required


def test_required_capabilities_exist() -> None:
    from coworld_cli.options.play_options import REQUIREMENTS
    from coworld_runner.backend import Capabilities

    names = {name for fields in REQUIREMENTS.values() for name in fields}
    assert names <= set(Capabilities.__dataclass_fields__)


def test_limits_change_only_what_was_given() -> None:
    limited = flags("--player-memory", "512Mi", "--player-cpus", "500m", "--game-pids", "7").episode(watch=False)
    assert limited.player_limits == Limits(memory_bytes=512 * 1024**2, cpus=0.5)
    assert limited.game_limits == Limits(pids=7)


def test_environment_sets_options() -> None:
    env = {"COWORLD_BACKEND": "process", "COWORLD_TRY_PARALLEL": "3", "COWORLD_TRY_PLAYER_MEMORY": "1Gi"}
    got = flags(env=env)
    assert got.backend == "process"
    assert got.parallel == 3
    assert got.episode(watch=False).required == ("memory_limit",)
    assert flags("--backend", "docker", env=env).backend == "docker"


# --- errors ---------------------------------------------------------------------------------------------------------

REPORT = Report(
    source="world.json",
    issues=(
        Issue(code="missing_field", pointer="/game", line=3, column=5, message='"name" is missing.', hint="Add it."),
        Issue(code="odd", severity="warning", pointer="/player/0", line=9, column=1, message="Odd."),
    ),
)

ERRORS: list[tuple[BaseException, int, str]] = [
    (UsageError("No."), 2, "usage"),
    (WorkspaceError("No."), 2, "workspace"),
    (CapabilityError("No."), 2, "capability_missing"),
    (ManifestError(REPORT), 1, "manifest_invalid"),
    (EpisodeError("No."), 1, "episode_failed"),
    (CertificationError("No."), 1, "certification_failed"),
    (NotReadyError("No."), 1, "not_ready"),
    (EnvironmentFault("No.", code="disk_full"), 3, "disk_full"),
    (BackendUnavailable("No."), 3, "backend_unavailable"),
    (ImageError("No."), 3, "image_unreachable"),
    (RemoteError("No."), 4, "remote_refused"),
    (CoworldError("No."), 5, "error"),
    (OSError(28, "No space left on device", "/x"), 3, "disk_full"),
    (OSError(5, "Input/output error"), 5, "internal"),
    (KeyError("slot"), 5, "internal"),
    (ExceptionGroup("g", [ExceptionGroup("h", [ImageError("No.")])]), 3, "image_unreachable"),
    (ExceptionGroup("g", [ImageError("No."), KeyError("x")]), 5, "internal"),
    (event_loop.Interrupted("Interrupted."), 130, "interrupted"),
    (KeyboardInterrupt(), 130, "interrupted"),
    (click.Abort(), 130, "interrupted"),
    (click.UsageError("No"), 2, "usage"),
]


@pytest.mark.parametrize(("error", "status", "code"), ERRORS, ids=lambda value: repr(value)[:40])
def test_every_error_has_its_status_and_one_json_object(
    error: BaseException, status: int, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failures.report(error, json=True) == status
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert err == ""
    assert set(data) == {"error"}
    assert data["error"]["code"] == code
    assert {"code", "message", "hint", "context"} <= set(data["error"])
    assert data["error"]["message"]

    assert failures.report(error, json=False) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err


def test_every_error_kind_has_an_exit_status() -> None:
    from typing import get_args

    from coworld_core.errors import ErrorKind

    statuses = {exitcodes.for_kind(kind) for kind in get_args(ErrorKind)}
    assert statuses == {1, 2, 3, 4, 5}


def test_manifest_error_lists_every_issue(capsys: pytest.CaptureFixture[str]) -> None:
    failures.report(ManifestError(REPORT), json=False)
    assert capsys.readouterr().err == (
        'world.json:3:5: error[missing_field] "name" is missing. (/game)\n'
        "    hint: Add it.\n"
        "world.json:9:1: warning[odd] Odd. (/player/0)\n"
        "1 error, 1 warning\n"
    )
    failures.report(ManifestError(REPORT), json=True)
    report = json.loads(capsys.readouterr().out)["error"]["report"]
    assert [issue["code"] for issue in report["issues"]] == ["missing_field", "odd"]


def test_error_text_is_made_safe(capsys: pytest.CaptureFixture[str]) -> None:
    error = ImageError(
        "bad \x1b[31mred\x1b]0;title\x07 \u202ename", hint="do\x1b[2J it", context={"log_tail": "a\n\x1b[Hb"}
    )
    failures.report(error, json=False)
    assert capsys.readouterr().err == "error: bad red name\n  | a\n  | b\n  hint: do it\n"


def test_notes_of_an_error_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    error = EnvironmentFault("Two things failed.")
    error.add_note("also: the other")
    failures.report(error, json=False)
    assert "  also: the other\n" in capsys.readouterr().err
    failures.report(error, json=True)
    assert json.loads(capsys.readouterr().out)["error"]["notes"] == ["also: the other"]


def _raise() -> None:
    raise KeyError("slot")


def test_internal_error_is_one_line_and_the_way_to_report_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyError) as info:
        _raise()
    caught = info.value
    monkeypatch.delenv("COWORLD_DEBUG", raising=False)
    assert failures.report(caught, json=False) == exitcodes.INTERNAL
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error: Internal error: KeyError: 'slot' (test_command_line.py:")
    assert "COWORLD_DEBUG=1" in lines[1]
    assert "coworld version" in lines[1]
    assert len(lines) == 2
    monkeypatch.setenv("COWORLD_DEBUG", "1")
    failures.report(caught, json=False)
    assert "Traceback (most recent call last):" in capsys.readouterr().err


def test_usage_error_as_json() -> None:
    done = coworld("run-episode", "--json", "--nonsense")
    assert done.status == exitcodes.USAGE
    assert done.stderr == ""
    assert done.json["error"]["code"] == "usage"
    assert done.json["error"]["hint"] == "See coworld run --help."


def test_json_after_dashes_is_an_argument() -> None:
    done = coworld("run-episode", "--nonsense", "--", "--json")
    assert done.status == exitcodes.USAGE
    assert done.stdout == ""


def in_shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in which `$coworld` is the command."""
    env = environment({"coworld": f"{sys.executable} -m coworld_cli"})
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=env, check=False, timeout=60)


@pytest.mark.parametrize("line", ["$coworld schema manifest", "$coworld --help-all", "$coworld version --json"])
def test_output_that_is_closed_is_said_in_one_line(line: str) -> None:
    shell = in_shell(f"{line} >&-")
    assert (shell.stdout, shell.returncode) == ("", exitcodes.ENVIRONMENT)
    assert shell.stderr == "error: The output was closed before its end.\n"


def test_reader_that_leaves_early_is_said_in_one_line() -> None:
    shell = in_shell("$coworld schema manifest | true; echo ${PIPESTATUS[0]}")
    assert (shell.stdout, shell.stderr) == ("3\n", "error: The output was closed before its end.\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("version --json", exitcodes.ENVIRONMENT, "error: There is no room left on the disk (standard output).\n"),
        ("version", exitcodes.ENVIRONMENT, "error: There is no room left on the disk (standard output).\n"),
        ("--help", exitcodes.ENVIRONMENT, "error: There is no room left on the disk.\n"),
        (
            "version --json x",
            exitcodes.USAGE,
            "error: Got unexpected extra argument (x).\n  hint: See coworld version --help.\n",
        ),
    ],
)
def test_output_that_is_full_is_said_in_one_line(line: str, status: int, said: str) -> None:
    shell = in_shell(f"$coworld {line} > /dev/full")
    assert (shell.returncode, shell.stderr) == (status, said)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_narration_that_cannot_be_written_ends_no_command(tmp_path: Path) -> None:
    shell = in_shell(f"cd {tmp_path}; $coworld init game mine --json 2> /dev/full")
    assert (shell.returncode, (tmp_path / "mine").is_dir()) == (exitcodes.OK, True)
    assert in_shell("$coworld nonsense 2> /dev/full").returncode == exitcodes.USAGE


def test_all_streams_closed(tmp_path: Path) -> None:
    """Nothing that is opened meanwhile has their numbers, and is written to instead of them."""
    shell = in_shell(f"cd {tmp_path}; $coworld nonsense <&- >&- 2>&-")
    assert (shell.stdout, shell.stderr, shell.returncode) == ("", "", exitcodes.USAGE)


def test_terminal_that_cannot_show_a_character() -> None:
    # As the interpreter starts
    env = environment({"PYTHONIOENCODING": "latin-1"})
    done = subprocess.run(command("doctor"), capture_output=True, encoding="latin-1", env=env, check=True, timeout=60)
    assert "?  coworld" in done.stdout


def test_the_script_entry_is_declared() -> None:
    found = [entry for entry in importlib.metadata.entry_points(group="console_scripts") if entry.name == "coworld"]
    assert [entry.value for entry in found] == ["coworld_cli.main:main"]
