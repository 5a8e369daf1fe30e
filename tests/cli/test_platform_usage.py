"""The platform commands before any server is asked: help, what cannot be meant, and what that loads."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support.cli_kit import environment, heavy

from coworld_cli import exitcodes
from coworld_cli.main import cli

SINGLE = [
    *("login", "logout", "whoami", "set-token", "exchange-code"),
    *("list", "show", "status", "next-version", "download", "images", "upload-coworld", "patch-commissioner"),
    *("leagues", "divisions", "results", "season-results", "rounds", "memberships", "submissions", "events"),
    *("upload-policy", "submit", "champion", "retire-membership"),
    *("episodes", "episode-stats", "episode-results", "episode-logs", "replays", "replay-open", "episode-bundle"),
]
GROUPS = {
    "player": ["list", "create", "use", "unset"],
    "token": ["list", "create", "revoke"],
    "team": ["list", "create", "invite", "join", "leave"],
    "webhook": ["list", "create", "delete"],
    "secret": ["put", "list", "delete"],
    "hosted-game": ["create", "join"],
    "lobby": ["create", "get", "start", "seat", "claim", "remove", "leave", "cancel", "end"],
    "league": ["create", "list", "officers", "appoint"],
    "xp-request": ["create", "list", "get", "episodes", "cancel", "watch", "download"],
}
OFFLINE = {"logout", "player unset"}
"""They change what this machine knows, and are nobody in particular."""

UUID = "0" * 8 + "-0000-4000-8000-" + "0" * 12
EREQ, XREQ, LEAGUE, COW = f"ereq_{UUID}", f"xreq_{UUID}", f"league_{UUID}", f"cow_{UUID}"


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every platform command, with the words that call it."""
    context = click.Context(cli)
    for name in SINGLE:
        found = cli.get_command(context, name)
        assert found is not None, name
        yield name, found
    for name, verbs in GROUPS.items():
        group = cli.get_command(context, name)
        assert isinstance(group, click.Group)
        assert group.list_commands(context) == verbs
        for verb in verbs:
            found = group.get_command(context, verb)
            assert found is not None
            yield f"{name} {verb}", found


# --- help -----------------------------------------------------------------------------------------------------------


def test_the_table_has_all_of_them_with_their_own_help() -> None:
    context = click.Context(cli, info_name="coworld")
    everything = CliRunner().invoke(cli, ["--help-all"]).output
    listed = {line.split()[0]: line for line in everything.splitlines() if line.startswith("  ")}
    for name in [*SINGLE, *GROUPS]:
        found = cli.get_command(context, name)
        assert found is not None
        assert found.name == name
        assert " ".join(listed[name].split()[1:]) == (found.help or "").split("\n")[0]


def test_every_option_has_help_and_every_answer_a_form_for_programs() -> None:
    for name, found in commands():
        silent = [option.name for option in found.params if isinstance(option, click.Option) and not option.help]
        assert silent == [], name
        names = {parameter.name for parameter in found.params}
        assert {"json", "quiet", "server"} <= names, name
        if name not in OFFLINE:
            assert found.help, name


def test_lists_can_be_cut_and_streamed() -> None:
    streamed = {name for name, found in commands() if "jsonl" in {parameter.name for parameter in found.params}}
    assert streamed == {
        *("list", "images", "leagues", "divisions", "rounds", "memberships", "submissions", "events"),
        *("episodes", "replays", "xp-request list", "xp-request episodes", "xp-request watch"),
    }


def test_help_of_all_of_them_loads_next_to_nothing() -> None:
    code = (
        "import sys, json, click\n"
        "from coworld_cli.main import cli\n"
        "context = click.Context(cli, info_name='coworld')\n"
        "for name in cli.list_commands(context):\n"
        "    found = cli.get_command(context, name)\n"
        "    found.get_help(click.Context(found, info_name=name))\n"
        "    for verb in getattr(found, 'commands', {}).values():\n"
        "        verb.get_help(click.Context(verb, info_name=verb.name))\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True, timeout=60
    )
    assert heavy(set(json.loads(done.stdout))) == set()


@pytest.mark.parametrize("group", list(GROUPS))
def test_group_without_a_command_helps(group: str) -> None:
    result = CliRunner().invoke(cli, [group])
    assert result.exit_code == exitcodes.OK
    assert f"coworld {group} [OPTIONS] COMMAND" in result.output


def test_unknown_command_of_a_group_says_what_was_meant() -> None:
    result = CliRunner().invoke(cli, ["xp-request", "craete"])
    assert result.exit_code == exitcodes.USAGE
    assert "There is no command 'craete'. Did you mean 'create'?" in result.stderr


