"""Bundles: looked at before they are opened, and written under names of ours."""

from __future__ import annotations

import io
import json
import os
import stat
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from coworld_client.transfers.bundles import extract_bundle, extract_files, open_bundle
from coworld_client.transfers.files import TransferRefused
from coworld_core.errors import UsageError

FILES = {
    "results": "results.json",
    "replay": "replay",
    "game_logs": {"combined": "logs/game.log"},
    "player_logs": {"0": "logs/policy_agent_0.log", "1": "logs/policy_agent_1.log"},
    "player_artifact": {"1": "artifacts/policy_artifact_1.zip"},
}
ENTRIES = {
    "results.json": b'{"scores": [1, 0]}',
    "replay": b"frames",
    "logs/game.log": b"game",
    "logs/policy_agent_0.log": b"zero",
    "logs/policy_agent_1.log": b"one",
    "artifacts/policy_artifact_1.zip": b"PK",
}


def manifest(files: Mapping[str, Any] = FILES) -> bytes:
    return json.dumps({"ereq_id": "ereq_1", "status": "success", "include": list(files), "files": files}).encode()


def write(path: Path, entries: Mapping[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def tree(directory: Path) -> dict[str, bytes]:
    return {str(one.relative_to(directory)): one.read_bytes() for one in directory.rglob("*") if one.is_file()}


def names(directory: Path) -> list[str]:
    return sorted(one.name for one in directory.iterdir())


async def test_bundle_is_extracted(tmp_path: Path) -> None:
    path = write(tmp_path / "b.zip", {"manifest.json": manifest(), **ENTRIES})
    bundle = await open_bundle(path)
    assert (bundle.episode_id, bundle.status, len(bundle.files)) == ("ereq_1", "success", 6)
    assert tree(tmp_path).keys() == {"b.zip"}
    await extract_bundle(path, tmp_path / "out")
    assert tree(tmp_path / "out") == {**ENTRIES, "manifest.json": manifest()}
    assert names(tmp_path) == ["b.zip", "out"]
    with pytest.raises(UsageError) as caught:
        await extract_bundle(path, tmp_path / "out")
    assert caught.value.code == "path_exists"
    with pytest.raises(UsageError):
        await open_bundle(tmp_path / "absent.zip")


async def test_extracted_files_get_safe_names(tmp_path: Path) -> None:
    files = {"player_logs": {"0": "a/b/c.txt"}, "game_logs": {"stderr": "x"}, "metadata": "y"}
    path = write(tmp_path / "b.zip", {"manifest.json": manifest(files), "a/b/c.txt": b"0", "x": b"e", "y": b"{}"})
    await extract_bundle(path, tmp_path / "out")
    assert tree(tmp_path / "out").keys() == {
        "manifest.json",
        "logs/policy_agent_0.log",
        "logs/game.stderr.log",
        "other/metadata",
    }


def link(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


def device(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFCHR | 0o666) << 16
    return entry


HARMFUL: dict[str, Mapping[str | zipfile.ZipInfo, bytes]] = {
    "a way up": {"../evil": b"x"},
    "a way up inside": {"logs/../../evil": b"x"},
    "the root": {"/etc/evil": b"x"},
    "a backslash": {"..\\evil": b"x"},
    "a drive": {"C:evil": b"x"},
    "a control character": {"a\nb": b"x"},
    "a link": {link("results.json"): b"/etc/passwd"},
    "a device": {device("results.json"): b""},
    "very deep": {"/".join("a" * 40): b"x"},
    "the same name in capitals": {"REPLAY": b"x", "replay": b"x"},
}


@pytest.mark.parametrize("case", HARMFUL)
async def test_harmful_entries_are_refused(tmp_path: Path, case: str) -> None:
    path = write(tmp_path / "b.zip", {**HARMFUL[case], "manifest.json": manifest({})})
    with pytest.raises(TransferRefused) as caught:
        await extract_bundle(path, tmp_path / "out")
    assert caught.value.code == "bundle_name"
    with pytest.raises(TransferRefused):
        await extract_files(path, tmp_path / "out")
    assert names(tmp_path) == ["b.zip"]


@pytest.mark.parametrize(
    "files",
    [
        {"player_logs": {"../../0": "replay"}},
        {"player_logs": {"0/..": "replay"}},
        {"../x": "replay"},
        {"player_logs": {"a": "replay"}, "player_logs ": {"a": "replay"}},
    ],
)
async def test_harmful_keys_are_refused(tmp_path: Path, files: Mapping[str, Any]) -> None:
    path = write(tmp_path / "b.zip", {"manifest.json": manifest(files), "replay": b"x"})
    with pytest.raises(TransferRefused) as caught:
        await extract_bundle(path, tmp_path / "out")
    assert caught.value.code == "bundle_name"
    assert names(tmp_path) == ["b.zip"]


def packed(entries: Mapping[str | zipfile.ZipInfo, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return content.getvalue()


WHOLE = packed({"manifest.json": manifest(), **ENTRIES})
UNREADABLE: dict[str, bytes] = {
    "nothing": b"",
    "no zip": b"x" * 1000,
    "cut short": WHOLE[:-40],
    "no manifest": packed({**ENTRIES}),
    "manifest is a list": packed({"manifest.json": b"[]"}),
    "manifest is no JSON": packed({"manifest.json": b"{"}),
    "manifest names nothing": packed({"manifest.json": b"{}"}),
    "manifest names what is not there": packed({"manifest.json": manifest({"replay": "elsewhere"})}),
    "manifest names a number": packed({"manifest.json": manifest({"replay": 5})}),
    "manifest names a directory": packed({"manifest.json": manifest({"replay": "d/"}), "d/": b""}),
    "nested too deeply": packed({"manifest.json": b"[" * 100_000}),
}


@pytest.mark.parametrize("case", UNREADABLE)
async def test_malformed_bundle_is_refused(tmp_path: Path, case: str) -> None:
    (tmp_path / "b.zip").write_bytes(UNREADABLE[case])
    with pytest.raises(TransferRefused) as caught:
        await extract_bundle(tmp_path / "b.zip", tmp_path / "out")
    assert caught.value.code == "bundle_unreadable"
    assert names(tmp_path) == ["b.zip"]


async def test_damaged_content_leaves_nothing(tmp_path: Path) -> None:
    noise = os.urandom(5000)
    path = write(tmp_path / "b.zip", {"manifest.json": manifest({"replay": "replay"}), "replay": noise}, 0)
    data = path.read_bytes()
    path.write_bytes(data.replace(noise[100:200], bytes(100)))
    with pytest.raises(TransferRefused):
        await extract_bundle(path, tmp_path / "out")
    assert names(tmp_path) == ["b.zip"]


async def test_zip_bombs_are_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    # With the least effort that still packs it to a two hundredth
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("manifest.json", manifest({"replay": "replay"}))
        with archive.open("replay", "w", force_zip64=True) as entry:
            for _ in range(300):
                entry.write(bytes(1 << 20))
    for limit, code in ((1 << 30, "bundle_bomb"), (1 << 20, "bundle_too_large")):
        with pytest.raises(TransferRefused) as caught:
            await open_bundle(path, limit=limit)
        assert caught.value.code == code


async def test_bundle_with_too_many_entries_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "b.zip", {f"f{number}": b"" for number in range(10_001)}, 0)
    with pytest.raises(TransferRefused) as caught:
        await open_bundle(path)
    assert caught.value.code == "bundle_bomb"


async def test_wrong_declared_size_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "b.zip", {"manifest.json": manifest({"replay": "replay"}), "replay": b"x" * 5000})
    data = path.read_bytes()
    # The size in both headers of the entry, said to be less than it is
    path.write_bytes(data.replace(struct.pack("<I", 5000), struct.pack("<I", 50)))
    with pytest.raises(TransferRefused):
        await extract_bundle(path, tmp_path / "out")
    assert names(tmp_path) == ["b.zip"]
