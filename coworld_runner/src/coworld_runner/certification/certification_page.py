"""Renders a certification as one page: a file that opens anywhere, loads nothing, runs nothing, and prints well.

Everything from a manifest, a game or a player is escaped, and characters that could reorder or hide text are made
visible. How the page looks is in `templates/certification.html`.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from coworld_core.text import shown_duration

from ..web.page_templates import page_template
from .certification_record import Certification
from .page_checks import PageName

if TYPE_CHECKING:
    from jinja2 import Template

    from coworld_core.certificate import Certificate

__all__ = ["render_page"]

_STATUS_TEXT = {"pass": "passed", "fail": "failed", "skip": "skipped"}


_MOST_BYTES = 1 << 20
"""The largest picture that the page holds."""


def render_page(
    certification: Certification,
    certificate: Certificate | None = None,
    *,
    pictures: Mapping[PageName, bytes] = MappingProxyType({}),
) -> str:
    """Render a certification as one HTML document.

    Args:
        certification: The record; nothing in it is trusted.
        certificate: Its certificate.
        pictures: PNGs of the Coworld's pages.
    """
    answers = Counter(_STATUS_TEXT.get(step.status, step.status) for step in certification.all_steps)
    tally = dict.fromkeys(_STATUS_TEXT.values(), 0) | answers
    return _template().render(
        record=certification,
        certificate=certificate,
        slowest=max((step.seconds for step in certification.all_steps), default=0.0) or 1.0,
        pictures=[
            (name, base64.b64encode(picture).decode() if len(picture) <= _MOST_BYTES else "")
            for name, picture in pictures.items()
        ],
        words=_STATUS_TEXT,
        tally=", ".join(f"{count} {word}" for word, count in tally.items() if count),
        scores=", ".join(f"{who} {score:g}" for who, score in certification.standings),
    )


def _template() -> Template:
    return page_template("coworld_runner.certification", "certification.html", moment=_moment, duration=shown_duration)


def _moment(moment: dt.datetime | None) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if moment is not None else ""
