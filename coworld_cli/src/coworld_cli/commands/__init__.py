"""The commands, one module per noun. The group `commands` of a module contains those that `coworld` lists.

A command parses its arguments, calls one library function and lets `render` show the result; it contains no domain
logic. A module imports click, options and renderers; everything else is imported when a command is called.
"""

__all__: list[str] = []
