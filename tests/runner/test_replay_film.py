"""What a film of a replay shows, what it needs of a machine, and pages that cannot be filmed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coworld_core.errors import EnvironmentFault, EpisodeError, UsageError
from coworld_runner.replay import replay_film
from coworld_runner.replay.replay_film import check_film, film_replay, plan_film
from coworld_runner.web.http_server import content_response, listen, open_server


@pytest.mark.parametrize(
    ("ticks", "asked", "shown", "rate"),
    [
        (1, {}, [0], 5),
        (4, {}, [0, 1, 2, 3], 5),
        (4, {"at": 2}, [2, 3], 5),
        (4, {"at": 99}, [3], 5),
        (600, {}, [*range(600)], 10),  # a minute
        (1201, {}, [*range(0, 1200, 2), 1200], 1201 / 120),
        (31, {"per_second": 30}, [*range(0, 31, 2)], 15),
        (3, {"per_second": 0.5}, [0, 1, 2], 0.5),
    ],
)
def test_frames_are_chosen(ticks: int, asked: dict[str, Any], shown: list[int], rate: float) -> None:
    plan = plan_film(ticks, **asked)
    assert (list(plan.ticks), plan.rate) == (shown, pytest.approx(rate))


def test_a_huge_replay_makes_a_short_film_or_none() -> None:
    assert len(plan_film(50_000_000).ticks) < 1000
    with pytest.raises(UsageError, match="would take 667 minutes") as refused:
        plan_film(40_000, per_second=1)
    assert refused.value.code == "film_long"


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("game.txt", "game", "game.png.html"):
        with pytest.raises(UsageError, match="no name of a picture"):
            check_film(Path(name))
    monkeypatch.setenv("PATH", "")
    check_film(Path("game.png"))
    check_film(Path("game.GIF"))
    monkeypatch.setattr(replay_film, "_has_pillow", lambda: False)
    for name, words in (("a.mp4", "Install ffmpeg, or write a .gif."), ("a.gif", "coworld-runner[film]")):
        with pytest.raises(EnvironmentFault) as refused:
            check_film(Path(name))
        assert words in str(refused.value.hint)


async def test_without_a_browser_there_is_no_picture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COWORLD_BROWSER", "none")
    with pytest.raises(EnvironmentFault, match="COWORLD_BROWSER is none") as refused:
        await film_replay(cast("Any", SimpleNamespace(link="http://127.0.0.1:1/")), tmp_path / "game.png")
    assert refused.value.code == "no_browser"
    assert nothing_in(tmp_path)


def nothing_in(place: Path) -> bool:
    return not [*place.iterdir()]


PAGES = {
    "no ticks": "<p>a page of its own</p>",
    "ticks in words": "<body data-tick='0' data-ticks='many'>",
    "too many": f"<body data-tick='0' data-ticks='{10**12}'>",
    "does not follow": "<body data-tick='0' data-ticks='9'>",
    "hangs": "<body data-tick='0' data-ticks='9'><script>onhashchange = () => { for (;;); }</script>",
}


@pytest.mark.browser
@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
async def test_pages_that_cannot_be_filmed(page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(replay_film, "_PATIENCE", 1.0)

    async def route(*_: Any) -> Any:
        return content_response(page.encode(), kind="text/html", policy="script-src 'unsafe-inline'")

    with listen("127.0.0.1", 0) as listener:
        async with open_server(cast("Any", route), route, listener):
            link = f"http://127.0.0.1:{listener.getsockname()[1]}/client/replay"
            with pytest.raises(EpisodeError) as refused:
                await film_replay(cast("Any", SimpleNamespace(link=link)), tmp_path / "game.png")
    assert refused.value.code == "film_page"
    assert nothing_in(tmp_path)
