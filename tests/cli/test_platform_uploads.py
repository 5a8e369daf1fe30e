"""Uploads and what else changes a platform, at the command line."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from support.fake_platform import (
    COWORLD,
    EXPERIENCE,
    LEAGUE,
    LOBBY,
    MEMBERSHIP,
    NOW,
    SECRET,
    SEED,
    SUBMISSION,
    FakePlatform,
    episode,
    uid,
)
from support.fake_server import json_say
from support.manifests import duel

from coworld_cli import exitcodes

Run = Callable[..., Result]
IMAGE = f"img_{uid(1)}"
VERSION = {"id": uid(9), "name": "painter", "version": 3}
PAINT = Path(__file__).parents[2] / "examples" / "paintarena" / "coworld_manifest_template.json"


# --- policies -------------------------------------------------------------------------------------------------------


def takes_policies(told: FakePlatform) -> None:
    told.on("POST", "/stats/policy-secret-envs", {"id": "senv_1"})
    told.on("POST", "/stats/policies/docker-img/complete", VERSION)


def test_policy_of_an_image_that_is_there(run: Run, told: FakePlatform) -> None:
    takes_policies(told)
    words = ["--run", "python", "--run", "-m", "--run", "player", "--tag", "kind=bot", "--tag", "note=a=b"]
    result = run("upload-policy", IMAGE, "--name", "painter", *words)
    assert result.exit_code == 0, result.output
    assert "Upload complete: painter:v3" in result.stdout
    assert "submit painter:v3" in result.stdout
    (asked,) = told.asked
    assert asked.json == {
        "name": "painter",
        "container_image_id": IMAGE,
        "run": ["python", "-m", "player"],
        "tags": {"kind": "bot", "note": "a=b"},
    }
    assert json.loads(run("upload-policy", IMAGE, "-n", "painter", "--json").stdout)["label"] == "painter:v3"


def secrets_of(told: FakePlatform) -> Any:
    return told.calls("POST", "/stats/policy-secret-envs")[-1].json["policy_secret_env"]


def test_secrets_come_from_the_environment_a_file_or_standard_input(
    run: Run, told: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes_policies(told)
    monkeypatch.setenv("API_KEY", "hidden-1")
    (tmp_path / "env").write_text("# keys\nOTHER_KEY='hidden-2'\n")
    result = run("upload-policy", IMAGE, "-n", "painter", "--secret-env", "API_KEY", "--secret-env-file", "env")
    assert result.exit_code == 0, result.output
    assert secrets_of(told) == {"API_KEY": "hidden-1", "OTHER_KEY": "hidden-2"}
    assert "hidden" not in result.output
    assert told.asked[-1].json["policy_secret_env_id"] == "senv_1"


def test_secrets_on_the_command_line_are_warned_about(run: Run, told: FakePlatform) -> None:
    takes_policies(told)
    result = run("upload-policy", IMAGE, "-n", "painter", "--secret-env", "API_KEY=hidden=3")
    assert result.exit_code == 0
    assert secrets_of(told) == {"API_KEY": "hidden=3"}
    assert "warning: the value of API_KEY stood on the command line" in result.stderr
    assert "hidden" not in result.output


def test_bedrock_is_a_secret_like_others(run: Run, told: FakePlatform) -> None:
    takes_policies(told)
    assert run("upload-policy", IMAGE, "-n", "painter", "--use-bedrock", "--bedrock-model", "m").exit_code == 0
    assert secrets_of(told) == {"USE_BEDROCK": "true", "BEDROCK_MODEL": "m"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--secret-env", "NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE is not set in your environment"),
        (["--secret-env-file", "absent"], "cannot be read"),
        (["--run", "python -m player"], "--run python --run -m --run player"),
        (["--secret-env-file", "-", "--secret-env-file", "-"], "can be given once"),
    ],
)
def test_invalid_policy_options_are_refused(words: list[str], said: str, run: Run, told: FakePlatform) -> None:
    result = run("upload-policy", IMAGE, "-n", "painter", *words)
    assert result.exit_code == exitcodes.USAGE
    assert said in result.stderr
    assert told.asked == []


def test_secrets_of_a_refused_policy_are_taken_back(
    run: Run, told: FakePlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes_policies(told)
    told.on("POST", "/stats/policies/docker-img/complete", json_say({"detail": "No such image."}, 404))
    told.on("DELETE", "/stats/policy-secret-envs/senv_1", {})
    monkeypatch.setenv("API_KEY", "hidden-4")
    result = run("upload-policy", IMAGE, "-n", "painter", "--secret-env", "API_KEY", "--json")
    assert result.exit_code == exitcodes.REMOTE
    assert "No such image." in json.loads(result.stdout)["error"]["message"]
    assert "hidden" not in result.output
    assert len(told.calls("DELETE", "/stats/policy-secret-envs/senv_1")) == 1


# --- submissions ----------------------------------------------------------------------------------------------------


def test_submit_by_name(run: Run, told: FakePlatform) -> None:
    rows = [{"id": uid(number), "name": "painter", "version": number} for number in (1, 2)]
    told.on("GET", "/stats/policy-versions", {"entries": rows, "total_count": 2})
    told.on("POST", "/v2/league-submissions", {"id": SUBMISSION["id"], "status": "pending"})
    result = run("submit", "painter", "-l", str(LEAGUE["id"]), "--auto-champion", "never")
    assert result.exit_code == 0, result.output
    assert told.asked[-1].json == {
        "league_id": LEAGUE["id"],
        "policy_version_id": uid(2),
        "auto_champion": "never",
    }
    assert "placement is asynchronous" in result.stdout
    assert f"detail=policy-version:{uid(2)}" in result.stdout
    answer = json.loads(run("submit", "painter:v2", "-l", str(LEAGUE["id"]), "--json").stdout)
    assert answer["policy_version_id"] == uid(2)


def test_dry_run_looks_for_the_league(
    run: Run, told: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bot.py").write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    told.on("GET", "/v2/leagues", [LEAGUE])
    told.on("GET", f"/v2/leagues/{LEAGUE['id']}", LEAGUE)
    monkeypatch.delenv("COWORLD_TOKEN")
    command = ["upload-policy", "./bot.py", "--dry-run", "--json", "--league"]

    def league_check(*words: str) -> tuple[int, dict[str, Any]]:
        result = run(*command, *words)
        (check,) = [check for check in json.loads(result.stdout)["checks"] if check["name"] == "league"]
        return result.exit_code, check

    for name in (str(LEAGUE["name"]), str(LEAGUE["id"])):
        status, check = league_check(name)
        assert (status, check["status"]) == (exitcodes.OK, "ok")
        assert str(LEAGUE["name"]) in check["message"]
    status, check = league_check("nowhere")
    assert (status, check["status"]) == (exitcodes.ANSWER_IS_NO, "fail")
    assert "There is no league 'nowhere'" in check["message"]
    status, check = league_check("open", "--server", "http://127.0.0.1:1")
    assert (status, check["status"]) == (exitcodes.ANSWER_IS_NO, "fail")
    assert {asked.method for asked in told.asked} == {"GET"}


def test_a_file_is_uploaded_and_submitted_by_the_leagues_name(
    run: Run, told: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bot.py").write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    told.on("GET", "/v2/leagues", [LEAGUE])
    told.on("POST", "/stats/policies/files", VERSION)
    told.on("POST", "/v2/league-submissions", {"id": SUBMISSION["id"], "status": "placed"})
    result = run("upload-policy", "./bot.py", "--league", str(LEAGUE["name"]))
    assert result.exit_code == 0, result.output
    sent = told.calls("POST", "/stats/policies/files")[-1].json
    assert (sent["name"], sent["player"]["file"], sent["player"]["needs_client"]) == ("bot", "bot.py", True)
    assert base64.b64decode(sent["player"]["files"]["bot.py"]) == Path("bot.py").read_bytes()
    assert told.asked[-1].json["league_id"] == LEAGUE["id"]
    # Where to look is a whole address
    assert f"Page:           {told.url}/observatory/v2#tab=uploads" in result.stdout
    answer = json.loads(run("upload-policy", "bot.py", "-n", "mine", "-l", str(LEAGUE["id"]), "--json").stdout)
    assert (answer["label"], answer["submission"]["id"]) == ("painter:v3", SUBMISSION["id"])
    # Nothing is sent that has no place to go
    asked = len(told.calls("POST", "/stats/policies/files"))
    assert run("upload-policy", "bot.py", "--league", "nowhere").exit_code == exitcodes.REMOTE
    assert len(told.calls("POST", "/stats/policies/files")) == asked


def test_file_unsupported_by_the_platform_is_refused(
    run: Run, told: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bot.py").write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    Path("mine").mkdir()
    Path("mine/Dockerfile").write_text('FROM scratch\nCMD ["x"]\n')
    told.on("POST", "/stats/policies/files", json_say({"detail": "There is no such path."}, 404))
    for words, status, said in (
        (["bot.py"], exitcodes.USAGE, "takes images, and bot.py is a file"),
        (["./mine"], exitcodes.USAGE, "has a Dockerfile"),
        (["./none.py"], exitcodes.USAGE, "There is no player at"),
        (["bot.py", "--run", "x"], exitcodes.USAGE, "--run is for images"),
        ([IMAGE], exitcodes.USAGE, "Missing option '--name'"),
    ):
        result = run("upload-policy", *words)
        assert (result.exit_code, said in result.stderr) == (status, True), (words, result.stderr)


def test_submitting_anothers_policy_is_refused(run: Run, told: FakePlatform) -> None:
    told.on("GET", "/stats/policy-versions", {"entries": [], "total_count": 0})
    result = run("submit", "rival:v3", "-l", str(LEAGUE["id"]))
    assert result.exit_code == exitcodes.REMOTE
    assert "You have no policy 'rival:v3'" in result.stderr
    assert told.calls("POST", "/v2/league-submissions") == []


def test_champion_is_nominated_by_membership_or_by_policy(run: Run, told: FakePlatform) -> None:
    path = f"/v2/league-policy-memberships/{MEMBERSHIP['id']}/champion"
    told.on("POST", path, {**MEMBERSHIP, "is_champion": True})
    told.on("GET", "/v2/league-policy-memberships", [MEMBERSHIP])
    label = "painter"
    for words in ([str(MEMBERSHIP["id"])], [label], [label, "--league", str(LEAGUE["id"])]):
        result = run("champion", *words)
        assert result.exit_code == 0, result.stderr
    assert len(told.calls("POST", path)) == 3
    other = {
        **MEMBERSHIP,
        "id": "lpm_00000000-0000-4000-8000-000000000000",
        "league": {**LEAGUE, "id": "league_00000000-0000-4000-8000-000000000000", "name": "Other"},
    }
    told.on("GET", "/v2/league-policy-memberships", [MEMBERSHIP, other])
    result = run("champion", label)
    assert (result.exit_code, "--league" in result.stderr) == (exitcodes.USAGE, True)
    told.on("GET", "/v2/league-policy-memberships", [])
    assert "painter is not in any league as a policy of yours." in run("champion", label).stderr
    assert f"painter is not in {LEAGUE['id']} as a" in run("champion", label, "-l", str(LEAGUE["id"])).stderr
    told.on("GET", "/v2/league-policy-memberships", [{**MEMBERSHIP, "end_time": NOW}])
    left = run("champion", label)
    assert (left.exit_code, f"painter has left {LEAGUE['name']}." in left.stderr) == (exitcodes.USAGE, True)


def test_retire_with_and_without_a_reason(run: Run, told: FakePlatform) -> None:
    path = f"/v2/league-policy-memberships/{MEMBERSHIP['id']}/retire"
    told.on("POST", path, {**MEMBERSHIP, "status": "retired"})
    assert "retired" in run("retire-membership", str(MEMBERSHIP["id"])).stdout
    run("retire-membership", str(MEMBERSHIP["id"]), "--reason", "too weak")
    bare, reasoned = told.calls("POST", path)
    assert bare.body == b""
    assert reasoned.json == {"reason": "too weak"}


# --- Coworlds -------------------------------------------------------------------------------------------------------


def manifest(directory: Path) -> Path:
    """A built manifest whose images the platform has."""
    value = json.loads(PAINT.read_text().replace("{{PAINTARENA_IMAGE}}", IMAGE))
    value["game"]["version"] = "1.2.0"
    path = directory / "coworld_manifest.json"
    path.write_text(json.dumps(value))
    return path


def takes_coworlds(told: FakePlatform, *smoke: dict[str, Any]) -> None:
    told.on("GET", "/v2/coworlds", [])
    told.on("POST", "/v2/coworlds/upload", lambda asked: {**COWORLD, "manifest": asked.json["manifest"]})
    told.on("GET", f"/v2/coworlds/{COWORLD['id']}", COWORLD)
    told.on("GET", f"/v2/coworlds/{COWORLD['id']}/episode-requests", {"entries": list(smoke), "next_cursor": None})


def test_certification_is_skipped_only_for_a_reason(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    takes_coworlds(told)
    manifest(tmp_path)
    words = ["upload-coworld", ".", "--no-wait-hosted-smoke"]
    result = run(*words, "--skip-certification", "tried elsewhere", "--json")
    assert result.exit_code == 0, result.output
    assert "warning: not certified: tried elsewhere" in result.stderr
    answer = json.loads(result.stdout)
    assert (answer["id"], answer["already"]) == (COWORLD["id"], False)
    body = told.calls("POST", "/v2/coworlds/upload")[0].json
    assert body["certification"] == {"status": "skipped", "reason": "tried elsewhere"}
    assert body["manifest"]["game"]["runnable"]["image"] == IMAGE
    assert run(*words, "--skip-certification", " ").exit_code == exitcodes.USAGE


def test_repeated_upload_is_reported_as_existing(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    takes_coworlds(told)
    manifest(tmp_path)
    told.on("GET", "/v2/coworlds", [{**COWORLD, "name": "paintarena"}])
    result = run("upload-coworld", ".", "--no-wait-hosted-smoke", "--skip-certification", "as before")
    assert result.exit_code == 0
    assert "already had this version" in result.stdout


def test_uncertified_coworld_is_not_uploaded(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    takes_coworlds(told)
    path = manifest(tmp_path)
    value = json.loads(path.read_text())
    value["certification"]["game_config"]["width"] = "wide"
    path.write_text(json.dumps(value))
    result = run("upload-coworld", str(path), "--json")
    assert result.exit_code == exitcodes.ANSWER_IS_NO
    assert told.calls("POST", "/v2/coworlds/upload") == []
    answer = json.loads(result.stdout)
    assert answer.get("uploaded") is False or answer["error"]["code"] == "manifest_invalid"


def test_template_is_not_uploaded(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    (tmp_path / "coworld_manifest_template.json").write_text(PAINT.read_text())
    result = run("upload-coworld", ".")
    assert result.exit_code == exitcodes.USAGE
    assert "coworld build" in result.stderr
    assert told.asked == []


@pytest.mark.parametrize(
    ("status", "exit_code", "verdict"), [("completed", 0, "passed"), ("failed", exitcodes.ANSWER_IS_NO, "failed")]
)
def test_hosted_episodes_are_waited_for(
    status: str, exit_code: int, verdict: str, run: Run, told: FakePlatform, tmp_path: Path
) -> None:
    takes_coworlds(told, episode(1, status=status, error="The game was late." if status == "failed" else None))
    manifest(tmp_path)
    result = run("upload-coworld", ".", "--skip-certification", "x", "--json")
    assert result.exit_code == exit_code, result.output
    answer = json.loads(result.stdout)
    assert answer["hosted_smoke"] == verdict
    assert answer["hosted_smoke_episodes"][0]["status"] == status
    assert f"{COWORLD['id']}" in result.stderr
    shown = run("status", str(COWORLD["id"]))
    assert shown.exit_code == exit_code
    assert verdict in shown.stdout


def test_hosted_episodes_that_do_not_end_in_time(run: Run, told: FakePlatform) -> None:
    takes_coworlds(told, episode(1, status="running"))
    waited = ["status", str(COWORLD["id"]), "--wait-hosted-smoke", "--hosted-smoke-timeout-seconds", "0.2"]
    assert run(*waited).exit_code == exitcodes.ANSWER_IS_NO
    assert run("status", str(COWORLD["id"])).exit_code == 0


def test_platform_that_plays_none_is_not_waited_for(run: Run, told: FakePlatform) -> None:
    takes_coworlds(told)
    waited = ["status", str(COWORLD["id"]), "--wait-hosted-smoke", "--hosted-smoke-timeout-seconds", "0.2", "--json"]
    result = run(*waited)
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert (answer["hosted_smoke"], answer["hosted_smoke_episodes"]) == ("none", [])
    assert answer["coworld"]["id"] == COWORLD["id"]


def test_change_to_a_coworld_of_the_platform(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    takes_coworlds(told)
    stored = json.loads(manifest(tmp_path).read_text())
    told.on("GET", f"/v2/coworlds/{COWORLD['id']}", {**COWORLD, "manifest": stored})
    told.on("GET", "/v2/container_images", [])
    (tmp_path / "patch.json").write_text(json.dumps({"game": {"description": "Painted anew."}}))
    other = f"img_{uid(2)}"
    words = ["--patch", "patch.json", "--image", f"player.sweep-painter={other}", "--no-wait-hosted-smoke"]
    result = run("upload-coworld", "--from-coworld", str(COWORLD["id"]), *words)
    assert result.exit_code == 0, result.output
    assert "warning: not certified on this machine" in result.stderr
    body = told.calls("POST", "/v2/coworlds/upload")[0].json
    sent = body["manifest"]
    assert sent["game"]["version"] == "1.2.1"
    assert sent["game"]["description"] == "Painted anew."
    assert {player["id"]: player["image"] for player in sent["player"]}["sweep-painter"] == other
    assert body["certification"]["status"] == "skipped"
    wrong = run("upload-coworld", "--from-coworld", str(COWORLD["id"]), "--image", "reporter=x")
    assert wrong.exit_code == exitcodes.USAGE


def test_commissioner_is_replaced(run: Run, told: FakePlatform) -> None:
    told.on("POST", "/v2/coworlds/patch-commissioner", {**COWORLD, "version": "1.3.0"})
    result = run("patch-commissioner", "paint-arena", IMAGE, "--runnable-id", "main", "--version", "1.3.0")
    assert result.exit_code == 0, result.output
    assert "1.3.0" in result.stdout
    assert told.asked[0].json == {
        "coworld_name": "paint-arena",
        "container_image_id": IMAGE,
        "runnable_id": "main",
        "version": "1.3.0",
    }


# --- secrets, leagues, hosted games ---------------------------------------------------------------------------------


def test_secrets_are_kept_listed_and_deleted(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    row = {**SECRET, "coworld_name": "arena", "owner_name": "ada", "secret_name": "a/b", "size_bytes": 8}
    told.on("PUT", "/v2/coworlds/secrets/arena/a%2Fb", row)
    told.on("GET", "/v2/coworlds/secrets/arena", [row])
    told.on("DELETE", "/v2/coworlds/secrets/arena/a%2Fb", row)
    (tmp_path / "key").write_bytes(b"hidden\x00\xff")
    kept = run("secret", "put", "arena", "a/b", "key")
    assert kept.exit_code == 0, kept.output
    assert told.asked[0].body == b"hidden\x00\xff"
    assert told.asked[0].headers["content-type"] == "application/octet-stream"
    assert "hidden" not in kept.output
    assert run("secret", "put", "arena", "a/b", "-", input="of a pipe").exit_code == 0
    assert told.asked[1].body == b"of a pipe"
    listed = run("secret", "list", "arena").stdout
    assert "a/b" in listed
    assert "ada" in listed
    assert json.loads(run("secret", "list", "arena", "--json").stdout)[0]["size_bytes"] == 8
    assert run("secret", "delete", "arena", "a/b").stdout == "Deleted a/b of arena.\n"


def test_league_requests_are_created_and_listed(run: Run, told: FakePlatform) -> None:
    told.on("POST", "/v2/coworld-league-seeds", SEED)
    told.on("GET", "/v2/coworld-league-seeds", [SEED])
    words = ["--set", "rounds=3", "--set", "name=Open", "--set", 'rules={"a": [1]}', "-t", "default"]
    result = run("league", "create", "arena", *words)
    assert "not created yet" in result.stdout
    assert told.asked[0].json["overrides"] == {"rounds": 3, "name": "Open", "rules": {"a": [1]}}
    assert "arena" in run("league", "list").stdout
    told.on("POST", "/v2/coworld-league-seeds", json_say({"detail": "For the team only."}, 403))
    refused = run("league", "create", "arena")
    assert refused.exit_code == exitcodes.REMOTE
    assert "For the team only." in refused.stderr


def test_hosted_game(run: Run, told: FakePlatform) -> None:
    session = {
        "session_id": "cps_1",
        "join_url": "/join",
        "lobby_url": "/lobby",
        "player_count": 2,
        "global_url": "/watch",
    }
    told.on("POST", "/v2/coworlds/play/session", session)
    told.on("POST", "/v2/coworlds/play/session/cps_1/join", {"player_url": "/play", "slot": 1, "player": {"slot": 1}})
    made = run("hosted-game", "create", str(COWORLD["id"]), "--variant", "quick", "--no-spectators")
    assert "hosted-game join cps_1" in made.stdout
    assert told.asked[0].json == {"coworld_id": COWORLD["id"], "variant_id": "quick", "allow_spectators": False}
    assert "/play" in run("hosted-game", "join", "cps_1").stdout
    assert json.loads(run("hosted-game", "join", "cps_1", "--json").stdout)["slot"] == 1


def test_request_for_each_variant_of_a_pattern(run: Run, told: FakePlatform) -> None:
    manifest = duel("img_00000000-0000-4000-8000-000000000001")
    manifest["variants"].append({**manifest["variants"][0], "id": "second"})
    words = [variant["id"] for variant in manifest["variants"]]
    told.on("GET", f"/v2/coworlds/{COWORLD['id']}", {**COWORLD, "manifest": manifest})
    told.on("POST", "/v2/experience-requests", EXPERIENCE)
    body = json.dumps({"coworld_id": COWORLD["id"], "roster": []})
    answer = json.loads(run("xp-request", "create", "-", "--variant", "*", "--json", input=body).stdout)
    assert [request["id"] for request in answer["requests"]] == [EXPERIENCE["id"]] * len(words)
    assert [row.json["variant_id"] for row in told.asked if row.method == "POST"] == words
    shown = run("xp-request", "create", "-", "--variant", "*", input=body)
    assert f"xp-request watch {EXPERIENCE['id']} {EXPERIENCE['id']}" in shown.stdout


def test_lobby(run: Run, told: FakePlatform) -> None:
    league, lobby = str(LEAGUE["id"]), LOBBY["id"]
    other = {**LOBBY["seats"][1], "kind": "league_player", "player_name": "Bot", "can_claim": True}
    answer = {**LOBBY, "revision": 3, "host_name": "Ada", "variant_id": "quick", "page_url": "/lobbies/1"}
    answer["seats"] = [LOBBY["seats"][0], other]
    place = f"/v2/lobbies/{lobby}"
    told.on("POST", f"/v2/leagues/{league}/lobbies", answer)
    told.on("GET", place, answer)
    words = ["--variant", "quick", "--num-players", "3", "--seat", "2:league_player:ply_1", "--override", "seed=5"]
    made = run("lobby", "create", league, *words)
    assert [line.split() for line in made.stdout.splitlines()[-2:]] == [
        ["0", "human", "Ada", "you"],
        ["1", "league_player", "Bot", "open"],
    ]
    sent = told.asked[0].json
    assert sent.pop("idempotency_key")
    assert sent == {
        "variant_id": "quick",
        "num_players": 3,
        "seats": [{"position": 2, "kind": "league_player", "player_id": "ply_1"}],
        "game_config_overrides": {"seed": 5},
    }
    assert json.loads(run("lobby", "get", lobby, "--json").stdout)["revision"] == 3
    told.on("PUT", f"{place}/seats/1", answer)
    told.on("POST", f"{place}/seats/1/claim", answer)
    told.on("DELETE", f"{place}/seats/1/player", answer)
    for verb in ("leave", "cancel", "end"):
        told.on("POST", f"{place}/{verb}", {**answer, "status": "ended", "error": "It broke."})
    told.on("POST", f"{place}/start", {**answer, "status": "running", "session_id": "cps_1"})
    run("lobby", "seat", lobby, "1:random")
    assert told.asked[-1].json == {"kind": "random", "expected_revision": 3}
    run("lobby", "seat", lobby, "1:closed", "--revision", "2")
    assert told.asked[-1].json == {"kind": "closed", "expected_revision": 2}
    run("lobby", "claim", lobby, "1")
    run("lobby", "remove", lobby, "1")
    assert "hosted-game join cps_1" in run("lobby", "start", lobby, "--revision", "7").stdout
    assert told.asked[-1].json["expected_revision"] == 7
    for verb in ("leave", "cancel", "end"):
        assert "It broke." in run("lobby", verb, lobby).stdout
    told.on("POST", f"{place}/start", json_say({"detail": "Seat 1 waits for a person."}, 409))
    refused = run("lobby", "start", lobby)
    assert refused.exit_code == exitcodes.REMOTE
    assert "Seat 1 waits for a person." in refused.stderr
