"""Make the pictures of the README and the pages from real runs, in light and dark.

Run `uv run --group test python docs/images/make.py` for all of them, or name those to make: `… make.py run league`. It
needs Debian's `chromium-headless-shell` and `fonts-dejavu-core`, port 8787, and a few minutes. Look at the result, and
commit it with `made.json`, which says by which versions each picture was made.
"""

from __future__ import annotations

import base64
import fcntl
import io
import json
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, cast

from PIL import Image
from playwright.sync_api import Browser, FloatRect, Page, sync_playwright
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MADE = HERE / "made.json"

COLUMNS = 108
SCALE = 2
"""Pixels of a picture for each of the page, so that it is sharp on fine screens."""
SCHEMES = ("light", "dark")
BOT = '''"""Takes the last sticks if it can, and any number before."""


def act(observation, legal, rng):
    """Win at once, or hope."""
    left = observation["left"]
    return {"take": left} if left < 4 else rng.choice(legal)
'''

# Background, text, and the eight colours that programs ask for by number.
THEMES = {
    "light": TerminalTheme(
        (246, 248, 250),
        (31, 35, 40),
        [
            *((36, 41, 47), (207, 34, 46), (17, 99, 41), (125, 78, 0)),
            *((9, 105, 218), (130, 80, 223), (27, 124, 131), (110, 119, 129)),
        ],
    ),
    "dark": TerminalTheme(
        (22, 27, 34),
        (230, 237, 243),
        [
            *((72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34)),
            *((88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196)),
        ],
    ),
}

WINDOWS = """<!doctype html><style>
body {{ margin: 0; background: {around}; display: grid; grid-template-columns: 1fr 1fr; gap: 20px; }}
figure {{ margin: 0; border: 1px solid {line}; border-radius: 10px; overflow: hidden; background: {bar}; }}
figcaption {{ font: 600 15px "DejaVu Sans Mono", monospace; color: {ink}; padding: 10px 14px; }}
figcaption {{ border-bottom: 1px solid {line}; }}
figcaption::before {{ content: "$ "; color: {soft}; }}
figure img {{ display: block; width: 100%; }}
.wide {{ grid-column: 1 / -1; border: 0; }}
</style>
<figure><figcaption>coworld play examples/paintarena</figcaption><img src="{play}"></figure>
<figure><figcaption>coworld replay</figcaption><img src="{replay}"></figure>
<figure class="wide"><img src="{verdict}"></figure>
"""
WINDOW_COLOURS = {
    "light": {"around": "#ffffff", "line": "#d0d7de", "bar": "#f6f8fa", "ink": "#1f2328", "soft": "#6e7781"},
    "dark": {"around": "#0d1117", "line": "#30363d", "bar": "#161b22", "ink": "#e6edf3", "soft": "#8b949e"},
}


