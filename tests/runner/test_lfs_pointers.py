"""Git LFS pointers in place of files: it is said which, instead of what they are not."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from coworld_core.errors import UsageError
from coworld_core.manifest.manifest_file import check_manifest
from coworld_core.roles.bundle_file import read_bundle
from coworld_runner.images.build_context import ContextError, write_context
from coworld_runner.images.compose import Build
from coworld_runner.package.own_players.named_player import read_own_player
from coworld_runner.replay.replay_file import resolve_replay

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{7:064}\nsize 48605698\n"


async def _replay(path: Path) -> None:
    async with resolve_replay(path):
        pass


@pytest.mark.parametrize(
    ("pointer", "read"),
    [
        ("replay", lambda place: anyio.run(_replay, place / "replay")),
        ("bundle.zip", lambda place: read_bundle(place / "bundle.zip")),
        ("bot.py", lambda place: read_own_player(f"{place}/bot.py")),
        ("weights.pt", lambda place: read_own_player(f"{place}")),
        ("replay", lambda place: read_own_player(f"recording:{place}/replay")),
    ],
)
def test_a_pointer_is_named(tmp_path: Path, pointer: str, read: Callable[[Path], object]) -> None:
    (tmp_path / "main.py").write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    (tmp_path / pointer).write_text(POINTER)
    with pytest.raises(UsageError, match=rf"{pointer} is a Git LFS pointer, not the file itself\.") as refused:
        read(tmp_path)
    assert (refused.value.code, refused.value.hint) == ("lfs_pointer", "Get the file itself: git lfs pull")


async def test_a_pointer_in_place_of_a_manifest_or_in_an_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "coworld_manifest.json").write_text(POINTER)
    (issue,) = check_manifest(tmp_path / "coworld_manifest.json").issues
    assert (issue.code, issue.hint) == ("lfs_pointer", "Get the file itself: git lfs pull")
    with pytest.raises(ContextError, match=r"Git LFS pointer .* context: coworld_manifest\.json;"):
        await anyio.to_thread.run_sync(write_context, Build(context=tmp_path), BytesIO())
