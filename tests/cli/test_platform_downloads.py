"""Files of a platform at the command line: where they go, what is kept, and what is never written."""

from __future__ import annotations

import json
import signal
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import Result
from support.cli_kit import Started
from support.fake_platform import COWORLD, EXPERIENCE, LEAGUE, FakePlatform, episode, uid
from support.fake_server import Ask, Say, json_say

from coworld_cli import exitcodes

Run = Callable[..., Result]
EREQ, XREQ = f"ereq_{uid(1)}", EXPERIENCE["id"]
PAINTER, RIVAL = episode(1)["policy_version_ids"]
REPLAY = json.dumps({"frames": list(range(100))}).encode()


def files_below(directory: Path) -> list[str]:
    found = (path for path in directory.rglob("*") if path.is_file() and ".config" not in path.parts)
    return sorted(path.relative_to(directory).as_posix() for path in found)


def one_episode(told: FakePlatform, **more: Any) -> None:
    told.on("GET", f"/v2/episode-requests/{EREQ}", episode(1, **more))


# --- a bundle -------------------------------------------------------------------------------------------------------


def test_bundle(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    told.on("GET", f"/v2/episode-requests/{EREQ}/bundle", Say(200, b"PK-content", {"Content-Type": "application/zip"}))
    result = run("episode-bundle", EREQ, "--include", "results", "--include", "replay", "--json")
    assert json.loads(result.stdout)["size"] == 10
    assert (tmp_path / f"{EREQ}.zip").read_bytes() == b"PK-content"
    assert told.asked[0].query["include"] == "results,replay"
    again = run("episode-bundle", EREQ)
    assert again.exit_code == exitcodes.USAGE
    assert "already exists" in again.stderr
    assert "--overwrite" in again.stderr
    assert len(told.asked) == 1
    assert run("episode-bundle", EREQ, "--overwrite").exit_code == 0
    assert files_below(tmp_path) == [f"{EREQ}.zip"]


def test_refused_bundle_leaves_nothing(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    told.on("GET", f"/v2/episode-requests/{EREQ}/bundle", json_say({"detail": "It is not over."}, 409))
    result = run("episode-bundle", EREQ)
    assert result.exit_code == exitcodes.REMOTE
    assert "It is not over." in result.stderr
    assert files_below(tmp_path) == []


def test_interrupted_download_resumes(start: Callable[..., Started], told: FakePlatform, tmp_path: Path) -> None:
    content = bytes(range(256)) * 16_384
    half = len(content) // 2
    begun = threading.Event()

    async def stalled() -> AsyncIterator[bytes]:
        yield content[:half]
        begun.set()
        await anyio.sleep_forever()

    def bundle(asked: Ask) -> Any:
        tag = {"ETag": '"one"', "Accept-Ranges": "bytes", "Content-Type": "application/zip"}
        if "range" not in asked.headers:
            return Say(200, stalled(), {**tag, "Content-Length": str(len(content))})
        assert asked.headers["if-range"] == '"one"'
        first = int(asked.headers["range"].removeprefix("bytes=").removesuffix("-"))
        span = f"bytes {first}-{len(content) - 1}/{len(content)}"
        return Say(206, content[first:], {**tag, "Content-Range": span})

    told.on("GET", f"/v2/episode-requests/{EREQ}/bundle", bundle)
    env = {"COWORLD_SERVER": told.url, "COWORLD_TOKEN": "t", "SOFTMAX_CONFIG_DIR": str(tmp_path / ".config")}
    first = start("episode-bundle", EREQ, "-o", "got.zip", env=env, cwd=tmp_path)
    assert begun.wait(60)
    # What was sent has arrived once it is on the disk
    first.until(lambda: any(path.stat().st_size >= 1 << 20 for path in tmp_path.glob(".*part*")), "the first half")
    first.send(signal.SIGINT)
    done = first.end()
    assert done.status == exitcodes.INTERRUPTED
    assert "What has arrived is kept." in done.stderr
    assert "Run the same command again to resume." in done.stderr
    assert not (tmp_path / "got.zip").exists()
    second = start("episode-bundle", EREQ, "-o", "got.zip", "--json", env=env, cwd=tmp_path).end()
    assert second.status == 0, second.stderr
    assert second.json["resumed"] is True
    assert (tmp_path / "got.zip").read_bytes() == content
    assert files_below(tmp_path) == ["got.zip"]


# --- results and logs -----------------------------------------------------------------------------------------------


def test_results_to_standard_output_and_to_a_file(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    content = b'{"scores":[1.5,2],   "ticks": 9}'
    told.on("GET", f"/v2/episode-requests/{EREQ}/artifacts/results", Say(200, content))
    assert json.loads(run("episode-results", EREQ).stdout) == {"scores": [1.5, 2], "ticks": 9}
    assert run("episode-results", EREQ, "-o", "results.json").exit_code == 0
    assert (tmp_path / "results.json").read_bytes() == content


def with_logs(told: FakePlatform) -> None:
    one_episode(told)
    seats = [
        {"position": 0, "policy_version_id": PAINTER, "policy_name": "painter", "has_log": True, "has_artifact": True},
        {"position": 1, "policy_version_id": RIVAL, "policy_name": "rival", "has_log": True, "has_artifact": False},
    ]
    told.on("GET", f"/v2/episode-requests/{EREQ}/policy-artifacts", seats)
    told.on("GET", f"/v2/episode-requests/{EREQ}/artifacts/logs", Say(200, b"the game \x1b[31mspeaks\n"))
    told.on("GET", f"/v2/episode-requests/{EREQ}/{PAINTER}/policy-logs/0", Say(200, b"painter speaks\n"))
    told.on("GET", f"/v2/episode-requests/{EREQ}/{RIVAL}/policy-logs/1", json_say({"detail": "Not yours."}, 403))
    told.on("GET", f"/v2/episode-requests/{EREQ}/{PAINTER}/policy-artifact/0", Say(200, b"PK-zip"))
    told.on(
        "GET",
        "/stats/policy-versions",
        {"entries": [{"id": PAINTER, "name": "painter", "version": 3}], "total_count": 1},
    )
    told.on("GET", "/v2/league-policy-memberships", [])


def test_logs_are_listed(run: Run, told: FakePlatform) -> None:
    with_logs(told)
    result = run("episode-logs", EREQ)
    assert "policy_agent_0.log" in result.stdout
    assert "policy_agent_1.log" in result.stdout
    assert "--artifact" in result.stderr
    answer = json.loads(run("episode-logs", EREQ, "--list", "--mine", "--json").stdout)
    assert [seat["agent"] for seat in answer["agents"]] == [0]
    artifacts = json.loads(run("episode-logs", EREQ, "--artifact", "--json").stdout)
    assert [seat["filename"] for seat in artifacts["agents"]] == ["policy_artifact_0.zip"]


def test_logs_are_printed(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    with_logs(told)
    assert run("episode-logs", EREQ, "--agent", "0").stdout == "painter speaks\n"
    # A pipe gets what is there; only a terminal is protected
    assert "\x1b[31m" in json.loads(run("episode-logs", EREQ, "--game", "--json").stdout)["log"]
    refused = run("episode-logs", EREQ, "--agent", "1")
    assert refused.exit_code == exitcodes.REMOTE
    assert "Not yours." in refused.stderr
    nobody = run("episode-logs", EREQ, "--agent", "5")
    assert nobody.exit_code == exitcodes.REMOTE
    assert "has no slot 5" in nobody.stderr
    assert files_below(tmp_path) == []


def test_logs_go_to_a_directory_and_one_that_fails_loses_no_other(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    with_logs(told)
    mine = run("episode-logs", EREQ, "--mine", "-d", "logs")
    assert mine.exit_code == 0
    assert files_below(tmp_path) == [f"logs/{EREQ}-policy_agent_0.log", f"logs/{EREQ}-policy_agent_0.zip"]
    all_of_them = run("episode-logs", EREQ, "-d", "logs", "--json")
    assert all_of_them.exit_code == exitcodes.ANSWER_IS_NO
    answer = json.loads(all_of_them.stdout)
    assert answer["ok"] is False
    assert [file["error"]["code"] for file in answer["files"] if "error" in file] == ["forbidden"]
    assert run("episode-logs", EREQ, "--game", "-d", "logs").exit_code == 0
    assert f"logs/{EREQ}-game.log" in files_below(tmp_path)


def test_artifact_to_a_file(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    with_logs(told)
    assert run("episode-logs", EREQ, "--artifact", "--agent", "0").exit_code == 0
    again = run("episode-logs", EREQ, "--artifact", "--agent", "0")
    assert again.exit_code == exitcodes.USAGE
    assert "already exists" in again.stderr
    assert run("episode-logs", EREQ, "--artifact", "--agent", "0", "-o", "mine.zip").exit_code == 0
    assert files_below(tmp_path) == [f"{EREQ}-policy_agent_0.zip", "mine.zip"]
    assert (tmp_path / "mine.zip").read_bytes() == b"PK-zip"


# --- replays --------------------------------------------------------------------------------------------------------


def with_replays(told: FakePlatform, *rows: dict[str, Any]) -> None:
    told.on("GET", "/v2/episode-requests", {"entries": list(rows), "total_count": len(rows), "limit": 200, "offset": 0})


def test_replays_are_listed_with_the_command_that_shows_them(run: Run, told: FakePlatform) -> None:
    with_replays(told, episode(1, replay_url="https://x.example/1.z?sig=$(reboot)"), episode(2))
    result = run("replays")
    assert f"replay-open {EREQ}" in result.stdout
    assert "reboot" not in result.stdout
    assert len(result.stdout.splitlines()) == 2
    (entry,) = json.loads(run("replays", "--json").stdout)
    assert entry["episode_request_id"] == EREQ
    assert entry["local_path"] is None


@pytest.mark.parametrize("command", ["replays", "episodes"])
def test_episodes_of_a_league_are_those_of_its_division(command: str, run: Run, told: FakePlatform) -> None:
    divisions = [{"id": f"div_{uid(number)}", "name": f"D{number}", "level": number} for number in (1, 2)]
    told.on("GET", "/v2/leagues", [LEAGUE])
    place = f"/v2/leagues/{LEAGUE['id']}/division-ladder"
    told.on("GET", place, [{**divisions[0], "member_count": 1}])
    with_replays(told, episode(1, replay_url="https://x.example/1.z"))
    assert run(command, "--league", str(LEAGUE["name"])).exit_code == 0
    assert told.asked[-1].query["division_id"] == divisions[0]["id"]
    told.on("GET", place, [{**division, "member_count": 1} for division in divisions])
    refused = run(command, "--league", str(LEAGUE["name"]))
    assert (refused.exit_code, f"--division: {divisions[0]['id']} (D1), " in refused.stderr) == (2, True)
    both = run(command, "--league", str(LEAGUE["name"]), "--division", str(divisions[0]["id"]))
    assert (both.exit_code, "leave out --league" in both.stderr) == (2, True)


def test_replays_are_fetched_once_and_unpacked(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    with_replays(told, *(episode(number, replay_url=f"{told.url}/files/{number}.z") for number in (1, 2, 3)))
    for number in (1, 2):
        told.on("GET", f"/files/{number}.z", Say(200, zlib.compress(REPLAY)))
    told.on("GET", "/files/3.z", json_say({"detail": "The disk is gone."}, 400))
    result = run("replays", "-o", "got", "--json")
    assert result.exit_code == exitcodes.ANSWER_IS_NO
    assert "The disk is gone" in result.stderr
    names = [f"ereq_{uid(number)}.replay" for number in (1, 2)]
    assert files_below(tmp_path) == [*(f"got/{name}" for name in names), "got/index.json"]
    assert all((tmp_path / "got" / name).read_bytes() == REPLAY for name in names)
    index = json.loads((tmp_path / "got" / "index.json").read_text())
    assert index == json.loads(result.stdout)
    assert [entry["local_path"] for entry in index] == [f"got/{name}" for name in names]
    assert [entry["file"] for entry in index] == names
    assert set(index[0]) - {"file"} == {
        "episode_request_id",
        "local_path",
        "episode_id",
        "job_id",
        "coworld_id",
        "replay_url",
        "seed",
        "status",
        "participants",
        "scores",
    }
    assert set(index[0]["participants"][0]) >= {
        "position",
        "policy_version_id",
        "policy_id",
        "policy_name",
        "version",
        "player_id",
        "player_name",
        "label",
    }
    told.on("GET", "/files/3.z", Say(200, zlib.compress(REPLAY)))
    assert run("replays", "-o", "got").exit_code == 0
    assert len([asked for asked in told.asked if asked.path == "/files/1.z"]) == 1


@pytest.mark.parametrize("id", ["ereq_../../outside", "ereq_/etc/passwd", "ereq_a\x00b", "../x", "ereq_.\\..\\x"])
def test_a_hostile_id_names_no_file(id: str, run: Run, told: FakePlatform, tmp_path: Path) -> None:
    work = tmp_path / "a" / "b"
    with_replays(told, {**episode(1, replay_url=f"{told.url}/files/1.z"), "id": id})
    told.on("GET", "/files/1.z", Say(200, REPLAY))
    result = run("replays", "-o", str(work))
    assert result.exit_code in (0, exitcodes.ANSWER_IS_NO)
    assert files_below(tmp_path) == ["a/b/index.json"]


def test_replay_that_is_not_there_yet(run: Run, told: FakePlatform) -> None:
    one_episode(told, status="running", replay_url=None)
    result = run("replay-open", EREQ, "--json")
    assert result.exit_code == exitcodes.ANSWER_IS_NO
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "no_replay"
    assert "it is running" in error["message"]


def test_hosted_viewer(run: Run, told: FakePlatform) -> None:
    one_episode(told, replay_url="https://x.example/1.z")
    told.on("POST", "/v2/coworlds/replays/session", {"viewer_url": "https://x.example/view"})
    assert "https://x.example/view" in run("replay-open", EREQ, "--hosted").stdout
    asked = told.calls("POST", "/v2/coworlds/replays/session")[0].json
    assert asked == {"coworld_id": COWORLD["id"], "episode_id": uid(201), "replay_uri": "https://x.example/1.z"}


# --- Coworlds -------------------------------------------------------------------------------------------------------


def test_coworld_is_downloaded_once(
    run: Run, told: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = Path(__file__).parents[2] / "examples" / "paintarena" / "coworld_manifest_template.json"
    image = "registry.example/paint@sha256:" + "a" * 64
    manifest = json.loads(template.read_text().replace("{{PAINTARENA_IMAGE}}", image))
    manifest["game"]["version"] = "1.2.0"
    told.on("GET", f"/v2/coworlds/{COWORLD['id']}", {**COWORLD, "manifest": manifest})
    monkeypatch.delenv("COWORLD_TOKEN")
    result = run("download", str(COWORLD["id"]), "--no-images", "--json")
    assert result.exit_code == 0, result.output
    names = ["AGENTS.md", "coworld_images.json", "coworld_manifest.json"]
    assert files_below(tmp_path) == [f"coworld/{COWORLD['id']}/{name}" for name in names]
    assert json.loads(result.stdout)["cached"] is False
    assert json.loads(run("download", str(COWORLD["id"]), "--no-images", "--json").stdout)["cached"] is True
    assert len(told.asked) == 1
    # A command that takes a MANIFEST finds it by its id
    assert "paintarena 1.2.0" in run("validate", str(COWORLD["id"])).stdout
    assert run("download", "paint-arena", "--no-images").exit_code == exitcodes.ENVIRONMENT


# --- experience requests --------------------------------------------------------------------------------------------


def test_body_is_sent_as_it_is(run: Run, told: FakePlatform) -> None:
    told.on("POST", "/v2/experience-requests", {**EXPERIENCE, "episodes": []})
    body = {"coworld_id": COWORLD["id"], "roster": [{"player": {"policy_ref": "a:v1"}}], "of_tomorrow": {"x": None}}
    result = run("xp-request", "create", "-", "--json", input=json.dumps(body))
    assert json.loads(result.stdout)["id"] == XREQ
    (asked,) = told.asked
    assert asked.json == body
    assert asked.headers["idempotency-key"]


@pytest.mark.parametrize(("body", "said"), [("{", "is not JSON"), ("[]", "is not a JSON object"), ("", "is not JSON")])
def test_invalid_request_body_is_refused(body: str, said: str, run: Run, told: FakePlatform) -> None:
    result = run("xp-request", "create", "-", input=body)
    assert result.exit_code == exitcodes.USAGE
    assert said in result.stderr
    assert told.asked == []


def watched(told: FakePlatform, *statuses: str) -> None:
    """A platform without a change feed, which is asked for the request itself."""
    rows = [{**episode(number + 1), "status": status} for number, status in enumerate(statuses)]
    over = all(status in ("completed", "failed", "cancelled") for status in statuses)
    detail = {**EXPERIENCE, "status": "completed" if over else "running", "episodes": rows}
    told.on("GET", f"/v2/experience-requests/{XREQ}", detail)


def test_watch_until_the_end(run: Run, told: FakePlatform) -> None:
    watched(told, "completed", "completed")
    result = run("xp-request", "watch", XREQ, "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert (answer["ended"], answer["timed_out"], answer["ok"]) == (True, False, True)
    lines = [json.loads(line) for line in run("xp-request", "watch", XREQ, "--jsonl").stdout.splitlines()]
    assert [line["episode"]["status"] for line in lines] == ["completed", "completed"]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_watch_that_ends_badly(status: str, run: Run, told: FakePlatform) -> None:
    watched(told, "completed", status)
    result = run("xp-request", "watch", XREQ)
    assert result.exit_code == exitcodes.ANSWER_IS_NO
    assert f"1 {status}" in result.stdout


def test_watch_until_the_time_is_up(run: Run, told: FakePlatform) -> None:
    watched(told, "completed", "running")
    result = run("xp-request", "watch", XREQ, "--timeout", "0.5", "--json")
    assert result.exit_code == exitcodes.ANSWER_IS_NO
    answer = json.loads(result.stdout)
    assert (answer["ended"], answer["timed_out"]) == (False, True)


def test_checkpoint_resumes(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    watched(told, "completed", "completed")
    words = ["xp-request", "watch", XREQ, "--checkpoint", "seen.json"]
    assert len(run(*words, "--jsonl").stdout.splitlines()) == 2
    # Nothing new, and what was seen is still known
    assert run(*words, "--jsonl").stdout == ""
    assert len(json.loads(run(*words, "--json").stdout)["episodes"]) == 2
    assert len(run(*words, "--jsonl", "--reset").stdout.splitlines()) == 2
    other = run("xp-request", "watch", f"xreq_{uid(2)}", "--checkpoint", "seen.json")
    assert other.exit_code == exitcodes.USAGE
    assert "checkpoint for another server" in other.stderr
    (tmp_path / "seen.json").write_text("garbage")
    assert run(*words).exit_code == exitcodes.USAGE
    assert files_below(tmp_path) == ["seen.json"]


def test_bundles_of_finished_requests_are_downloaded(run: Run, told: FakePlatform, tmp_path: Path) -> None:
    rows = [episode(1), episode(2, status="running"), episode(3)]
    told.on("GET", f"/v2/experience-requests/{XREQ}/episodes", rows)
    told.on("GET", f"/v2/episode-requests/{EREQ}/bundle", Say(200, b"PK-1"))
    told.on("GET", f"/v2/episode-requests/ereq_{uid(3)}/bundle", json_say({"detail": "Broken."}, 400))
    result = run("xp-request", "download", XREQ, "-d", "got", "--json")
    assert result.exit_code == exitcodes.ANSWER_IS_NO
    first, second, third = json.loads(result.stdout)["episodes"]
    assert Path(first["path"]).read_bytes() == b"PK-1"
    assert (second["path"], second["status"]) == (None, "running")
    assert "Broken." in third["error"]["message"]
    assert files_below(tmp_path) == [f"got/{EREQ}.zip"]
    told.on("GET", f"/v2/experience-requests/{XREQ}/episodes", rows[:1])
    assert run("xp-request", "download", XREQ, "-d", "got").exit_code == 0
    assert len(told.calls("GET", f"/v2/episode-requests/{EREQ}/bundle")) == 1


def test_cancel_twice(run: Run, told: FakePlatform) -> None:
    told.on("POST", f"/v2/experience-requests/{XREQ}/cancel", {**EXPERIENCE, "status": "cancelled"})
    assert run("xp-request", "cancel", XREQ).exit_code == 0
    # Some platforms answer with the episodes, too
    detail = {**EXPERIENCE, "status": "cancelled", "episodes": [episode(1, status="cancelled")]}
    told.on("POST", f"/v2/experience-requests/{XREQ}/cancel", detail)
    assert EREQ in run("xp-request", "cancel", XREQ).stdout
    told.on("POST", f"/v2/experience-requests/{XREQ}/cancel", json_say({"detail": "It has finished."}, 409))
    again = run("xp-request", "cancel", XREQ)
    assert again.exit_code == exitcodes.REMOTE
    assert "It has finished." in again.stderr
