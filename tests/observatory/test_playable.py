"""What nothing on a platform can run is refused when it is uploaded or submitted, not when it is played."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from support.observatory_kit import MISFITS, QUICK, Account, Platform, Subject, open_platform, seed
from support.waiting import until

from coworld_runner.package.own_players.named_player import read_own_player
from coworld_runner.package.own_players.player_wire import to_wire
from observatory.store.columns import now
from observatory.store.models import Image, League, Policy, Submission, WorkerRow
from observatory.work.league_members import check_newcomers

pytestmark = pytest.mark.slow

PUSH = "/v2/container_images/upload"
MAKE = "/stats/policies/docker-img/complete"
SUBMIT = "/v2/league-submissions"
IN_WORDS = "Upload the player's file or directory instead of an image"


async def refused(platform: Platform, owner: Account, path: str, body: dict[str, Any]) -> str:
    """The words of a refusal, since nothing here can run it."""
    async with platform.client(owner) as client:
        answer = await client.post(path, json=body)
    assert (answer.status_code, answer.json().get("type")) == (409, "not_declared"), answer.text
    return str(answer.json()["detail"])


async def accepted(platform: Platform, owner: Account, path: str, body: dict[str, Any]) -> dict[str, Any]:
    async with platform.client(owner) as client:
        answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def make_body(image: str, *run: str) -> dict[str, Any]:
    return {"name": "bot", "container_image_id": image, "run": list(run)}


async def image_of(platform: Platform, name: str) -> str:
    async with platform.services.database.reading() as session:
        return str(await session.scalar(sa.select(Image.id).where(Image.name == name)))


async def test_image_that_local_processes_cannot_run_is_refused(tmp_path: Path) -> None:
    async with open_platform(tmp_path, packages=(QUICK.directory,), parallel=0, trust_uploads=True) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        old = await platform.policy(ann, "old", subject=MISFITS)
        # Before anything is pushed
        said = await refused(platform, ann, PUSH, {"name": MISFITS.image, "client_hash": "sha256:1"})
        assert said.startswith(f"The image {MISFITS.image!r} is not declared by any package on this machine")
        assert IN_WORDS in said
        # What is there already, and one whose command is another than the package's
        assert IN_WORDS in await refused(platform, ann, MAKE, make_body(await image_of(platform, MISFITS.image), "x"))
        assert IN_WORDS in await refused(platform, ann, MAKE, make_body(await image_of(platform, QUICK.image), "x"))
        body = {"league_id": world.league, "policy_version_id": old}
        assert IN_WORDS in await refused(platform, ann, SUBMIT, body)
        async with platform.services.database.reading() as session:
            assert (await session.scalars(sa.select(Policy.name))).all() == ["old"]
            assert (await session.scalars(sa.select(Submission.id))).all() == []
        # What a package declares runs here, and so do files.
        bob = await platform.account("bob")
        await accepted(platform, bob, PUSH, {"name": QUICK.image, "client_hash": "sha256:2"})
        made = await accepted(platform, ann, MAKE, make_body(await image_of(platform, QUICK.image), *QUICK.player))
        content = base64.b64encode(b"pass").decode()
        player = {"file": "bot.py", "files": {"bot.py": content}, "command": ["python3", "{}/bot.py"]}
        files = await accepted(platform, ann, "/stats/policies/files", {"name": "files", "player": player})
        for version in (made["id"], files["id"]):
            await accepted(platform, ann, SUBMIT, {"league_id": world.league, "policy_version_id": version})
        # A secret that the package does not declare keeps it from being played here, not from being uploaded
        kept = await accepted(platform, ann, "/stats/policy-secret-envs", {"policy_secret_env": {"API_KEY": "x"}})
        body = make_body(await image_of(platform, QUICK.image), *QUICK.player)
        secret = await accepted(platform, ann, MAKE, {**body, "policy_secret_env_id": kept["id"]})
        body = {"league_id": world.league, "policy_version_id": secret["id"]}
        assert "the variables API_KEY" in await refused(platform, ann, SUBMIT, body)


async def test_files_are_refused_where_they_are_not_trusted(tmp_path: Path) -> None:
    async with open_platform(tmp_path, packages=(QUICK.directory,), parallel=0) as platform:
        ann = await platform.account("ann")
        content = base64.b64encode(b"pass").decode()
        player = {"file": "bot.py", "files": {"bot.py": content}, "command": ["python3", "{}/bot.py"]}
        said = await refused(platform, ann, "/stats/policies/files", {"name": "files", "player": player})
        assert "bot.py is an uploaded file" in said
        # To upload the file is no way out here.
        assert IN_WORDS not in await refused(platform, ann, PUSH, {"name": "racer", "client_hash": "sha256:1"})


async def test_image_is_accepted_where_other_workers_run_it(tmp_path: Path) -> None:
    async with open_platform(tmp_path, packages=(QUICK.directory,), parallel=0) as platform:
        ann = await platform.account("ann")
        body = {"name": "racer", "client_hash": "sha256:1"}
        async with platform.services.database.writing() as session:
            session.add(WorkerRow(name="dead", backend="docker", parallel=1, seen_at=now().replace(year=2020)))
            session.add(WorkerRow(name="alike", backend="process", parallel=1, seen_at=now()))
        await refused(platform, ann, PUSH, body)
        async with platform.services.database.writing() as session:
            session.add(WorkerRow(name="other", backend="docker", parallel=1, seen_at=now()))
        await accepted(platform, ann, PUSH, body)


async def test_image_is_accepted_where_nothing_runs_yet(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann = await platform.account("ann")
        await accepted(platform, ann, PUSH, {"name": "racer", "client_hash": "sha256:1"})


async def test_newcomer_that_never_moves_fails_its_check(tmp_path: Path) -> None:
    file = tmp_path / "mute.py"
    file.write_text(
        "import os\n\nfrom websockets.sync.client import connect\n\n"
        'with connect(os.environ["COWORLD_PLAYER_WS_URL"], proxy=None) as socket:\n'
        "    for message in socket:\n        pass\n"
    )
    arena = Path(__file__).parents[2] / "examples" / "paintarena"
    subject = Subject(arena, "{{PAINTARENA_IMAGE}}", "paintarena", ("python", "-m", "paintarena.players.sweep"))
    async with open_platform(tmp_path, packages=[arena], trust_uploads=True) as platform:
        mute = await platform.account("mute")
        world = await seed(platform.services, (await platform.account("owner")).id, subject=subject)
        sweeper = await platform.policy(mute, "sweeper", subject=subject)
        async with platform.services.database.writing() as session:
            league = await session.get_one(League, world.league)
            league.variant_id, league.commissioner_config = "quick", {"check": True}
        player = to_wire(read_own_player(str(file))).to_wire()
        async with platform.client(mute) as client:
            made = (await client.post("/stats/policies/files", json={"name": "mute", "player": player})).json()
            notes: dict[str, str] = {}
            for version in (made["id"], sweeper):
                body = {"league_id": world.league, "policy_version_id": version}
                assert (await client.post("/v2/league-submissions", json=body)).json()["status"] == "processing"
            place = f"/v2/league-submissions?league_id={world.league}"

            async def decided() -> bool:
                await check_newcomers(platform.services.database)
                rows = (await client.get(place)).json()
                notes.update({row["policy_version"]["policy"]["name"]: row["notes"] or "" for row in rows})
                return {row["status"] for row in rows} == {"placed", "rejected"}

            await until(decided, every=0.2)
        assert "In seat 0, it never acted in" in notes["mute"]
        assert "check" not in notes["sweeper"]
