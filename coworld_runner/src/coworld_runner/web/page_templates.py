"""Single-file pages: all values filled into them are escaped, and characters that hide or reorder text are shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["page_template"]

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


@cache
def page_template(package: str, name: str, **filters: Callable[..., Any]) -> Template:
    """Load a template of one of our packages; it is compiled once, which takes longer than filling it in.

    Args:
        package: The package that contains the directory `templates`.
        name: Name of the file in that directory.
        filters: The filters that the template uses.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(filters)
    return environment.get_template(name)


def _visible(value: object) -> object:
    """Return a value to fill in, with characters that hide or reorder text replaced by their code points."""
    from markupsafe import Markup

    if isinstance(value, Markup):
        return value
    return _HIDDEN.sub(lambda match: f"\N{REPLACEMENT CHARACTER}{ord(match[0]):04X}", str(value))
