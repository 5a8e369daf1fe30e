"""A replay as one file, opened without a game: played back from file://, and inline as a notebook shows it."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import expect
from support.browser import Pages
from support.cli_kit import coworld
from support.needs import find_browser
from support.nim_episode import NIM

from coworld_runner.kit.server.scaffolds import new_game
from coworld_runner.replay.recorded_page import ReplayPage

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]


def written(package: Path, place: Path, *words: str) -> str:
    """Where the page of a game's replay is."""
    assert coworld("run-episode", package, "-o", place / "played", *words).status == 0
    done = coworld("replay", package, place / "played", "--html", place / "page.html")
    assert done.status == 0, done.stderr
    return (place / "page.html").as_uri()


def test_a_replay_of_the_kit(pages: Pages, tmp_path: Path) -> None:
    game = new_game("small", directory=tmp_path / "small").directory
    page = pages(written(game, tmp_path), alone=True)
    page.get_by_label("Tick").press("End")
    expect(page.locator("#status")).to_have_text("The game is over")
    assert coworld("replay", game, tmp_path / "played", "--html", tmp_path / "at.html", "--at", "1").status == 0
    at = (tmp_path / "at.html").as_uri()
    for address, tick in ((at, 1), (f"{at}#tick=2", 2)):
        expect(pages(address).locator("#status")).to_have_text(f"Tick {tick}")


def test_a_key_pressed_before_the_replay_has_arrived(pages: Pages, tmp_path: Path) -> None:
    written(NIM, tmp_path, "--player", "random", "--seed", "7")
    page = tmp_path / "page.html"
    pressed = 'document.dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));'
    head, last, rest = page.read_text(encoding="utf-8").rpartition("</script>")
    page.write_text(f"{head}\n{pressed}\n{last}{rest}", encoding="utf-8")
    # By itself it would take longer than anybody waits here
    expect(pages(f"{page.as_uri()}#pace=0.25").locator("#status")).to_have_text("The game is over")


def test_what_seats_could_expect_and_what_it_cost(pages: Pages, tmp_path: Path) -> None:
    address = written(NIM, tmp_path, "--player", "random", "--seed", "7")
    options = ("--html", tmp_path / "why.html", "--chances", "--seconds", "5")
    done = coworld("replay", NIM, tmp_path / "played", *options, "--json").json
    costliest = max(done["chances"]["moves"], key=lambda move: move["cost"])
    page = pages((tmp_path / "why.html").as_uri(), alone=True)
    shares = page.get_by_role("img", name=re.compile("^Share of the points to expect: "))
    expect(shares).to_be_visible()
    assert shares.locator("polygon.band").count() == 2
    marks = page.get_by_role("group", name="Events").get_by_role("button")
    said = f"{costliest['tick']}: .* cost {round(100 * costliest['cost'])} % of the points"
    page.get_by_role("button", name=re.compile(said)).click()
    expect(page.locator("#status")).to_have_text(f"Tick {costliest['tick']}")
    assert marks.count() >= 1
    expect(pages(address).get_by_role("img", name=re.compile("^Share of"))).to_have_count(0)


def test_expectations_that_a_stranger_wrote(pages: Pages, tmp_path: Path) -> None:
    written(NIM, tmp_path, "--player", "random", "--seed", "7")
    page = tmp_path / "page.html"
    head, packed, rest = re.split(r'(?<=id="coworld-recorded">)([^<]*)', page.read_text(encoding="utf-8"), maxsplit=1)
    messages = json.loads(zlib.decompress(base64.b64decode(packed)))
    points = [None, {}, {"tick": "1", "slots": []}, {"tick": 2, "slots": [{"share": "<b>"}, {"share": 9e9}]}]
    curve = [point for point in points if point is not None]
    moves = [
        {"tick": 10**9, "slot": 0},
        {"tick": 1, "slot": 77},
        {"tick": 1, "slot": 0, "action": "<img src=x>", "cost": "x"},
    ]
    messages.append(json.dumps({"type": "chances", "curve": curve, "moves": moves}))
    written_by_others = base64.b64encode(zlib.compress(json.dumps(messages).encode())).decode()
    page.write_text(head + written_by_others + rest, encoding="utf-8")
    shown = pages(page.as_uri(), alone=True)
    shown.keyboard.press("End")
    expect(shown.locator("#status")).to_have_text("The game is over")
    assert shown.locator("main img").count() == 0


def test_a_replay_of_paint_arena(pages: Pages, tmp_path: Path) -> None:
    page = pages(written(ROOT / "examples/paintarena", tmp_path, "--variant", "quick"), alone=True)
    page.locator("body").press("End")
    expect(page.locator("#tick")).to_have_text("Tick 20 of 20")
    notebook = tmp_path / "notebook.html"
    whole = ReplayPage((tmp_path / "page.html").read_text(encoding="utf-8"))
    notebook.write_text(f"<!doctype html>{whole._repr_html_()}", encoding="utf-8")
    inline = pages(notebook.as_uri()).frame_locator("iframe")
    expect(inline.locator("#status")).to_have_text("Playing")


BROWSER = {"COWORLD_BROWSER": find_browser() or ""}


def filmed(place: Path, name: str, *words: str) -> Path:
    """The file that a game's replay is written to."""
    done = coworld("replay", place / "played", "--backend", "process", "-o", place / name, *words, env=BROWSER)
    assert done.status == 0, done.stderr
    return place / name


