"""The published package reads what is written here, and takes the reports that are taken here."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from support.hostile_reports import HONEST
from support.published_client import install

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
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the published package says of reports and a request that are written here."""
    place = tmp_path_factory.mktemp("published")
    for name, files in HONEST.items():
        write_report(place / f"{name}.zip", files, reporter_id=name, render=next(iter(files)))
    (place / "request.json").write_bytes(REQUEST.to_json())
    words = [install(place / "venv"), "-c", _READ, place]
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


def test_reports_are_taken_by_both(told: dict[str, Any]) -> None:
    assert told["reports"] == {
        name: {"reporter_id": name, "render": next(iter(files)), "event_log": None, "trace": None}
        for name, files in HONEST.items()
    }


def test_a_request_says_the_same_to_both(told: dict[str, Any]) -> None:
    assert read_report_request(told["request"]) == REQUEST