class Setup(NamedTuple):
    """What every picture is made with."""

    work: Path
    """A new directory, in which the examples are."""
    env: Mapping[str, str]
    browser: Browser

    def terminal(self, command: str) -> dict[str, str]:
        """Run a command in a terminal; returns its last screen as SVG, for each scheme."""
        lines = last_screen(self._output(command))
        return {scheme: drawn(f"$ {command}", lines, THEMES[scheme]) for scheme in SCHEMES}

    def run(self, command: str, *, stdin: Path | None = None) -> None:
        """Run a command to its end."""
        with (stdin or Path(os.devnull)).open("rb") as source:
            subprocess.run(shlex.split(command), cwd=self.work, env=self.env, stdin=source, check=True)

    @contextmanager
    def running(self, command: str, pattern: str, *, to_the_end: bool = False) -> Generator[str]:
        """Run a command until the context ends, or to its end; yields what the pattern's group found in its output."""
        with subprocess.Popen(
            shlex.split(command),
            cwd=self.work,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            try:
                yield next(found[1] for line in process.stdout if (found := re.search(pattern, line)))
                if to_the_end:
                    process.communicate(timeout=60)
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=60)

    def page(self, url: str, width: int, height: int) -> Page:
        """Open a page in a window of this size."""
        page = self.browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=SCALE)
        page.goto(url)
        return page

    def _output(self, command: str) -> str:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))
        process = subprocess.Popen(
            shlex.split(command), cwd=self.work, env=self.env, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        written = b""
        # On Linux, reading fails once nobody has the other end open.
        try:
            while data := os.read(ours, 65536):
                written += data
        except OSError:
            pass
        os.close(ours)
        assert process.wait() == 0, written.decode()
        return written.decode()


def last_screen(output: str) -> list[str]:
    """The lines that are left of a terminal's output, of which a live display has replaced some."""
    lines, row = [""], 0
    for part in re.split(r"(\r?\n|\r|\x1b\[\d*[AK]|\x1b\[\?25[hl])", output):
        if part.endswith("\n"):
            row += 1
            lines += [""] * (row == len(lines))
        elif part.endswith("A"):
            row -= 1
        elif part.endswith("K"):
            lines[row] = ""
        elif not part.startswith(("\r", "\x1b[?")):
            lines[row] += part
    return lines


def drawn(prompt: str, lines: list[str], theme: TerminalTheme) -> str:
    """A terminal's lines below a prompt, as SVG that asks for no font of another site."""
    console = Console(width=COLUMNS + 2, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in (Text(prompt, style="bold"), *map(Text.from_ansi, "\n".join(lines).rstrip().split("\n")), Text()):
        console.print(Text(" ").append_text(line))
    picture = console.export_svg(title="", theme=theme, unique_id="t")
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    picture = picture.replace("Fira Code, monospace", '"DejaVu Sans Mono", Menlo, Consolas, monospace')
    # An edge that is also seen where the page around it is light
    return picture.replace("rgba(255,255,255,0.35)", "rgba(127,127,127,0.35)")


def shots(page: Page, *, height: int | None = None) -> dict[str, bytes]:
    """What a page's window shows, or the upper part of it, for each scheme."""
    assert page.viewport_size is not None
    clip = FloatRect(x=0, y=0, width=page.viewport_size["width"], height=height or page.viewport_size["height"])
    pictures: dict[str, bytes] = {}
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        pictures[scheme] = page.screenshot(clip=clip)
    return pictures


def smaller(picture: bytes) -> bytes:
    """A picture with 256 colours, which take a third of the room: those that most of it has, and some between."""
    packed = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as opened:
        image = opened.convert("RGB")
    counted = cast("list[tuple[int, tuple[int, int, int]]]", image.getcolors(image.width * image.height))
    frequent = [part for _, colour in sorted(counted, reverse=True)[:192] for part in colour]
    palette = Image.new("P", (1, 1))
    palette.putpalette(frequent + (image.quantize(64, Image.Quantize.MAXCOVERAGE).getpalette() or []))
    image.quantize(palette=palette, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return packed.getvalue()


def as_url(picture: bytes | str, kind: str) -> str:
    """A picture as an address that holds it."""
    data = picture.encode() if isinstance(picture, str) else picture
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def arena(setup: Setup) -> dict[str, bytes]:
    """A game being played, a replay, and a verdict in the terminal."""
    play = "coworld play examples/paintarena --no-open-browser -o played"
    with setup.running(play, r"(http\S+/client/global)", to_the_end=True) as url:
        page = setup.page(url, 900, 660)
        page.locator("#tick").get_by_text(re.compile(r"Tick (3[2-9]|4\d) of")).wait_for()
        played = shots(page, height=600)
    setup.run("coworld replay played --html replay.html")
    page = setup.page((setup.work / "replay.html").as_uri(), 900, 660)
    page.locator("#scrub").fill("68")
    page.locator("#scrub").blur()
    replay = shots(page, height=600)
    verdict = setup.terminal("coworld compare ./greedy.py random-taker -m examples/nim -q")
    pictures: dict[str, bytes] = {}
    for scheme in SCHEMES:
        page = setup.browser.new_page(viewport={"width": 1200, "height": 100}, device_scale_factor=1.5)
        inside = {"play": as_url(played[scheme], "png"), "replay": as_url(replay[scheme], "png")}
        inside["verdict"] = as_url(verdict[scheme], "svg+xml")
        page.set_content(WINDOWS.format(**inside, **WINDOW_COLOURS[scheme]))
        pictures[scheme] = page.screenshot(full_page=True)
    return pictures


def run(setup: Setup) -> dict[str, str]:
    """An episode in the terminal."""
    return setup.terminal("coworld run examples/paintarena")


def dev(setup: Setup) -> dict[str, bytes]:
    """The page on which a game is developed."""
    setup.run("coworld init game count-up")
    with setup.running("coworld dev count-up --seed 7 --no-open-browser", r"Page: (http\S+)") as url:
        page = setup.page(url, 920, 592)
        seat = page.frame_locator("iframe").nth(1)
        for tick in (2, 4):
            seat.get_by_role("button", name="add 1").click()
            page.frame_locator("iframe").nth(0).get_by_text(f"Tick {tick}").wait_for()
        return shots(page)


def report(setup: Setup) -> dict[str, bytes]:
    """A comparison as a page."""
    setup.run("coworld compare ./greedy.py random-taker -m examples/nim -o reported")
    setup.run("coworld evaluation report reported --html report.html")
    return shots(setup.page((setup.work / "report.html").as_uri(), 900, 880))


def league(setup: Setup) -> dict[str, bytes]:
    """The page of a league in which two house bots and a bot of an account play."""
    with setup.running("observatory demo --data observatory-data", r"'demo': (http\S+)") as url:
        server = url.partition("/leagues")[0]
        setup.run(f"coworld set-token --server {server}", stdin=setup.work / "observatory-data" / "token")
        setup.run(f"coworld upload-policy observatory-data/bot.py --league demo --server {server}")
        page = setup.page(url, 1100, 860)
        # Enough rounds for three ratings and their curves
        while page.get_by_text("Round 8", exact=True).count() == 0:
            page.wait_for_timeout(2000)
            page.reload()
        return shots(page)


def block(name: str) -> dict[str, str]:
    """The drawing in a section of the page about pictures."""
    found: dict[str, str] = {}
    page = (ROOT / "docs" / "pictures.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(from .*?)```", page, re.DOTALL)[0]
    code += re.findall(rf"## {name}\n.*?```python\n(.*?)```", page, re.DOTALL)[0]
    exec(code, found)  # noqa: S102 - the page is ours
    inks = {"light": "#1f2328", "dark": "#e6edf3"}
    drawing: str = found["drawing"]
    width = 4 * float(drawing.split('viewBox="')[1].split()[2])
    return {scheme: drawing.replace("<svg", f'<svg color="{inks[scheme]}" width="{width:g}"') for scheme in SCHEMES}


BLOCKS = ("grid", "hex_grid", "token", "arrow", "card", "hand", "seat_row", "bars")


class Recipe(NamedTuple):
    """How a picture is made, and the distributions that it shows."""

    make: Callable[[Setup], Mapping[str, bytes | str]]
    shows: tuple[str, ...]


RECIPES = {
    "arena": Recipe(arena, ("coworld-cli",)),
    "run": Recipe(run, ("coworld-cli",)),
    "dev": Recipe(dev, ("coworld-cli", "coworld-runner")),
    "report": Recipe(report, ("coworld-cli", "coworld-runner")),
    "league": Recipe(league, ("observatory",)),
    **{f"block-{name}": Recipe(lambda _, name=name: block(name), ("coworld-core",)) for name in BLOCKS},
}


def main(names: list[str]) -> None:
    """Make these pictures, or all."""
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    assert program, "apt-get install chromium-headless-shell fonts-dejavu-core"
    made: dict[str, dict[str, str]] = json.loads(MADE.read_text())
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        work = Path(temporary)
        shutil.copytree(ROOT / "examples", work / "examples", ignore=shutil.ignore_patterns("results", "dist", ".venv"))
        (work / "greedy.py").write_text(BOT)
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("COWORLD_", "OBSERVATORY_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        # Nothing of the person who runs this: neither credentials nor registered players, nor notes of these runs
        own = {name: str(work / "own") for name in ("SOFTMAX_CONFIG_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME")}
        env = {**kept, **own, "PATH": path, "TERM": "xterm-256color"}
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for name in names or RECIPES:
            recipe = RECIPES[name]
            for scheme, picture in recipe.make(Setup(work, env, browser)).items():
                if isinstance(picture, str):
                    (HERE / f"{name}-{scheme}.svg").write_text(picture, encoding="utf-8")
                else:
                    (HERE / f"{name}-{scheme}.png").write_bytes(smaller(picture))
            made[name] = {shown: version(shown) for shown in recipe.shows}
        browser.close()
    MADE.write_text(json.dumps(dict(sorted(made.items())), indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
