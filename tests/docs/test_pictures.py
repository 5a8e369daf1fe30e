"""The pictures of the pages: each in light and dark, small, described, and made by the version that is documented."""

import json
import re
import runpy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.docs_pages import PAGES, ROOT, page_id

IMAGES = ROOT / "docs" / "images"
MADE = json.loads((IMAGES / "made.json").read_text(encoding="utf-8"))
LARGEST = 200_000
PICTURE = re.compile(
    r'<picture><source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">'
    r'<img src="(?P<light>[^"]+)" alt="(?P<alt>[^"]*)"></picture>'
)


class Shown(NamedTuple):
    page: Path
    light: Path
    dark: Path
    alt: str

    @property
    def name(self) -> str:
        return self.light.stem.removesuffix("-light")


def shown() -> Iterator[Shown]:
    """Every picture on a page."""
    for page in PAGES:
        for match in PICTURE.finditer(page.read_text(encoding="utf-8")):
            light, dark = ((page.parent / match[scheme]).resolve() for scheme in ("light", "dark"))
            yield Shown(page, light, dark, match["alt"])


def test_pages_have_pictures_of_this_kind_alone() -> None:
    """Another image would have no dark side, or not be found from the site."""
    for page in PAGES:
        rest = re.sub(r"```.*?```|`[^`\n]+`", "", PICTURE.sub("", page.read_text(encoding="utf-8")), flags=re.DOTALL)
        assert not re.search(r"<img|<picture|!\[[^]]*\]\(", rest), page_id(page)


def test_the_first_pages_have_one() -> None:
    names = {page_id(picture.page): picture.name for picture in shown()}
    assert {"README.md", "docs/start-here.md", "docs/tutorial.md", "docs/evaluation.md"} <= names.keys()
    assert "docs/observatory.md" in names
    # It is the first that a visitor sees, before any text
    assert (ROOT / "README.md").read_text(encoding="utf-8").split("\n")[2].startswith("<picture>")


@pytest.mark.parametrize("picture", [pytest.param(one, id=one.name) for one in shown()])
def test_a_picture_is_there_and_current(picture: Shown) -> None:
    assert picture.dark == picture.light.with_stem(f"{picture.name}-dark")
    for file in (picture.light, picture.dark):
        assert file.stat().st_size <= LARGEST
    # What those know who do not see it, and those who read at a terminal
    assert len(picture.alt.split()) > 5
    made = MADE[picture.name]
    assert made
    for distribution, version in made.items():
        place = "examples/observatory" if distribution == "observatory" else distribution.replace("-", "_")
        project = tomllib.loads((ROOT / place / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        again = f"made with {distribution} {version}: uv run --group test python docs/images/make.py {picture.name}"
        assert version.split(".")[:2] == project["version"].split(".")[:2], again


def test_blocks_look_as_the_page_makes_them() -> None:
    block = runpy.run_path(str(IMAGES / "make.py"))["block"]
    names = [picture.name.removeprefix("block-") for picture in shown() if picture.name.startswith("block-")]
    assert len(names) > 7
    for name in names:
        for scheme, drawing in block(name).items():
            again = f"uv run --group test python docs/images/make.py block-{name}"
            assert (IMAGES / f"block-{name}-{scheme}.svg").read_text(encoding="utf-8") == drawing, again


def test_no_picture_is_left_over() -> None:
    used = {file.name for picture in shown() for file in (picture.light, picture.dark)}
    assert {file.name for file in IMAGES.iterdir() if file.suffix in (".png", ".svg")} == used
    assert MADE.keys() == {picture.name for picture in shown()}
