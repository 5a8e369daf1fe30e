"""The ``coworld`` command: ``main`` (the table of commands), ``options`` (each said once), ``commands``, ``render``.

No rule of the domain lives here: a command parses, calls one function of ``coworld_runner``, ``coworld_client`` or
``coworld_core``, and shows what comes back: to a person, or with ``--json`` to a program.
"""

__all__: list[str] = []
