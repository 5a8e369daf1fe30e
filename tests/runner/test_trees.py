"""Removing trees that a program made to be hard to remove."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import anyio.lowlevel
import pytest
from support.elsewhere import as_user
from support.trees import dig

from coworld_runner.runs._tree_removal import remove_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "tree"
    path.mkdir()
    return path


@pytest.mark.slow
def test_depth_and_length_do_not_matter(tree: Path) -> None:
    dig(tree, 2000)
    dig(tree, 200, "long" * 60)
    assert remove_tree(tree) == ""
    assert not tree.exists()


def test_links_are_removed_but_not_followed(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (tree / "below").mkdir()
    for place in (tree, tree / "below"):
        (place / "link").symlink_to(outside)
        (place / "dangling").symlink_to(place / "nowhere")
    instead = tmp_path / "instead"
    instead.symlink_to(outside)
    assert [remove_tree(tree), remove_tree(instead)] == ["", ""]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside"]
    assert (outside / "inner").is_dir()


def test_last_entry_is_removed_only_when_all_else_is_gone(tree: Path) -> None:
    (tree / "full" / "fuller").mkdir(parents=True)
    (tree / "lock").touch()
    said = remove_tree(tree, last="lock", timeout=0)
    assert said == f"{tree}/…: not all of it could be removed within 0 s"
    assert (tree / "lock").exists()
    assert remove_tree(tree, last="lock") == ""
    assert not tree.exists()
    assert remove_tree(tree) == ""


def test_unremovable_entry_does_not_keep_others() -> None:
    """As somebody who may not do everything: what took its own rights away goes, what is another's does not."""
    if os.getuid() != 0:
        pytest.skip("needs root, to become somebody else")

    async def work() -> str:
        await anyio.lowlevel.checkpoint()
        for closed in ("a/b", "a"):
            (Path(place) / "mine" / closed).chmod(0)
        return remove_tree(Path(place) / "mine")

    with tempfile.TemporaryDirectory(prefix="coworld-test-", dir="/tmp") as place:
        Path(place).chmod(0o777)
        mine = Path(place) / "mine"
        for path in (mine, mine / "a", mine / "a" / "b", mine / "c"):
            path.mkdir()
            (path / "file").touch()
        # A name is any bytes, and why it stays is told to people, and in JSON
        odd = mine / "c" / os.fsdecode(b"\x1b[2Jf\xffile\n")
        (mine / "c" / "file").rename(odd)
        # The owner of a directory may empty it, whoever its files belong to
        for path in (mine, mine / "a", mine / "a" / "b"):
            os.chown(path, 12345, 12345)
        assert as_user(12345, 12345, work) == f"{mine}/c/f\ufffdile: Permission denied"
        assert [path.relative_to(mine) for path in sorted(mine.rglob("*"))] == [Path("c"), odd.relative_to(mine)]
