"""The ``coworld`` command: run, play, build and certify Coworlds from a terminal or a script.

No rule of the domain lives here. Each command parses its options, calls one function of ``coworld_runner`` or
``coworld_core``, and renders what comes back: for a person, or with ``--json`` for a program.
"""

__all__: list[str] = []