# --- what cannot be meant -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rounds foo", "'foo' is not the id of"),
        (f"results {COW}", "is the id of a coworld, where that of"),
        (f"leagues {COW}", "is the id of a coworld, where that of a league is needed"),
        ("show paint-arena", "There is no manifest at"),
        (f"download {LEAGUE}", "is the id of a league, where that of a coworld is needed"),
        (f"episode-logs {XREQ}", "is the id of an experience request, where that of an episode request is needed"),
        (f"xp-request get {EREQ}", "is the id of an episode request, where that of an experience request is needed"),
        (f"xp-request watch {EREQ} {XREQ}", "not both"),
        (f"xp-request watch {XREQ} --reset", "--reset needs --checkpoint."),
        ("xp-request watch", "Missing argument 'ID...'."),
        (f"divisions div_{UUID} -l {LEAGUE}", "--league is for lists"),
        (f"rounds round_{UUID} --status running", "Filters are for lists"),
        (f"episodes {EREQ} --mine", "Filters are for lists"),
        ("episodes --limit 0", "0 is not in the range x>=1."),
        ("episodes --all --limit 5", "--all and --limit exclude each other."),
        ("memberships --policy bot:latest", "'bot:latest' has 'latest' after its colon, which is not a version."),
        ("episodes --policy :v1", "lacks the name before the colon"),
        ("leagues --as-user --as-player ply_1", "--as-user and --as-player exclude each other."),
        ("leagues --as-player me", "'me' is not the id of a player."),
        ("leagues --as-player ply_1 --elevated", "--elevated needs --as-user."),
        ("submit bot", "Missing option '--league' / '-l'."),
        (f"submit bot:v0 -l {LEAGUE}", "versions begin with 1"),
        (f"submit bot -l {LEAGUE} --auto-champion sometimes", "'sometimes' is not one of"),
        ("upload-policy image", "Missing option '--name' / '-n'."),
        ("upload-policy image -n bot --bedrock-model m", "--bedrock-model needs --use-bedrock."),
        ("upload-policy image -n bot --tag broken", "'broken' is no label: there is no `=`."),
        ("upload-coworld", "Missing argument 'MANIFEST'."),
        ("upload-coworld m.json --version 2", "--version needs --from-coworld."),
        ("upload-coworld m.json --image game=x", "--image needs --from-coworld."),
        ("upload-coworld m.json --from-coworld arena --version 2", "MANIFEST and --from-coworld exclude each other."),
        ("upload-coworld --from-coworld arena", "needs at least one of --version, --patch and --image."),
        ("upload-coworld --from-coworld arena --image game", "--image 'game' is not KEY=VALUE."),
        ("upload-coworld --from-coworld arena --patch {", "--patch is not JSON"),
        ("upload-coworld --from-coworld arena --patch []", "--patch is not a JSON object."),
        (f"episode-logs {EREQ} --game --artifact", "--game excludes"),
        (f"episode-logs {EREQ} --output x", "--output is for a single file"),
        (f"episode-logs {EREQ} --agent 0 -o x -d y", "--output and --download-dir exclude each other."),
        (f"episode-logs {EREQ} --list --game", "--list only lists"),
        (f"episode-logs {EREQ} --agent -1", "-1 is not in the range x>=0."),
        (f"replay-open {EREQ} --mine", "--artifacts-dir and --mine need --with-artifacts."),
        (f"episode-bundle {EREQ} --include everything", "'everything' is not one of"),
        ("league create arena --set broken", "--set 'broken' is not KEY=VALUE."),
        ("lobby create x --seat 1:human", "'1:human' is not a seat."),
        ("lobby create x --seat one:random", "'one:random' is not a seat."),
        ("lobby create x --override broken", "--override 'broken' is not KEY=VALUE."),
        ("lobby seat lby_1 1:league_player", "Write POSITION:human_open, POSITION:random, POSITION:closed or"),
        ("lobby get cps_1", "'cps_1' is not the id of a lobby."),
        ("lobby claim lby_1 -1", "No such option"),
        ("secret put arena key no-such-file", "'no-such-file' does not exist."),
        ("xp-request create no-such-file", "'no-such-file' does not exist."),
        ("list --server ftp://example.com", "is not the address of a server"),
        ("list --server example.com", "is not the address of a server"),
    ],
)
def test_usage_error_before_any_login(words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody is signed in: whoever asks for that first would end with another status
    monkeypatch.setenv("SOFTMAX_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("COWORLD_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, words.split())
    assert result.exit_code == exitcodes.USAGE, result.output
    assert said in " ".join(result.stderr.split())
    assert result.stderr.startswith("error: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", ["leagues", f"xp-request watch {XREQ}", f"xp-request episodes {XREQ}"])
def test_one_form_for_programs_at_a_time(words: str) -> None:
    result = CliRunner().invoke(cli, [*words.split(), "--json", "--jsonl"])
    assert result.exit_code == exitcodes.USAGE
    (line,) = result.stdout.splitlines()
    assert json.loads(line)["error"]["message"] == "--json and --jsonl exclude each other."
