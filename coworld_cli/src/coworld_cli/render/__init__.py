"""Text for people: cleaning for a terminal, tables, results and live displays, each rendered from values.

Only `rows` awaits answers of a server, which a command hands to it. Modules import only click and types, so that
commands can import their renderers without delaying help texts; the display of a run (`progress`) and reports on
documents (`issues`) are imported when they are shown.
"""

__all__: list[str] = []
