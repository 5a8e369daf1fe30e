"""Bundles in worker threads; tests/core/test_bundle.py has what is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from coworld_client.transfers.bundles import extract_bundle, extract_files, open_bundle
from coworld_client.transfers.files import TransferRefused
from coworld_core.errors import EnvironmentFault, UsageError


def zipped(path: Path, entries: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in entries.items():
            archive.writestr(name, text)
    return path


def names(directory: Path) -> list[str]:
    return [one.name for one in directory.iterdir()]


MANIFEST = '{"ereq_id": "ereq_1", "status": "success", "include": ["replay"], "files": {"replay": "moves"}}'


async def test_bundle_is_opened_and_extracted(tmp_path: Path) -> None:
    path = zipped(tmp_path / "b.zip", {"manifest.json": MANIFEST, "moves": "e4"})
    bundle = await open_bundle(path)
    assert (bundle.episode_id, [file.name for file in bundle.files]) == ("ereq_1", ["replay"])
    assert await extract_bundle(path, tmp_path / "out") == bundle
    assert (tmp_path / "out" / "replay").read_text() == "e4"
    with pytest.raises(UsageError, match="already exists"):
        await extract_bundle(path, tmp_path / "out")
    with pytest.raises(UsageError, match="There is no bundle"):
        await open_bundle(tmp_path / "absent.zip")
    with pytest.raises(EnvironmentFault, match="cannot be written"):
        await extract_bundle(path, path / "below a file")


async def test_files_are_extracted_under_their_own_names(tmp_path: Path) -> None:
    await extract_files(zipped(tmp_path / "p.zip", {"src/bot.py": "code", "empty/": ""}), tmp_path / "out")
    assert [str(one.relative_to(tmp_path / "out")) for one in (tmp_path / "out").rglob("*.*")] == ["src/bot.py"]


@pytest.mark.parametrize("entries", [{"../evil": "x", "manifest.json": MANIFEST}, {"moves": "", "moves/e4": ""}])
async def test_refusal_is_that_of_a_transfer(tmp_path: Path, entries: dict[str, str]) -> None:
    path = zipped(tmp_path / "b.zip", entries)
    for refused in (extract_bundle, extract_files):
        with pytest.raises(TransferRefused, match=r"its entry '(\.\./evil|moves/e4)'") as caught:
            await refused(path, tmp_path / "out")
        assert (caught.value.hint or "").startswith("Download it again")
    assert names(tmp_path) == ["b.zip"]
