"""What people read: text made fit for a terminal, tables, results and displays that move, each made from values.

Nothing here asks a server, starts anything or decides an exit status that a list's own does not. Modules import click
and types alone, so that a command can name what shows its answer without a help paying for it; the display of a run
(``progress``) and reports on documents (``issues``) are imported when they are shown.
"""

__all__: list[str] = []
