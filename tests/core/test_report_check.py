"""The check of reports and diagnoses as zips: whatever is wrong is listed, with the entry and the reason."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.hostile_reports import HONEST, HOSTILE

from coworld_core.errors import DocumentError, UsageError
from coworld_core.issue_codes import ISSUE_CODES
from coworld_core.issues import Report
from coworld_core.roles.player_diagnosis import DiagnosisFindings, write_diagnosis
from coworld_core.roles.report import ReportManifest, write_report
from coworld_core.roles.report_check import check_diagnosis, check_report, read_diagnosis, read_report


def packed(path: Path, files: Mapping[str, bytes], manifest: object = None) -> Path:
    """A zip as others write it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if manifest is not None:
            archive.writestr("manifest.json", manifest if isinstance(manifest, bytes) else json.dumps(manifest))
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def listed(report: Report) -> list[tuple[str, str]]:
    """The code and the entry of each error."""
    for issue in report.issues:
        assert issue.code in ISSUE_CODES
        assert issue.message.isprintable()
    return [(issue.code, issue.pointer.removeprefix("/")) for issue in report.errors]


def parquet(**columns: Any) -> bytes:
    arrow, files = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    sink = io.BytesIO()
    files.write_table(arrow.table(columns), sink, compression="snappy")
    return sink.getvalue()


def events(**changed: Any) -> bytes:
    arrow = pytest.importorskip("pyarrow")
    whole, text = arrow.array([], arrow.int64()), arrow.array([], arrow.string())
    return parquet(**{"ts": whole, "player": whole, "key": text, "value": text, **changed})


def test_an_honest_report_passes(tmp_path: Path) -> None:
    files = {**HONEST["files"], "stats.parquet": events(), "trace.jsonl": b'{"a": 1}\n[2]\n\n"x"'}
    manifest = {"reporter_id": "r", "render": "report.html", "event_log": "stats.parquet", "trace": "trace.jsonl"}
    path = packed(tmp_path / "report.zip", files, manifest)
    assert check_report(path) == Report(source=str(path))
    assert read_report(path) == ReportManifest(**manifest)


def test_a_report_needs_no_more_than_a_reporter(tmp_path: Path) -> None:
    path = packed(tmp_path / "report.zip", {"a.txt": b""}, {"reporter_id": "r", "render": None})
    assert check_report(path).issues == ()


def test_the_same_report_is_the_same_bytes(tmp_path: Path) -> None:
    files = {"b.md": b"# Shown", "a.json": b"{}"}
    for name in ("one.zip", "two.zip"):
        write_report(tmp_path / name, files, reporter_id="r", render="b.md", trace="a.json")
    data = (tmp_path / "one.zip").read_bytes()
    assert data == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == ["manifest.json", "b.md", "a.json"]
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_DEFLATED}
        manifest = archive.read("manifest.json")
    assert manifest == b'{"event_log":null,"render":"b.md","reporter_id":"r","trace":"a.json"}'
    assert check_report(tmp_path / "one.zip").issues == ()


NAMES = st.text("abcdef", min_size=1, max_size=8)


@settings(deadline=None, max_examples=25)
@given(st.dictionaries(NAMES, st.binary(max_size=60), max_size=4), NAMES, st.text(max_size=20))
def test_a_written_report_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], reporter: str, text: str
) -> None:
    path = tmp_path_factory.mktemp("reports") / "report.zip"
    page = text.encode("utf-8", "replace")
    write_report(path, {**files, "page.md": page}, reporter_id=reporter, render="page.md")
    assert read_report(path) == ReportManifest(reporter_id=reporter, render="page.md")
    with zipfile.ZipFile(path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()[1:]} == {**files, "page.md": page}


def test_an_incomplete_report_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'render is "a\.md", which is not in the zip') as raised:
        write_report(tmp_path / "report.zip", {"b.txt": b""}, reporter_id="r", render="a.md", trace="b.txt")
    assert 'trace is "b.txt"; its name must end in .jsonl or .json' in raised.value.message
    assert list(tmp_path.iterdir()) == []


def test_everything_that_is_wrong_is_listed_at_once(tmp_path: Path) -> None:
    path = packed(
        tmp_path / "report.zip",
        {"page.HTML": b"<iframe></iframe><p onclick=x>", "log.parquet": b"PAR1", "trace.jsonl": b"{}\n{a}\n[1\n"},
        {"reporter_id": "", "render": "page.HTML", "event_log": "log.parquet", "trace": "trace.jsonl", "more": 1},
    )
    assert sorted(listed(check_report(path))) == sorted(
        [
            ("empty_value", "manifest.json"),
            ("unknown_field", "manifest.json"),
            ("unsafe_element", "page.HTML"),
            ("unsafe_attribute", "page.HTML"),
            ("event_log_unreadable", "log.parquet"),
            ("not_json", "trace.jsonl"),
            ("not_json", "trace.jsonl"),
        ]
    )
    with pytest.raises(DocumentError) as raised:
        read_report(path)
    assert raised.value.code == "report_invalid"


