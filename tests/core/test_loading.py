"""Where manifests are found, and what a wrong path gets."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from coworld_core import check_manifest, load_manifest
from coworld_core.errors import ManifestError, UsageError


@pytest.fixture
def package(tmp_path: Path, document: dict[str, Any]) -> Path:
    (tmp_path / "coworld_manifest.json").write_text(json.dumps(document, indent=2), encoding="utf-8")
    return tmp_path


def test_a_file_and_its_directory(package: Path) -> None:
    path = package / "coworld_manifest.json"
    for source in (path, str(path), package, str(package), f"file://{path}"):
        loaded = load_manifest(source)
        assert loaded.path == path
        assert loaded.source == str(path)
        assert loaded.manifest.game.name == "tug"


def test_a_relative_path_is_remembered_absolutely(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(package)
    assert load_manifest("coworld_manifest.json").path == package / "coworld_manifest.json"
    assert load_manifest(".").path == package / "coworld_manifest.json"


def test_a_template_is_not_read_as_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "coworld_manifest_template.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match="holds a template") as raised:
        load_manifest(tmp_path)
    assert raised.value.code == "manifest_not_found"


def test_newer_template_of_a_directory_is_read_with_a_remark(package: Path, document: dict[str, Any]) -> None:
    os.utime(package / "coworld_manifest.json", (1, 1))
    template = package / "coworld_manifest_template.json"
    template.write_text(json.dumps(document), encoding="utf-8")
    loaded = load_manifest(package, template=True)
    assert (loaded.path, [issue.code for issue in loaded.report.issues]) == (template, ["template_newer"])
    loaded = load_manifest(package)
    assert [issue.code for issue in loaded.report.issues] == ["manifest_older"]


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("none.json", "manifest_not_found", "There is no file none.json"),
        (".", "manifest_not_found", "a directory without a manifest"),
        ("https://example.org/coworld_manifest.json", "manifest_not_local", "not a file on this machine"),
        ('{"game": 1}', "manifest_not_found", "not the text of a manifest"),
        ("x" * 5000, "manifest_not_found", "There is no file"),
        ("a\0b", "manifest_not_found", "There is no file"),
    ],
)
def test_wrong_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, code: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    for read in (load_manifest, check_manifest):
        with pytest.raises(UsageError, match=message) as raised:
            read(path)
        assert raised.value.code == code
        assert raised.value.hint


def test_an_unreadable_file(package: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        path = Path(name) / "coworld_manifest.json"
        path.write_bytes((package / "coworld_manifest.json").read_bytes())
        path.chmod(0)
        path.parent.chmod(0o755)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # Root can read everything
        try:
            with pytest.raises(UsageError) as raised:
                load_manifest(path)
        finally:
            os.seteuid(user)
    assert raised.value.code == "manifest_unreadable"


def test_device_is_refused_as_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        load_manifest("/proc/self/mem")
    assert raised.value.code == "manifest_unreadable"


def test_byte_order_mark_is_ignored(package: Path) -> None:
    path = package / "coworld_manifest.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_manifest(package).report.issues == ()


def test_remarks_are_counted(document: dict[str, Any]) -> None:
    document["extra"] = 1
    loaded = load_manifest(json.dumps(document).encode())
    assert [issue.code for issue in loaded.report.warnings] == ["unknown_field"]
    assert repr(loaded).endswith("from manifest, 1 remark>")


def test_the_source_is_not_changed(document: dict[str, Any]) -> None:
    document["extra"] = {"a": 1}
    document["variants"][1]["parent_id"] = "default"
    document["game"]["runnable"]["resources"]["limits"] = {}
    del document["game"]["runnable"]["type"]
    before = json.dumps(document)
    load_manifest(document)
    assert json.dumps(document) == before


def test_everything_at_once(document: dict[str, Any]) -> None:
    document["gmae"] = document.pop("game")
    document["player"][0]["image"] = ""
    document["variants"][1]["id"] = "default"
    document["certification"]["players"][0]["player_id"] = "nobody"
    with pytest.raises(ManifestError) as raised:
        load_manifest(json.dumps(document, indent=1).encode())
    report = raised.value.report
    assert [issue.code for issue in report.errors] == [
        "empty_image",
        "duplicate_id",
        "unknown_player_id",
        "misspelt_field",
    ]
    lines = [issue.line or 0 for issue in report.errors]
    assert lines == sorted(lines)
    first = report.errors[0]
    assert str(raised.value) == f"manifest:{first.line}:{first.column}: player[0].image is empty. (and 3 more)"


def test_an_error_is_short(document: dict[str, Any]) -> None:
    """The published one answered a misspelt key with a thousand lines."""
    document["gmae"] = document.pop("game")
    text = str(check_manifest(json.dumps(document, indent=2).encode()))
    assert len(text.splitlines()) == 2
    assert len(text) < 200


def test_the_template_of_the_sample_world() -> None:
    example = Path(__file__).parents[2] / "examples" / "paintarena" / "coworld_manifest_template.json"
    loaded = load_manifest(example, template=True)
    assert loaded.manifest.is_template
    assert [issue.code for issue in loaded.report.issues] == ["lifted_version", "newer_field"]
    assert [issue.code for issue in check_manifest(example).errors] == ["template_not_built"]
