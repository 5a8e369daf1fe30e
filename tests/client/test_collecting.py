"""Files of many episodes: fetched once, and one that fails loses no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.fake_platform import EPISODE, canned_platform, uid
from support.fake_server import Say
from support.flaky_transport import FlakyTransport

from coworld_client import Backoff, Change, CoworldClient, NotFound
from coworld_client.checkpoints import Checkpoint
from coworld_client.transfers.collecting import (
    INDEX_NAME,
    collect_bundles,
    collect_evidence,
    collect_replays,
    new_directory,
)
from coworld_core.api import EpisodeProgress, EpisodeRequest
from coworld_core.errors import UsageError, WorkspaceError

XREQ = f"xreq_{uid(1)}"


def api_of(server: str) -> CoworldClient:
    return CoworldClient(server, transport=FlakyTransport(), backoff=Backoff(base=0.0, cap=0.0))


def row(number: int, **more: object) -> EpisodeRequest:
    return EpisodeRequest.read({**EPISODE, "id": f"ereq_{uid(number)}", "replay_url": None, "job_id": None, **more})


async def test_the_index_lists_what_is_there(tmp_path: Path) -> None:
    rows = [row(1), row(2), row(3)]
    (tmp_path / f"{rows[0].id}.replay").write_bytes(b"kept")
    told: list[tuple[str, int, int]] = []
    async with canned_platform() as platform, api_of(platform.url) as api:
        for item, say in ((rows[1], Say(200, b"new")), (rows[2], Say(404, b"{}"))):
            platform.on("GET", f"/v2/episode-requests/{item.id}/artifacts/replay", say)
        found = await collect_replays(
            api, rows, tmp_path, concurrency=1, on_fetched=lambda row, there, total: told.append((row.id, there, total))
        )
    assert [item.path is not None for item in found] == [True, True, False]
    assert isinstance(found[2].error, NotFound)
    assert told == [(rows[1].id, 2, 3)]
    listed = json.loads((tmp_path / INDEX_NAME).read_text())
    assert [entry["episode_request_id"] for entry in listed] == [rows[0].id, rows[1].id]
    assert (tmp_path / f"{rows[0].id}.replay").read_bytes() == b"kept"


async def test_bundles_of_episodes_that_are_over(tmp_path: Path) -> None:
    rows = [
        {**EPISODE, "id": f"ereq_{uid(number)}", "status": word} for number, word in ((1, "completed"), (2, "running"))
    ]
    async with canned_platform() as platform, api_of(platform.url) as api:
        platform.on("GET", f"/v2/experience-requests/{XREQ}/episodes", rows)
        platform.on("GET", f"/v2/episode-requests/{rows[0]['id']}/bundle", Say(200, b"zip"))
        over, going = await collect_bundles(api, [XREQ], tmp_path / "new")
    assert over.path == tmp_path / "new" / f"ereq_{uid(1)}.zip"
    assert (going.path, going.error) == (None, None)


async def test_missing_log_is_skipped(tmp_path: Path) -> None:
    episode = row(1)
    async with canned_platform() as platform, api_of(platform.url) as api:
        (seat,) = episode.participants
        place = f"/v2/episode-requests/{episode.id}/{seat.policy_version_id}"
        platform.on("GET", f"{place}/policy-logs/{seat.position}", Say(404, b"{}"))
        platform.on("GET", f"{place}/policy-artifact/{seat.position}", Say(200, b"zip"))
        (file,) = await collect_evidence(
            api, episode, [("log", seat.position), ("artifact", seat.position)], tmp_path / "new"
        )
    assert file.path == tmp_path / "new" / f"policy_artifact_{seat.position}.zip"
    assert file.size == 3


def test_file_is_refused_as_a_download_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorkspaceError, match="cannot be created"):
        new_directory(tmp_path / "file")


# --- where watching stands ----------------------------------------------------------------------------------------


def change(number: int, status: str | None, cursor: str) -> Change:
    seen = None if status is None else EpisodeProgress.read({"id": f"ereq_{uid(number)}", "status": status})
    return Change(
        id=f"ereq_{uid(number)}", experience_request_id=XREQ, episode=seen, removed=seen is None, cursor=cursor
    )


def test_checkpoint_resumes(tmp_path: Path) -> None:
    file = tmp_path / "seen.json"
    seen = Checkpoint("https://example.org/api", [XREQ], file)
    seen.load()
    assert seen.take(change(1, "running", "a"))
    assert not seen.take(change(1, "running", "b"))
    assert seen.take(change(2, "completed", "c"))
    assert not seen.ok
    assert seen.counts() == {"running": 1, "completed": 1}
    seen.save()
    again = Checkpoint("https://example.org/api", [XREQ], file)
    again.load()
    assert again.cursor == "c"
    assert again.counts() == seen.counts()
    assert again.take(change(1, None, "d"))
    assert again.ok
    assert [path.name for path in tmp_path.iterdir()] == ["seen.json"]


@pytest.mark.parametrize(
    ("content", "code"), [("{", "bad_checkpoint"), ("[]", "other_checkpoint"), ('{"server": "x"}', "other_checkpoint")]
)
def test_foreign_or_malformed_checkpoint_is_refused(content: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "seen.json").write_text(content)
    with pytest.raises(UsageError) as info:
        Checkpoint("https://example.org/api", [XREQ], tmp_path / "seen.json").load()
    assert info.value.code == code
