"""Adds `llms.txt` (https://llmstxt.org) and all pages in one file to the site, as a hook of mkdocs.

What is said of a page is its first sentence, as in `coworld docs`.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

_OURS = runpy.run_path(str(Path(__file__).parents[2] / "coworld_cli/src/coworld_cli/pages.py"))
_seen: dict[str, Any] = {}


def on_nav(nav: Any, **_: Any) -> None:
    """Remember the navigation; its pages are read later."""
    _seen["nav"] = nav


def on_post_build(config: Any, **_: Any) -> None:
    """Write the two files."""
    pages = _OURS["read_pages"](Path(config.docs_dir))

    def listed(title: str, items: list[Any]) -> str:
        lines = ""
        for item in items:
            if item.is_page:
                page = pages[Path(item.file.src_uri).stem]
                lines += f"- [{page.title}]({item.url}): {page.summary}\n"
        own = f"## {title}\n\n{lines}\n" if title and lines else lines and f"{lines}\n"
        return own + "".join(listed(one.title, one.children) for one in items if one.is_section)

    site = Path(config.site_dir)
    begin = f"# {config.site_name}\n\n> {config.site_description}\n\nAll pages in [one file](llms-full.txt).\n"
    (site / "llms.txt").write_text(f"{begin}\n{listed('', _seen['nav'].items)}", encoding="utf-8")
    (site / "llms-full.txt").write_text(_OURS["in_one_file"](pages.values()), encoding="utf-8")
