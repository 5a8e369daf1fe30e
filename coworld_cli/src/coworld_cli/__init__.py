"""The `coworld` command: `main` (the table of commands), `options` (shared ones), `commands`, `render`.

There is no domain logic here: a command parses its arguments, calls one function of `coworld_runner`,
`coworld_client` or `coworld_core`, and shows the result as text, or as JSON with `--json`.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
