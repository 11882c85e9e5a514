"""Find the places in functions where a small mistake changes numbers; used by `benchmarks.mutation`.

Annotations, decorators and what only leads to an error are left as they are, as are constants outside of functions.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

ARITHMETIC = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
COMPARISON = {ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
SYMMETRIC = {"maximum", "minimum", "logical_and", "logical_or", "add", "multiply", "isinstance", "zip"}


@dataclass(frozen=True)
class Mistake:
    """One replacement in a source file."""

    function: str
    operator: str
    before: str
    after: str
    mutated_source: str = field(repr=False)


def mistakes_in(source: str) -> Iterator[Mistake]:
    """Return all mistakes that can be made in a source file."""
    raw, tree = source.encode(), ast.parse(source)
    line_starts = list(accumulate((len(line) for line in raw.splitlines(keepends=True)), initial=0))
    left_alone = {inner for node in ast.walk(tree) for part in _left_alone(node) for inner in ast.walk(part)}
    for holder in ast.walk(tree):
        if not isinstance(holder, ast.Module | ast.ClassDef):
            continue
        for function in (part for part in holder.body if isinstance(part, ast.FunctionDef)):
            name = f"{holder.name}.{function.name}" if isinstance(holder, ast.ClassDef) else function.name
            first_lines = _first_lines(function)
            for node in (node for node in ast.walk(function) if node not in left_alone):
                for operator, place, after in _changes(node, first_lines):
                    start = line_starts[place.lineno - 1] + place.col_offset
                    end = line_starts[place.end_lineno - 1] + place.end_col_offset
                    mutated = (raw[:start] + after.encode() + raw[end:]).decode()
                    yield Mistake(name, operator, ast.unparse(place), after, mutated)


def _left_alone(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
        return [node]
    if isinstance(node, ast.If) and all(isinstance(part, ast.Raise) for part in node.body):
        return [node.test]
    parts = [getattr(node, name, None) for name in ("annotation", "returns")]
    return [*(part for part in parts if part is not None), *getattr(node, "decorator_list", [])]


def _first_lines(function: ast.FunctionDef) -> dict[str, int]:
    """Return where each name of a function gets its first value."""
    stored = [node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    lines = {node.id: node.lineno for node in sorted(stored, key=lambda node: -node.lineno)}
    return lines | {node.arg: function.lineno for node in ast.walk(function.args) if isinstance(node, ast.arg)}


def _changes(node: Any, first_lines: dict[str, int]) -> Iterator[tuple[str, Any, str]]:
    """Return the mistakes that can be made at a node: the kind, what is replaced, and by which text."""
    new = copy.copy(node)
    match new:
        case ast.BinOp(op=op) if type(op) in ARITHMETIC:
            new.op = ARITHMETIC[type(op)]()
            yield "arithmetic", node, f"({ast.unparse(new)})"
        case ast.UnaryOp(op=ast.USub() | ast.Invert() | ast.Not()):
            yield "sign dropped", node, f"({ast.unparse(node.operand)})"
        case ast.Compare(ops=[op]) if type(op) in COMPARISON:
            new.ops = [COMPARISON[type(op)]()]
            yield "comparison flipped", node, f"({ast.unparse(new)})"
        case ast.Constant(value=bool() as value):
            yield "constant", node, str(not value)
        case ast.Constant(value=int() as value):
            yield "constant", node, str(value + 1)
        case ast.Constant(value=float() as value):
            yield "constant", node, str(2.0 * value or 1.0)
        case ast.keyword(arg="axis", value=ast.Constant() | ast.UnaryOp()):
            yield "axis changed", node.value, "-1" if ast.unparse(node.value) == "0" else "0"
        case ast.Name(id=name, ctx=ast.Load()) if name == "key" or name.startswith("key_"):
            others = (other for other in first_lines if other.startswith("key_") and other != name)
            for other in [other for other in sorted(others) if first_lines[other] < node.lineno][:1]:
                yield "key reused", node, other
        case ast.Call(func=ast.Attribute(attr="fold_in"), args=[key, _]):
            yield "key reused", node, ast.unparse(key)
        case ast.Call(func=func, args=[*first, left, right]) if _can_be_swapped(func, left, right):
            new.args = [*first, right, left]
            yield "arguments swapped", node, ast.unparse(new)
        case ast.Assign(targets=targets):
            names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
            if all(first_lines.get(name, node.lineno) < node.lineno for name in names):
                yield "statement dropped", node, "pass"


def _can_be_swapped(func: ast.expr, left: ast.expr, right: ast.expr) -> bool:
    """Tell whether two arguments are likely to be of one type, and are not the same."""
    name = ast.unparse(func).split(".")[-1]
    are_alike = name == "where" or (type(left) is type(right) and not isinstance(left, ast.Lambda | ast.Starred))
    return are_alike and name not in SYMMETRIC and ast.dump(left) != ast.dump(right)
