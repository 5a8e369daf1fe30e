"""The commands, one module for each noun; the group ``commands`` of a module has those that ``coworld`` lists.

A command parses, calls one function of a library and has ``render`` show what came back: no rule of the domain is here.
A module imports click, options and renderers; what its commands run on is imported when one of them is called.
"""

__all__: list[str] = []
