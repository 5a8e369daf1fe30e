"""Bundles: what is in them and for whom, the same bytes each time, and hostile ones refused by entry and reason."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import random
import re
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coworld_core.api import BUNDLE_PARTS
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import EpisodeRecord, ImageRecord, SlotRecord
from coworld_core.episode.verdict import Verdict
from coworld_core.errors import CoworldError, UsageError
from coworld_core.files.zips import open_zip
from coworld_core.roles.bundle import (
    BundledSeat,
    BundleItem,
    BundleManifest,
    BundleMetadata,
    plan_bundle,
    target_name,
)
from coworld_core.roles.bundle_contents import episode_items, episode_metadata, pieces_of
from coworld_core.roles.bundle_file import (
    BundleError,
    Pieces,
    extract_bundle,
    is_bundle,
    items_of,
    pack_bundle,
    read_bundle,
)

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


def packed(entries: Mapping[Any, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return content.getvalue()


def bundle_of(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "b.zip"
    path.write_bytes(content)
    return path


def tree(directory: Path) -> dict[str, bytes]:
    return {str(one.relative_to(directory)): one.read_bytes() for one in directory.rglob("*") if one.is_file()}


def names(directory: Path) -> list[str]:
    return sorted(one.name for one in directory.iterdir())


# --- what is in a bundle ------------------------------------------------------------------------------------------


def item(part: str, key: str | None, content: bytes, *, cut: int = 1 << 20) -> BundleItem[Pieces]:
    return BundleItem(part=part, key=key, source=lambda: (content[at : at + cut] for at in range(0, len(content), cut)))


def items(*, cut: int = 1 << 20) -> list[BundleItem[Pieces]]:
    entries = {
        (part, key): ENTRIES[entry]
        for part, value in FILES.items()
        for key, entry in (value.items() if isinstance(value, dict) else [(None, value)])
    }
    return [item(part, key, content, cut=cut) for (part, key), content in entries.items()]


METADATA = BundleMetadata(variant_id="duel", duration_seconds=2.5, players=(BundledSeat(slot=0, policy_name="Ada"),))


def made(
    given: list[BundleItem[Pieces]] | None = None,
    *,
    status: Literal["success", "failed"] = "success",
    include: list[str] | None = None,
    slots: list[int] | None = None,
) -> bytes:
    content = items() if given is None else given
    plan = plan_bundle("run1", content, status=status, metadata=METADATA, include=include, slots=slots)
    return b"".join(pack_bundle(plan))


def test_bundle_is_that_of_the_contract(tmp_path: Path) -> None:
    path = bundle_of(tmp_path, made())
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["manifest.json", "metadata.json", *ENTRIES]
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        text = archive.read("manifest.json").decode()
        told = json.loads(text)
        assert archive.read("metadata.json") == (
            b'{"duration_seconds":2.5,"players":[{"policy_name":"Ada","slot":0}],"variant_id":"duel"}'
        )
    assert text == json.dumps(told, sort_keys=True, separators=(",", ":"))
    assert told == {
        "ereq_id": "run1",
        "status": "success",
        "include": [part for part in BUNDLE_PARTS if part != "error_info"],
        "files": {**FILES, "metadata": "metadata.json"},
    }
    extract_bundle(path, tmp_path / "out")
    assert tree(tmp_path / "out").keys() == {"manifest.json", "metadata.json", *ENTRIES}


def test_the_same_content_gives_the_same_bytes() -> None:
    whole = made()
    assert made(items(cut=1)) == made(list(reversed(items()))) == whole
    long = random.Random(1).randbytes(1 << 16) * 40
    assert made([item("replay", None, long, cut=1000)]) == made([item("replay", None, long)])
    assert made(status="failed") != whole


@pytest.mark.parametrize(
    ("options", "delivered"),
    [
        ({"include": ["results", "error_info", "no_such"]}, {"results"}),
        ({"include": []}, set[str]()),
        ({"include": ["player_logs", "metadata"], "slots": [1]}, {"player_logs.1", "metadata"}),
        ({"slots": []}, {"results", "replay", "game_logs.combined", "metadata"}),
        ({"slots": [0], "include": ["player_artifact"]}, set[str]()),
    ],
)
def test_parts_and_slots_are_filtered(tmp_path: Path, options: dict[str, Any], delivered: set[str]) -> None:
    bundle = read_bundle(bundle_of(tmp_path, made(**options)))
    assert {f"{file.token}.{file.key}" if file.key else file.token for file in bundle.files} == delivered
    assert set(bundle.manifest["include"]) == {file.partition(".")[0] for file in delivered}
    with zipfile.ZipFile(bundle.path) as archive:
        assert set(archive.namelist()) == {"manifest.json", *(file.entry for file in bundle.files)}


def test_two_files_of_one_name_are_refused() -> None:
    for key in (None, "stderr"):
        part = "replay" if key is None else "game_logs"
        with pytest.raises(ValueError, match="two files"):
            made([item(part, key, b"1"), item(part, key, b"2")])
    with pytest.raises(ValueError, match="no file of a bundle"):
        item("player_logs", "../0", b"")


WORDS = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,8}\Z")
CONTENTS = st.dictionaries(
    st.tuples(st.sampled_from(["replay", "results", "error_info", "later"]), st.none())
    | st.tuples(st.sampled_from(["player_logs", "player_artifact"]), st.integers(0, 20).map(str))
    | st.tuples(st.just("game_logs"), st.sampled_from(["combined", "stdout", "stderr"])),
    st.binary(max_size=200),
    max_size=8,
)


@given(
    contents=CONTENTS,
    episode=st.text(max_size=20),
    status=st.sampled_from(["success", "failed"]),
    variant=st.text(max_size=20),
    seats=st.lists(st.none() | st.text(max_size=10), max_size=4),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    contents: dict[tuple[str, str | None], bytes],
    episode: str,
    status: Literal["success", "failed"],
    variant: str,
    seats: list[str | None],
) -> None:
    players = tuple(BundledSeat(slot=slot, policy_name=name) for slot, name in enumerate(seats))
    metadata = BundleMetadata(episode_id=episode, variant_id=variant, players=players)
    given = [item(part, key, content) for (part, key), content in contents.items()]
    plan = plan_bundle(episode, given, status=status, metadata=metadata)
    path = bundle_of(tmp_path_factory.mktemp("round"), b"".join(pack_bundle(plan)))
    bundle = read_bundle(path)
    assert (bundle.episode_id, bundle.status) == (episode, status)
    found = {(file.token, file.key): b"".join(bundle.pieces(file)) for file in bundle.files}
    assert BundleMetadata.model_validate_json(found.pop(("metadata", None))) == metadata
    assert found == contents
    assert BundleManifest(**json.loads(json.dumps(bundle.manifest))) == plan.manifest
    again = plan_bundle(episode, items_of(bundle), status=status, include=["replay", "player_logs"])
    assert {one.part for one in again.items} == {part for part, _ in contents} & {"replay", "player_logs"}


def test_bundle_is_made_of_another(tmp_path: Path) -> None:
    bundle = read_bundle(bundle_of(tmp_path, made()))
    plan = plan_bundle("run1", items_of(bundle), status="success")
    (tmp_path / "again.zip").write_bytes(b"".join(pack_bundle(plan)))
    assert extract_bundle(tmp_path / "again.zip", tmp_path / "a").files
    extract_bundle(bundle.path, tmp_path / "b")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


# --- from a workspace ---------------------------------------------------------------------------------------------

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def test_a_workspace_gives_its_artifacts_and_nothing_else(tmp_path: Path) -> None:
    layout = EpisodeLayout(tmp_path)
    layout.logs.mkdir()
    secret = "s3cr3t"
    (tmp_path / "results.json").write_text("{}")
    layout.replay.write_bytes(b"moves")
    layout.game_stdout.write_text("out\n")
    layout.game_stderr.write_text("err\n")
    layout.player_log(1).write_text("hello")
    (tmp_path / "elsewhere").write_text(secret)
    layout.player_artifact(1).symlink_to(tmp_path / "elsewhere")
    for file in (layout.config, layout.record, layout.events, layout.logs / "https-proxy.log"):
        file.write_text(secret)
    verdict = Verdict(counts=False, error_type="crash", message="It ended.")
    found = {(one.part, one.key): b"".join(pieces_of(one.source)) for one in episode_items(layout, verdict, slots=2)}
    assert found == {
        ("results", None): b"{}",
        ("replay", None): b"moves",
        ("error_info", None): verdict.error_info,
        ("game_logs", "combined"): b"out\nerr\n",
        ("player_logs", "1"): b"hello",
    }
    assert ("error_info", None) not in {
        (one.part, one.key) for one in episode_items(layout, Verdict(counts=True), slots=2)
    }


def test_metadata_of_a_record() -> None:
    seat = SlotRecord(slot=0, name="Ada", image=ImageRecord(image="i"), secret_env=("KEY",))
    record = EpisodeRecord(
        run_id="r",
        coworld="c",
        version="1",
        backend="process",
        variant="duel",
        started_at=NOW,
        ended_at=NOW,
        seconds=2.5,
        status="completed",
        slots=(seat,),
    )
    assert episode_metadata(record) == METADATA


# --- memory -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_memory_does_not_grow_with_the_replay(tmp_path: Path) -> None:
    def many(count: int) -> Callable[[], Iterator[bytes]]:
        return lambda: (bytes(1 << 20) for _ in range(count))

    given = [
        BundleItem[Pieces](part="replay", source=many(64)),
        # Not compressed, which is quick
        BundleItem[Pieces](part="player_artifact", key="0", source=many(192)),
    ]
    plan = plan_bundle("r", given, status="success")
    tracemalloc.start()
    try:
        with (tmp_path / "b.zip").open("wb") as file:
            file.writelines(pack_bundle(plan))
        bundle = extract_bundle(tmp_path / "b.zip", tmp_path / "out")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [file.size >> 20 for file in bundle.files] == [64, 192]
    assert sum(one.stat().st_size for one in (tmp_path / "out").rglob("*.zip")) == 192 << 20
    assert peak < 16 << 20


# --- bundles of others --------------------------------------------------------------------------------------------


def test_bundles_of_platforms_are_read(tmp_path: Path) -> None:
    files = {"replay": "replay", "game_logs": {"stdout": "a/b/c.txt", "stderr": "x"}, "metadata": "y", "events": "z"}
    told = {**json.loads(manifest(files)), "status": "cancelled", "published_by": "them"}
    entries = {"replay": b"r", "a/b/c.txt": b"0", "x": b"e", "y": b"{}", "z": b"[]", "unlisted": b"", "a/": b""}
    path = bundle_of(tmp_path, packed({**entries, "manifest.json": json.dumps(told).encode()}))
    assert is_bundle(path)
    bundle = extract_bundle(path, tmp_path / "out")
    assert (bundle.status, bundle.manifest["published_by"]) == ("cancelled", "them")
    assert bundle.file("game_logs", "stderr") == bundle.files[1]
    assert bundle.file("results") is None
    assert {name: data for name, data in tree(tmp_path / "out").items() if name != "manifest.json"} == {
        "replay": b"r",
        "logs/game.stdout.log": b"0",
        "logs/game.stderr.log": b"e",
        "metadata.json": b"{}",
        "other/events": b"[]",
    }
    with pytest.raises(UsageError, match="already exists"):
        extract_bundle(path, tmp_path / "out")


def test_bundles_are_told_from_other_files(tmp_path: Path) -> None:
    whole = made()
    others = {
        b"": False,
        b"moves": False,
        b"PK\x03\x04 no zip": False,
        packed({"frames": b"1"}): False,
        packed({"frames": b"1", "manifest.json": b'{"files": 3}'}): False,
        packed({"frames": b"1", "manifest.json": b"{"}): False,
        packed({"frames": b"1", "manifest.json": manifest({})}): True,
        whole: True,
        whole[:200]: True,
    }
    for content, answer in others.items():
        assert is_bundle(bundle_of(tmp_path, content)) == answer, content[:50]


# --- hostile bundles ----------------------------------------------------------------------------------------------


def info(name: str, mode: int = stat.S_IFREG) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (mode | 0o666) << 16
    return entry


def patched(content: bytes, old: bytes, new: bytes) -> bytes:
    assert old in content
    return content.replace(old, new)


def flagged(name: str, flag: int) -> bytes:
    """A zip with an entry whose flags are set, in its own header and in the list of entries."""
    content = bytearray(packed({"manifest.json": manifest({}), name: b"x"}))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = content.rindex(mark)
        struct.pack_into("<H", content, start + at, flag)
    return bytes(content)


GOOD = {"manifest.json": manifest({})}
HARMFUL: dict[str, tuple[bytes, str]] = {
    "a way up": (packed({**GOOD, "../evil": b"x"}), "'../evil' leads out"),
    "a way up inside": (packed({**GOOD, "logs/../../evil": b"x"}), "'logs/../../evil' leads out"),
    "the root": (packed({**GOOD, "/etc/evil": b"x"}), "'/etc/evil' leads out"),
    "a backslash": (packed({**GOOD, "..\\evil": b"x"}), "means different things"),
    "a drive": (packed({**GOOD, "C:evil": b"x"}), "'C:evil' has a name that means different things"),
    "a control character": (packed({**GOOD, "a\nb": b"x"}), "means different things"),
    "a link": (packed({**GOOD, info("results.json", stat.S_IFLNK): b"/etc/passwd"}), "'results.json' is neither"),
    "a device": (packed({**GOOD, info("results.json", stat.S_IFCHR): b""}), "'results.json' is neither"),
    "very deep": (packed({**GOOD, "/".join("a" * 40): b"x"}), "leads out"),
    "the same name in capitals": (packed({**GOOD, "REPLAY": b"x", "replay": b"x"}), "holds 'replay' twice"),
    "the same name twice": (
        patched(packed({**GOOD, "replax": b"x", "replay": b"y"}), b"replax", b"replay"),
        "holds 'replay' twice",
    ),
    "a file as a directory": (packed({**GOOD, "replay": b"x", "replay/x": b""}), "'replay/x' is below 'replay'"),
    "not UTF-8": (patched(flagged("aXb", 0x800), b"aXb", b"a\xffb"), r"'a\\xffb' has a name that is not UTF-8"),
    "not said to be UTF-8": (patched(packed({**GOOD, "aXb": b""}), b"aXb", b"a\xffb"), "that is not UTF-8"),
    "encrypted": (flagged("replay", 0x1), "'replay' is encrypted"),
    "compressed by bzip2": (packed(GOOD, zipfile.ZIP_BZIP2), "'manifest.json' is compressed in an unusual way"),
}


@pytest.mark.parametrize("case", HARMFUL)
def test_harmful_entry_is_named(tmp_path: Path, case: str) -> None:
    content, reason = HARMFUL[case]
    path = bundle_of(tmp_path, content)
    with pytest.raises(BundleError, match=re.escape(reason)) as caught:
        extract_bundle(path, tmp_path / "out")
    assert caught.value.code == "bundle_name"
    with pytest.raises(CoworldError, match=re.escape(reason)), open_zip(path, limit=1, what="x", error=CoworldError):
        pass
    assert names(tmp_path) == ["b.zip"]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"player_logs": {"../../0": "replay"}}, "'player_logs' '../../0'"),
        ({"player_logs": {"0/..": "replay"}}, "'player_logs' '0/..'"),
        ({"../x": "replay"}, "'../x'"),
        ({"": "replay"}, "''"),
        ({"player_logs": {"": "replay"}}, "'player_logs' ''"),
        ({"game_logs": {"A": "replay", "a": "b"}}, "'game_logs' 'a'"),
        ({"replay": "replay", "later": "replay"}, "names 'replay' twice"),
    ],
)
def test_harmful_keys_are_refused(tmp_path: Path, files: Mapping[str, Any], reason: str) -> None:
    path = bundle_of(tmp_path, packed({"manifest.json": manifest(files), "replay": b"x", "b": b"x"}))
    with pytest.raises(BundleError, match=re.escape(reason)) as caught:
        extract_bundle(path, tmp_path / "out")
    assert caught.value.code == "bundle_name"
    assert names(tmp_path) == ["b.zip"]


WHOLE = packed({"manifest.json": manifest(), **ENTRIES})
UNREADABLE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "not a zip"),
    "no zip": (b"x" * 1000, "not a zip"),
    "cut short": (WHOLE[:-40], "damaged, or not a zip"),
    "no manifest": (packed({**ENTRIES}), "no manifest.json in it"),
    "manifest is a list": (packed({"manifest.json": b"[]"}), "its manifest.json is not valid: An object is expected"),
    "manifest is no JSON": (packed({"manifest.json": b"{"}), "its manifest.json is not valid"),
    "manifest is not UTF-8": (packed({"manifest.json": b"\xff"}), "is not UTF-8"),
    "manifest names nothing": (packed({"manifest.json": b"{}"}), "its manifest.json is not valid"),
    "manifest names what is not there": (
        packed({"manifest.json": manifest({"replay": "elsewhere"})}),
        "'elsewhere', which its manifest.json names for 'replay', is not in it",
    ),
    "manifest names a number": (packed({"manifest.json": manifest({"replay": 5})}), "at /files/replay"),
    "manifest names a directory": (packed({"manifest.json": manifest({"replay": "d/"}), "d/": b""}), "'d/', which"),
    "nested too deeply": (packed({"manifest.json": b"[" * 100_000}), "its manifest.json is not valid"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_malformed_bundle_is_refused(tmp_path: Path, case: str) -> None:
    content, reason = UNREADABLE[case]
    with pytest.raises(BundleError, match=re.escape(reason)) as caught:
        extract_bundle(bundle_of(tmp_path, content), tmp_path / "out")
    assert caught.value.code == "bundle_unreadable"
    assert names(tmp_path) == ["b.zip"]


NOISE = os.urandom(5000)
LYING: dict[str, Callable[[bytes], bytes]] = {
    "damaged": lambda data: patched(data, NOISE[100:200], bytes(100)),
    "more than declared": lambda data: patched(data, struct.pack("<I", 5000), struct.pack("<I", 50)),
    "less than declared": lambda data: (
        data[:-200] + patched(data[-200:], struct.pack("<I", 5000), struct.pack("<I", 5001))
    ),
}


@pytest.mark.parametrize("case", LYING)
def test_content_that_is_not_as_declared_leaves_nothing(tmp_path: Path, case: str) -> None:
    entries = {"manifest.json": manifest({"replay": "replay"}), "replay": NOISE}
    path = bundle_of(tmp_path, LYING[case](packed(entries, zipfile.ZIP_STORED)))
    with pytest.raises(BundleError, match="its entry 'replay'") as caught:
        extract_bundle(path, tmp_path / "out")
    assert caught.value.code == "bundle_unreadable"
    assert names(tmp_path) == ["b.zip"]


def test_zip_bombs_are_not_unpacked(tmp_path: Path) -> None:
    content = packed({"manifest.json": manifest({"replay": "replay"}), "replay": NOISE}, zipfile.ZIP_STORED)
    size = struct.pack("<I", 5000)
    # The size in the list of entries is what is believed until the entry is read
    path = bundle_of(
        tmp_path, content[:-200] + patched(content[-200:], size + b"\x06", struct.pack("<I", 3 << 30) + b"\x06")
    )
    for limit, code in ((8 << 30, "bundle_bomb"), (1 << 30, "bundle_too_large")):
        with pytest.raises(BundleError, match="its entry 'replay': 3 GiB") as caught:
            read_bundle(path, limit=limit)
        assert caught.value.code == code


@pytest.mark.slow
def test_logs_that_repeat_one_line_are_read(tmp_path: Path) -> None:
    def flood() -> Iterator[bytes]:
        return (b"the same line again\n" * 100_000 for _ in range(16))

    logs = [BundleItem[Pieces](part="player_logs", key=str(slot), source=flood) for slot in range(10)]
    path = bundle_of(tmp_path, made(logs))
    assert sum(file.size for file in read_bundle(path).files) > 200 * path.stat().st_size


def test_bundle_with_too_many_entries_is_refused(tmp_path: Path) -> None:
    many = packed({f"f{number}": b"" for number in range(10_001)}, zipfile.ZIP_STORED)
    with pytest.raises(BundleError, match="more than 10000 entries") as caught:
        read_bundle(bundle_of(tmp_path, many))
    assert caught.value.code == "bundle_bomb"
    with pytest.raises(BundleError, match="list of entries") as caught:
        read_bundle(bundle_of(tmp_path, packed({"n" * 60_000 + str(number): b"" for number in range(80)})))
    assert caught.value.code == "bundle_bomb"


@given(part=st.text(max_size=5) | WORDS, key=st.none() | st.text(max_size=5) | WORDS)
def test_names_stay_in_their_directory(part: str, key: str | None) -> None:
    name = target_name(part, key)
    if name is not None:
        assert re.fullmatch(r"(\w[\w-]*/)?\w[\w.-]*", name, re.ASCII)
