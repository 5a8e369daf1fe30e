"""The ``coworld`` command: ``main`` (the table of commands), ``options`` (shared ones), ``commands``, ``render``.

There is no domain logic here: a command parses its arguments, calls one function of ``coworld_runner``,
``coworld_client`` or ``coworld_core``, and shows the result as text, or as JSON with ``--json``.
"""

__all__: list[str] = []
