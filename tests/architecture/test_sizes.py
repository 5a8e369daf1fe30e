"""A class has one idea, and a function fits on a screen or two."""

from __future__ import annotations

import ast

from support.import_graph import DISTRIBUTIONS, EXAMPLES, ROOT, nodes, sources

CLASS_LINES = 300
FUNCTION_LINES = 80
"""Without the docstring: describing many arguments is no length."""


def test_classes_and_functions_are_short() -> None:
    found: dict[str, int] = {}
    for path in sources(*DISTRIBUTIONS, *EXAMPLES).values():
        if "migrations" in path.parts:
            continue  # written once, and never again
        for node in nodes(path):
            lines, most = _lines(node)
            if lines > most:
                found[f"{path.relative_to(ROOT).as_posix()}: {getattr(node, 'name', '')}"] = lines
    assert found == {}, "divide it by what it does"


def _lines(node: ast.AST) -> tuple[int, int]:
    """How many lines a class or a function has, and how many it may have."""
    if isinstance(node, ast.ClassDef):
        return (node.end_lineno or 0) - node.lineno + 1, CLASS_LINES
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return 0, 0
    first = node.body[0]
    text = first.value.value if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else None
    documented = (first.end_lineno or 0) - first.lineno + 1 if isinstance(text, str) else 0
    return (node.end_lineno or 0) - node.lineno + 1 - documented, FUNCTION_LINES
