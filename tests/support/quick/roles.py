"""The roles of the quick game, with the standard library alone; each has a behaviour to show."""

import json
import os
import pathlib
import sys
import time
import urllib.parse
import zipfile
from collections.abc import Mapping

PAGE = """<!doctype html><html><head><meta charset="utf-8"><link rel="stylesheet" href="look.css"></head>
<body><h1>Shown</h1><p id="given">{given}</p><img alt="tiles" src="tiles.svg"></body></html>"""
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><rect width="40" height="40" fill="#285"/></svg>'


def place(variable: str) -> pathlib.Path:
    return pathlib.Path(urllib.parse.unquote(urllib.parse.urlsplit(os.environ[variable]).path))


def pack(path: pathlib.Path, files: Mapping[str, object]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content if isinstance(content, str) else json.dumps(content))


def given() -> list[str]:
    with zipfile.ZipFile(place("COGAME_EPISODE_BUNDLE_URI")) as bundle:
        return sorted(set(bundle.namelist()) - {"manifest.json"})


def grade(behaviour: str) -> None:
    if behaviour == "fails":
        print("I cannot go on")
        sys.exit(3)
    while behaviour == "waits":
        time.sleep(0.1)
    answer = {"score": 0.25, "grader_id": "margin", "scale": "1: as close as can be", "given": given()}
    place("COGAME_GRADE_URI").write_text(json.dumps(answer))


def report(behaviour: str) -> None:
    request = json.loads(os.environ["COGAME_REPORT_REQUEST"])
    [episode] = request["episodes"]
    names = " ".join(
        f"{part}:{','.join(sorted(one)) if part.startswith('player') else ''}"
        for part, one in sorted(episode["artifacts"].items())
        if one
    )
    page = "<img src='http://elsewhere.invalid/x'>" if behaviour == "calls" else PAGE.format(given=names)
    files = {"manifest.json": {"reporter_id": "summary", "render": "page.html"}, "page.html": page, "tiles.svg": SVG}
    out = pathlib.Path(urllib.parse.unquote(urllib.parse.urlsplit(str(request["report_uri"])).path))
    pack(out, {**files, "look.css": "body { font-family: sans-serif }"})


def diagnose(behaviour: str) -> None:
    player = json.loads(place("COGAME_TARGET_POLICY_URI").read_text())
    page = f"# {player['name']}\n\n![tiles](tiles.svg)\n\nIt was given {', '.join(given())}.\n"
    manifest = {"diagnoser_id": "edges", "render": "diagnosis.md"}
    pack(place("COGAME_DIAGNOSIS_URI"), {"manifest.json": manifest, "diagnosis.md": page, "tiles.svg": SVG})


{"grader": grade, "reporter": report, "diagnoser": diagnose}[sys.argv[1]](sys.argv[2])
