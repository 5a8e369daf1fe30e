"""The report of a reporter: a zip, with a manifest that names what others should look at."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from pydantic import Field

from ..documents.findings import quoted
from ..documents.records import Record
from ..errors import UsageError
from ..files.atomic import write_whole
from ..files.zips import ZipWriter
from ..text.phrases import listed
from .open_shape import compact_json

__all__ = [
    "EVENT_LOG_COLUMNS",
    "REPORT_MANIFEST",
    "REPORT_POINTERS",
    "ReportManifest",
    "pointer_problems",
    "write_report",
    "zip_of",
]

REPORT_MANIFEST = "manifest.json"
"""Name of the manifest, the first entry."""

REPORT_POINTERS: Mapping[str, tuple[str, ...]] = {
    "render": (".md", ".html"),
    "event_log": (".parquet",),
    "trace": (".jsonl", ".json"),
}
"""The fields of the manifest that name an entry, each with how the entry's name may end, in either case."""

EVENT_LOG_COLUMNS: Mapping[str, str] = {"ts": "int64", "player": "int64", "key": "string", "value": "string"}
"""The columns of an event log and their types: the tick, the slot (-1: all), what it is, and its value, JSON if it is
structured."""


class ReportManifest(Record):
    """The `manifest.json` of a report. Consumers refuse any other field."""

    reporter_id: str = Field(min_length=1, description="The reporter.")
    render: str | None = Field(default=None, description="Entry to show: a page in Markdown or HTML.")
    event_log: str | None = Field(default=None, description="Entry with events in Parquet, for analysis.")
    trace: str | None = Field(default=None, description="Entry with a trace, as JSON or as lines of JSON.")


def write_report(
    target: Path,
    files: Mapping[str, bytes],
    *,
    reporter_id: str,
    render: str | None = None,
    event_log: str | None = None,
    trace: str | None = None,
) -> None:
    """Write a report: the same content gives the same bytes.

    Args:
        target: The zip, in an existing directory.
        files: The content of each entry by name, in the order of the zip, without the manifest.
        reporter_id: The reporter.
        render: Entry to show, `.md` or `.html`.
        event_log: Entry with events, `.parquet`, with the columns of `EVENT_LOG_COLUMNS`.
        trace: Entry with a trace, `.jsonl` or `.json`.

    Raises:
        UsageError: An entry that is named is not among the files, or its name does not end as it must
            (`report_incomplete`).
        OSError: The zip cannot be written.
    """
    manifest = ReportManifest(reporter_id=reporter_id, render=render, event_log=event_log, trace=trace)
    problems = [what for _, what in pointer_problems(manifest.model_dump(), REPORT_POINTERS, files)]
    if problems:
        raise UsageError(f"The report is not written: {listed(problems)}.", code="report_incomplete")
    write_whole(target, zip_of({REPORT_MANIFEST: compact_json(manifest), **files}))


def pointer_problems(
    manifest: Mapping[str, object], pointers: Mapping[str, tuple[str, ...]], names: Collection[str]
) -> Iterator[tuple[str, str]]:
    """What is wrong with the entries that a manifest names: a code, and a part of a sentence.

    Args:
        manifest: The manifest's fields.
        pointers: The fields that name an entry, each with how its name may end.
        names: The entries that there are.
    """
    for field, endings in pointers.items():
        if not isinstance(name := manifest.get(field), str):
            continue
        if name not in names:
            yield "entry_missing", f"{field} is {quoted(name)}, which is not in the zip"
        elif posixpath.splitext(name)[1].lower() not in endings:
            yield "wrong_extension", f"{field} is {quoted(name)}; its name must end in {listed(endings, word='or')}"


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """A zip of files in the given order, whose bytes depend on nothing else."""
    pieces: list[bytes] = []
    with ZipWriter(pieces.append) as archive:
        for name, content in files.items():
            archive.add(name, content)
    return b"".join(pieces)
