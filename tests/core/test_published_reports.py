"""The published package reads what is written here, and takes the reports that are taken here."""

from __future__ import annotations

import io
import json
import os
import subprocess
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.hostile_reports import HONEST
from support.published_client import install

from coworld_core.roles import FinishedEpisode
from coworld_core.roles.bundle import BundleManifest
from coworld_core.roles.report import write_report
from coworld_core.roles.report_request import (
    ArtifactRef,
    EpisodeErrorInfo,
    InlineJson,
    ReportArtifacts,
    ReportEpisode,
    ReportRequest,
    read_report_request,
)
from paintarena.roles.parquet_stats import report

pytestmark = pytest.mark.slow

_READ = """
import json, pathlib, sys
from coworld.report import validate_report_zip
from coworld.reporter_protocol import ReportRequest
told = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.zip")):
    try:
        told[path.stem] = validate_report_zip(path.read_bytes()).model_dump()
    except ValueError as error:
        told[path.stem] = str(error)
request = ReportRequest.model_validate_json(pathlib.Path(sys.argv[1], "request.json").read_bytes())
print(json.dumps({"reports": told, "request": request.model_dump(mode="json")}))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python that has the published package."""
    return install(tmp_path_factory.mktemp("published") / "venv")


@pytest.fixture(scope="module")
def published_answers(python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the published package says of reports and a request that are written here."""
    place = tmp_path_factory.mktemp("read")
    for name, files in HONEST.items():
        write_report(place / f"{name}.zip", files, reporter_id=name, render=next(iter(files)))
    (place / "request.json").write_bytes(REQUEST.to_json())
    words = [python, "-c", _READ, place]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


REQUEST = ReportRequest(
    request_id="r",
    report_uri="file:///out/report.zip",
    episodes=(
        ReportEpisode(
            episode_request_id="ereq_1",
            status="failed",
            manifest=BundleManifest(
                ereq_id="ereq_1",
                status="failed",
                include=("replay", "player_logs"),
                files={"replay": "replay", "player_logs": {"0": "logs/policy_agent_0.log"}},
            ),
            artifacts=ReportArtifacts(
                replay=ArtifactRef(uri="file:///in/replay", media_type="application/octet-stream", encoding="zlib"),
                player_logs={"0": ArtifactRef(uri="file:///in/0.log", media_type="text/plain")},
            ),
            inline_json=InlineJson(error_info=EpisodeErrorInfo(failed_policy_index=0)),
        ),
    ),
)


def test_reports_are_taken_by_both(published_answers: dict[str, Any]) -> None:
    assert published_answers["reports"] == {
        name: {"reporter_id": name, "render": next(iter(files)), "event_log": None, "trace": None}
        for name, files in HONEST.items()
    }


def test_a_request_says_the_same_to_both(published_answers: dict[str, Any]) -> None:
    assert read_report_request(published_answers["request"]) == REQUEST


def test_parquet_of_paint_arena_is_that_of_the_published_sample(python: Path, tmp_path: Path) -> None:
    size = {"width": 4, "height": 4}
    frames = [
        {
            **size,
            "tick": tick,
            "scores": [tick, 1],
            "positions": [[tick, 0], [3, 3]],
            "tile_owners": [0, tick, 1, -1] * 4,
        }
        for tick in (1, 2)
    ]
    results = {"scores": [2.0, 1.0], "painted_tiles": [2, 1], "ticks": 2}
    replay = {"config": size, "player_names": ["A", "B"], "frames": frames, "results": results}
    files = {"results": json.dumps(results).encode(), "replay": json.dumps(replay).encode()}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    refs = {name: ArtifactRef(uri=(tmp_path / name).as_uri(), media_type="application/json") for name in files}
    manifest = BundleManifest(ereq_id="e", status="success", include=tuple(files), files={name: name for name in files})
    asked = ReportRequest(
        request_id="r",
        report_uri=(tmp_path / "report.zip").as_uri(),
        episodes=(
            ReportEpisode(
                episode_request_id="e", status="success", manifest=manifest, artifacts=ReportArtifacts(**refs)
            ),
        ),
    )
    done = subprocess.run(
        [python, "-m", "coworld.examples.paintarena.reporter.stats_reporter"],
        env={**os.environ, "COGAME_REPORT_REQUEST": asked.to_json().decode()},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "report.zip") as archive:
        theirs = archive.read("stats.parquet")
    parts = {(name, None): (lambda content=content: content) for name, content in files.items()}
    (ours,) = report([FinishedEpisode(id="e", parts=parts)]).values()
    read = import_module("pyarrow.parquet").read_table
    assert read(io.BytesIO(ours)).equals(read(io.BytesIO(theirs)), check_metadata=True)
