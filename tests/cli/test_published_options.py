"""Options of the published commands are accepted: those of 0.1.26 and 0.1.64, by name, as `--help` lists them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import Result
from support.fake_platform import LEAGUE, SUBMISSION, FakePlatform, uid

from coworld_cli import exitcodes
from coworld_cli.main import cli
from coworld_runner.episode.model_place import VARIABLES

Run = Callable[..., Result]
PUBLISHED: dict[str, dict[str, list[str]]] = json.loads(
    (Path(__file__).parent / "published_options.json").read_text(encoding="utf-8")
)
ABSENT = {
    # The platform's own services, which an Observatory does not have either
    *("campaign board", "campaign conversation", "campaign full-prompt", "campaign history", "campaign perks"),
    *("campaign prompt", "campaign set-perks", "campaign set-prompt", "counterfactual create", "counterfactual get"),
    *("credits", "power-analysis", "reporters list", "reporters search", "reporters show"),
    *("feed hat", "feed instructions", "feed post"),
    # Work of the platform's team, and tools that are not about a platform
    *("deploy-audit", "league game-of-week", "league rebind", "league setup", "league update", "optimize"),
    *("retry-certification", "visibility", "resolve-and-upload"),
    *("stats extract-paintarena", "stats schema", "stats validate", "manifest-schema check", "episode-annotations"),
}
"""Published commands that there are not here; `optimize` opens a workbench there, and is `improve` here."""


def commands(found: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(found, click.Group):
        yield " ".join(path), found
        return
    context = click.Context(found)
    for name in found.list_commands(context):
        one = found.get_command(context, name)
        assert one is not None
        yield from commands(one, (*path, name))


@pytest.fixture(scope="module")
def ours() -> dict[str, set[str]]:
    return {
        name: {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for name, command in commands(cli)
    }


@pytest.mark.parametrize("release", PUBLISHED)
def test_every_published_option_is_accepted(release: str, ours: dict[str, set[str]]) -> None:
    published = PUBLISHED[release]
    assert published.keys() - ours.keys() <= ABSENT
    missing = {
        name: unknown
        for name, options in published.items()
        if name in ours and name not in ABSENT and (unknown := sorted(set(options) - ours[name]))
    }
    assert missing == {}


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("list", "/v2/coworlds"),
        ("images", "/v2/container_images"),
        ("memberships", "/v2/league-policy-memberships"),
        ("submissions", "/v2/league-submissions"),
        ("events", "/v2/competition-events"),
    ],
)
def test_cursor_is_where_a_list_starts(run: Run, told: FakePlatform, words: str, path: str) -> None:
    told.on("GET", path, [])
    assert run(words, "--cursor", "abc").exit_code == 0
    assert told.calls("GET", path)[0].query["cursor"] == "abc"


def test_submission_names_a_player_and_preferences(run: Run, told: FakePlatform) -> None:
    told.on("POST", "/v2/league-submissions", SUBMISSION)
    player = f"ply_{uid(6)}"
    done = run("submit", uid(4), "-l", str(LEAGUE["id"]), "--player", player, "--preference", "map=2")
    assert done.exit_code == 0, done.stderr
    [call] = told.calls("POST", "/v2/league-submissions")
    assert (call.json["player_id"], call.json["preferences"]) == (player, {"map": 2})


def test_file_of_a_policy_may_be_an_option_and_resources_are_said_to_be_the_platforms(
    run: Run, told: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bot.py").write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    told.on("POST", "/stats/policy-secret-envs", {"id": uid(11)})
    told.on("POST", "/stats/policies/files", {"id": uid(4), "name": "bot", "version": 1})
    resources = ("--cpu", "2", "--memory", "1Gi", "--startup-port", "8000")
    done = run("upload-policy", "--file", "bot.py", "--use-llm", "--llm-model", "small", *resources)
    assert done.exit_code == 0, done.stderr
    assert "--cpu: players get the limits that the platform gives everybody." in done.stderr
    assert "--startup-port: " in done.stderr
    [secrets] = told.calls("POST", "/stats/policy-secret-envs")
    assert secrets.json["policy_secret_env"] == {"COWORLD_LLM_ENABLED": "true", "COWORLD_LLM_MODEL": "small"}
    assert run("upload-policy", "--file", "bot.py", "--quiet", "--cpu", "2").stderr == ""
    assert run("upload-policy", "bot.py", "--file", "bot.py").exit_code == exitcodes.USAGE
    assert run("upload-policy").exit_code == exitcodes.USAGE


def test_player_is_begun_in_a_directory(run: Run, tmp_path: Path) -> None:
    done = run("init", "player", str(tmp_path / "mine"), "--example", "any")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "mine" / "bot.py").is_file()
    assert "--example: there is one starter" in done.stderr


def test_a_provider_of_models_has_to_be_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COWORLD_LLM_ENDPOINT", *VARIABLES):
        monkeypatch.delenv(name, raising=False)
    game = Path(__file__).parents[2] / "examples" / "paintarena"
    done = run("run", str(game), "--backend", "process", "--use-llm", "-o", "out")
    assert done.exit_code == exitcodes.USAGE
    assert "No provider of models is named" in done.stderr
