"""How much code there is: lines that hold code, without docstrings, comments and blank lines."""

import ast
import io
import tokenize
from pathlib import Path


def num_code_lines(source: str) -> int:
    """Count the lines of a program that hold code.

    >>> num_code_lines('"A docstring."' + "\\n\\n# a comment\\nx = [  # a comment\\n    1,\\n]\\n")
    3
    """
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    spans = [
        (token.start[0], token.end[0]) for token in tokens if token.type != tokenize.COMMENT and token.string.strip()
    ]
    texts = [(node.lineno, node.end_lineno or 0) for node in ast.walk(ast.parse(source)) if _is_text(node)]
    return len(_lines(spans) - _lines(texts))


def _is_text(node: ast.AST) -> bool:
    """Is this a string that stands alone, as docstrings do?"""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _lines(spans: list[tuple[int, int]]) -> set[int]:
    return {line for first, last in spans for line in range(first, last + 1)}


def num_code_lines_below(folder: Path) -> int:
    """Count the lines of all programs in a folder and below."""
    return sum(num_code_lines(path.read_text()) for path in folder.rglob("*.py"))