MANIFESTS: dict[str, tuple[object, str, str]] = {
    "missing": (None, "entry_missing", "which is to say what is in it"),
    "not-json": (b"{", "not_json", "manifest.json"),
    "not-utf8": (b'{"reporter_id": "\xff"}', "not_utf8", "not UTF-8"),
    "a-list": ([], "not_an_object", "An object is expected"),
    "no-reporter": ({}, "missing_field", 'lacks "reporter_id"'),
    "misspelt": ({"reporter": "r"}, "misspelt_field", 'Did you mean "reporter_id"?'),
    "render-missing": (
        {"reporter_id": "r", "render": "gone.md"},
        "entry_missing",
        '"gone.md", which is not in the zip',
    ),
    "render-a-folder": ({"reporter_id": "r", "render": "folder/"}, "entry_missing", "not in the zip"),
    "render-leads-out": ({"reporter_id": "r", "render": "../a.md"}, "entry_missing", "not in the zip"),
    "render-wrong": ({"reporter_id": "r", "render": "a.txt"}, "wrong_extension", "must end in .md or .html"),
    "render-number": ({"reporter_id": "r", "render": 3}, "wrong_type", "must be text, not a number"),
    "log-wrong": ({"reporter_id": "r", "event_log": "a.txt"}, "wrong_extension", "must end in .parquet"),
    "trace-wrong": ({"reporter_id": "r", "trace": "a.txt"}, "wrong_extension", "must end in .jsonl or .json"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_wrong_manifest_is_refused(name: str, tmp_path: Path) -> None:
    manifest, code, says = MANIFESTS[name]
    path = packed(tmp_path / "report.zip", {"a.txt": b"", "folder/": b""}, manifest)
    report = check_report(path)
    assert [found for found, _ in listed(report)] == [code]
    assert says in str(report)


def _link(archive: zipfile.ZipFile) -> None:
    entry = zipfile.ZipInfo("link.md")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive.writestr(entry, "/etc/passwd")


def _twice(archive: zipfile.ZipFile) -> None:
    archive.writestr("a.md", "1")
    with pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("a.md", "2")


def _bomb(archive: zipfile.ZipFile) -> None:
    with archive.open("zeros", "w", force_zip64=True) as file:
        for _ in range(600):
            file.write(bytes(1 << 20))


def _not_utf8(archive: zipfile.ZipFile) -> None:
    archive.writestr("n\u00e9.md", "")


ZIPS: dict[str, tuple[Callable[[zipfile.ZipFile], object], str, str]] = {
    "leads-out": (lambda archive: archive.writestr("../a.md", ""), "..~1a.md", "leads out of the zip"),
    "absolute": (lambda archive: archive.writestr("/etc/a.md", ""), "/etc~1a.md".replace("/", "~1", 1), "leads out"),
    "backslash": (lambda archive: archive.writestr("a\\b.md", ""), "a\\b.md", "different things on different machines"),
    "twice": (_twice, "a.md", "twice"),
    "twice-in-another-case": (
        lambda archive: (archive.writestr("a.md", ""), archive.writestr("A.md", "")),
        "A.md",
        "twice",
    ),
    "link": (_link, "link.md", "neither a file nor a directory"),
    "bomb": (_bomb, "zeros", "would unpack to"),
    "file-as-folder": (
        lambda archive: (archive.writestr("a", ""), archive.writestr("a/b.md", "")),
        "a~1b.md",
        "which is a file",
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "bomb" else name for name in ZIPS]
)
def test_an_unsafe_zip_is_refused(name: str, tmp_path: Path) -> None:
    make, entry, says = ZIPS[name]
    path = packed(tmp_path / "report.zip", {}, {"reporter_id": "r"})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        make(archive)
    for check in (check_report, check_diagnosis):
        report = check(path)
        assert ("zip_unsafe", entry) in listed(report)
        assert says in str(report)


def test_all_unsafe_entries_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "report.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../a.md", "")
        archive.writestr("b\\c.md", "")
        _link(archive)
    assert listed(check_report(path)) == [("zip_unsafe", name) for name in ("..~1a.md", "b\\c.md", "link.md")]


def test_what_is_no_zip_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.zip"
    for data in (b"", b"hello", b"PK\x03\x04"):
        path.write_bytes(data)
        assert listed(check_report(path)) == [("zip_unsafe", "")]
    packed(path, {"page.md": bytes(range(128)) * 40}, {"reporter_id": "r", "render": "page.md"})
    data = bytearray(path.read_bytes())
    at = data.index(b"page.md") + 20
    data[at : at + 8] = b"\xff" * 8
    path.write_bytes(data)
    assert listed(check_report(path)) == [("zip_unsafe", "page.md")]
    with pytest.raises(UsageError) as raised:
        check_report(tmp_path / "gone.zip")
    assert raised.value.code == "path_missing"


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = packed(tmp_path / "report.zip", {"name.md": b""}, {"reporter_id": "r"})
    path.write_bytes(path.read_bytes().replace(b"name.md", b"n\xffme.md"))
    assert "has a name that is not UTF-8" in str(check_report(path))


def test_a_render_must_be_utf8(tmp_path: Path) -> None:
    for name in ("page.md", "page.html"):
        path = packed(tmp_path / "report.zip", {name: b"\xe9"}, {"reporter_id": "r", "render": name})
        assert listed(check_report(path)) == [("not_utf8", name)]


def test_hostile_pages_are_refused_in_a_zip_too(tmp_path: Path) -> None:
    for name in ("svg-use-elsewhere", "script-in-a-linked-picture"):
        hostile = HOSTILE[name]
        files = {"report.html": hostile.page.encode(), **{at: text.encode() for at, text in hostile.files.items()}}
        path = packed(tmp_path / "report.zip", files, {"reporter_id": "r", "render": "report.html"})
        assert listed(check_report(path)) == [(hostile.code, hostile.at)]


def test_an_event_log_has_the_columns_of_the_contract(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    manifest = {"reporter_id": "r", "event_log": "log.parquet"}

    def checked(data: bytes) -> str:
        return "\n".join(
            issue.message for issue in check_report(packed(tmp_path / "r.zip", {"log.parquet": data}, manifest)).issues
        )

    assert checked(events()) == ""
    assert checked(events(more=arrow.array([], arrow.int8()))) == ""
    assert "its column ts is double; it must be int64" in checked(events(ts=arrow.array([], arrow.float64())))
    assert checked(parquet(ts=arrow.array([], arrow.int64()))).count("it has no column") == 3
    assert "damaged" in checked(b"PAR1" + bytes(40) + b"PAR1")
    assert "not a Parquet file" in checked(b"PAR1" + bytes(40))


def test_a_trace_is_json(tmp_path: Path) -> None:
    for name, data, expected in (
        ("t.json", b"[1, 2]", []),
        ("t.json", b"{}\n{}", ["not_json"]),
        ("t.json", b"[NaN]", ["non_finite_number"]),
        ("t.jsonl", b"{}\r\n\n[1]", []),
        ("t.jsonl", b"x\n" * 30, ["not_json"] * 20),
    ):
        path = packed(tmp_path / "r.zip", {name: data}, {"reporter_id": "r", "trace": name})
        assert listed(check_report(path)) == [(code, name) for code in expected]


def test_a_diagnosis_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = DiagnosisFindings(diagnoser_id="d", score=-0.5, recommendations=("Move.",), winner_slot=1)  # pyright: ignore[reportCallIssue]
    path = tmp_path / "diagnosis.zip"
    write_diagnosis(path, found, render="diagnosis.md", files={"diagnosis.md": b"# Shown"})
    assert check_diagnosis(path).issues == ()
    manifest, again = read_diagnosis(path)
    assert (manifest.render, manifest.findings, again) == ("diagnosis.md", "findings.json", found)
    with pytest.raises(UsageError, match="not in the zip"):
        write_diagnosis(path, found, render="gone.md")


def test_a_diagnosis_needs_no_manifest(tmp_path: Path) -> None:
    path = packed(tmp_path / "d.zip", {"findings.json": b'{"score": 1}', "diagnosis.md": b"# Shown"})
    manifest, found = read_diagnosis(path)
    assert (manifest.render, found.score) == ("diagnosis.md", 1.0)
    manifest, found = read_diagnosis(packed(path, {"notes.txt": b""}))
    assert (manifest.render, manifest.findings, found) == (None, None, DiagnosisFindings())


def test_a_wrong_diagnosis_is_refused(tmp_path: Path) -> None:
    path = packed(
        tmp_path / "d.zip",
        {"findings.json": b'{"score": true, "recommendations": "Move."}', "page.html": b"<iframe>"},
        {"render": "page.html", "findings": "findings.json", "layout": 2},
    )
    assert sorted(listed(check_diagnosis(path))) == [
        ("unsafe_element", "page.html"),
        ("wrong_type", "findings.json"),
        ("wrong_type", "findings.json"),
    ]
    with pytest.raises(DocumentError) as raised:
        read_diagnosis(path)
    assert raised.value.code == "diagnosis_invalid"