@pytest.mark.parametrize("example", ["nim", "paintarena"])
def test_a_replay_is_a_picture_or_a_gif(example: str, tmp_path: Path) -> None:
    words = ("--variant", "quick") if example == "paintarena" else ()
    game = ROOT / "examples" / example
    assert coworld("run-episode", game, "--backend", "process", "-o", tmp_path / "played", *words).status == 0
    last = Image.open(filmed(tmp_path, "last.png")).convert("RGB")
    first = Image.open(filmed(tmp_path, "first.png", "--at", "0")).convert("RGB")
    assert first.size == last.size
    assert first.tobytes() != last.tobytes()
    with Image.open(filmed(tmp_path, "game.gif", "--speed", "10")) as opened:
        film: Any = opened
        assert (film.n_frames > 3, film.size) == (True, last.size)
        film.seek(0)
        assert film.info["duration"] == 100
        apart = ImageChops.difference(film.convert("RGB"), first).convert("L")
    assert not any(apart.histogram()[90:]), "a GIF has fewer colours, and no others"
    again = coworld("replay", tmp_path / "played", "-o", tmp_path / "game.gif")
    assert (again.status, "already exists" in again.stderr) == (2, True)
    filmed(tmp_path, "first.png", "--overwrite")
    assert Image.open(tmp_path / "first.png").convert("RGB").tobytes() == last.tobytes()


@pytest.mark.ffmpeg
def test_a_replay_is_a_film(tmp_path: Path) -> None:
    game = ROOT / "examples/nim"
    assert coworld("run-episode", game, "--backend", "process", "-o", tmp_path / "played").status == 0
    film = filmed(tmp_path, "game.mp4")
    described = subprocess.run(
        ["ffprobe", "-v", "error", "-show_entries", "stream=codec_name,pix_fmt,width,duration", "-of", "json", film],
        capture_output=True,
        check=True,
    )
    (stream,) = json.loads(described.stdout)["streams"]
    assert (stream["codec_name"], stream["pix_fmt"], stream["width"]) == ("h264", "yuv420p", 960)
    assert float(stream["duration"]) > 2


PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"/>'
VIEWER = {
    "index.html": """<!doctype html>
<html><head><meta charset="utf-8"><title>Quick &amp; small</title>
<link rel="modulepreload" href="./assets/part.js">
<link rel="stylesheet" crossorigin href="./assets/look.css">
<script defer src="classic.js"></script>
<script type="importmap">{"imports": {"numbers": "./assets/numbers.mjs"}}</script>
<script type="module" crossorigin src="./assets/main.js"></script>
<script type="module">const end = "</b>";
import { part } from "./assets/part.js"; document.title += part() + end;</script>
</head><body><p id="replay">waiting</p><p id="rest"></p><img id="picture" src="assets/dot.svg"></body></html>
""",
    "classic.js": 'window.classic = document.getElementById("rest") ? "classic" : "too early";',
    "assets/look.css": '#replay { color: rgb(1, 2, 3); background: url("dot.svg") }',
    "assets/dot.svg": PICTURE,
    "assets/numbers.mjs": "export default 7;\n",
    "assets/part.js": 'import { main } from "./main.js";\nexport const part = () => `part of ${main}`;\n',
    "assets/late.js": 'export const late = "late";\n',
    "assets/words.json": '{"word": "</script>"}',
    "assets/main.js": """import { part } from "./part.js";
import seven from "numbers";
export const main = "main";
const asked = new URLSearchParams(location.hash.slice(1)).get("replay");
const bytes = await (await fetch(asked)).arrayBuffer();
const unpacked = new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
document.getElementById("replay").textContent = await unpacked.text();
const { word } = await (await fetch(new URL("words.json", import.meta.url))).json();
const { late } = await import("./late.js");
const other = await new Promise((resolve) => {
  const request = new XMLHttpRequest();
  request.open("GET", "assets/words.json");
  request.onload = () => resolve(JSON.parse(request.responseText).word);
  request.send();
});
const picture = new Image();
picture.src = "./assets/dot.svg";
await picture.decode();
const shown = document.getElementById("picture").naturalWidth + picture.naturalWidth;
document.getElementById("rest").textContent = [part(), seven, word, late, other, shown, window.classic].join(" | ");
""",
}
REST = "part of main | 7 | </script> | late | </script> | 8 | classic"


def with_viewer(root: Path, files: Mapping[str, str]) -> Path:
    """The quick game, with a static viewer that has been built."""
    shutil.copytree(ROOT / "tests/support/quick", root)
    manifest = root / "coworld_manifest_template.json"
    document = json.loads(manifest.read_text(encoding="utf-8"))
    document["game"]["replay_viewer"] = {"bundle": "dist/viewer", "replay_compression": "gzip"}
    manifest.write_text(json.dumps(document), encoding="utf-8")
    for name, text in files.items():
        (root / "dist/viewer" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "dist/viewer" / name).write_text(text, encoding="utf-8")
    return root


def test_a_replay_of_a_static_viewer(pages: Pages, tmp_path: Path) -> None:
    """Modules that import each other, an import map, styles, pictures, and what scripts ask for."""
    page = pages(written(with_viewer(tmp_path / "quick", VIEWER), tmp_path, "--seed", "4"), alone=True)
    expect(page.locator("#replay")).to_have_text("quick replay of seed 4")
    expect(page.locator("#rest")).to_have_text(REST)
    expect(page.locator("#replay")).to_have_css("color", "rgb(1, 2, 3)")
    expect(page).to_have_title("Quick & smallpart of main</b>")
    notebook = tmp_path / "notebook.html"
    whole = ReplayPage((tmp_path / "page.html").read_text(encoding="utf-8"))
    notebook.write_text(f"<!doctype html>{whole._repr_html_()}", encoding="utf-8")
    inline = pages(notebook.as_uri()).frame_locator("iframe")
    expect(inline.locator("#rest")).to_have_text(REST)
