"""Finds where source leans on private or version-bound parts of Keras and TensorFlow."""

import ast
import re
import sys

# The public interface of named tuples.
_NAMED_TUPLES = {"_asdict", "_fields", "_field_defaults", "_make", "_replace"}
_INTERNAL = re.compile(r"\b(tensorflow|tf)\.python\b|\bkeras\.src\b|\.__internal__\b")
_BY_NAME = {"getattr", "hasattr", "setattr", "delattr"}


def private_parts(modules, compat, exempt=()):
    """Lists what leans on private or version-bound parts, one line for each place.

    A private part is an attribute `_name`, by dot, as a string or as a keyword, that no code of the
    project defines, or that `super()` has of a class that is not of the project. Version-bound is
    what lies in `tensorflow.python`, `keras.src` or an `__internal__`, what is named experimental,
    what writes past `__setattr__`, and what looks at base classes or at signatures of methods.

    Args:
        modules: Dict from the dotted names of the project's modules to their paths.
        compat: Name of the package that may lean on such parts.
        exempt: Names of other modules that may.

    Returns:
        List of "module:line form".
    """
    trees = {
        name: ast.parse(path.read_text("utf-8"))
        for name, path in modules.items()
        if not (name == compat or name.startswith(compat + ".") or name in exempt)
    }
    defined = _definitions(trees)
    found = []
    for name, tree in trees.items():
        visitor = _Visitor(defined, _stdlib_names(tree), name)
        visitor.visit(tree)
        found += [f"{name}:{line} {form}" for line, form in sorted(set(visitor.found))]
    return found


def _is_private(name):
    return name.startswith("_") and not name.startswith("__") and name not in _NAMED_TUPLES


def _is_own(node):
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_super(node):
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "super"


def _definitions(trees):
    """Dict from each private name that the project defines to the classes (or None) that do."""
    defined = {}

    def visit(node, owner):
        names = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names += [node.attr] if _is_own(node.value) else []
        for name in filter(_is_private, names):
            defined.setdefault(name, set()).add(owner)
        if isinstance(node, ast.ClassDef):
            owner = (owner, node.name, node.lineno)
        for child in ast.iter_child_nodes(node):
            visit(child, owner)

    for name, tree in trees.items():
        visit(tree, name)
    return defined


def _stdlib_names(tree):
    """The names that modules of the standard library have in a file."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {
                alias.asname or alias.name.split(".")[0]
                for alias in node.names
                if alias.name.split(".")[0] in sys.stdlib_module_names
            }
    return found


class _Visitor(ast.NodeVisitor):
    def __init__(self, defined, stdlib, owner):
        self.found = []
        self._defined, self._stdlib, self._owner = defined, stdlib, owner

    def _note(self, node, form=None):
        self.found.append((node.lineno, form or ast.unparse(node)))

    def _check_name(self, node, name):
        if isinstance(name, str) and (
            (_is_private(name) and name not in self._defined) or "experimental" in name
        ):
            self._note(node)

    def visit_ClassDef(self, node):
        outside, self._owner = self._owner, (self._owner, node.name, node.lineno)
        self.generic_visit(node)
        self._owner = outside

    def visit_Import(self, node):
        for alias in node.names:
            if _INTERNAL.search(alias.name) or "experimental" in alias.name:
                self._note(node)

    def visit_ImportFrom(self, node):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        if any(_INTERNAL.search(name) or "experimental" in name for name in names):
            self._note(node)

    def visit_Attribute(self, node):
        of_stdlib = isinstance(node.value, ast.Name) and node.value.id in self._stdlib
        if _is_super(node.value) and _is_private(node.attr):
            if not self._defined.get(node.attr, set()) - {self._owner}:
                self._note(node)
        elif not of_stdlib:
            self._check_name(node, node.attr)
        if node.attr in ("__mro__", "__bases__") or _INTERNAL.search(ast.unparse(node)):
            self._note(node)
        self.generic_visit(node)

    def visit_Subscript(self, node):
        """vars(x)["_name"] and x.__dict__["_name"]."""
        of_vars = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "vars"
        of_dict = isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__"
        if (of_vars or of_dict) and isinstance(node.slice, ast.Constant):
            self._check_name(node, node.slice.value)
        self.generic_visit(node)

    def visit_Call(self, node):
        function = ast.unparse(node.func)
        if function in _BY_NAME and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            self._check_name(node, node.args[1].value)
        if function in ("object.__setattr__", "object.__delattr__") and not _is_own(node.args[0]):
            self._note(node)
        if (
            function in ("inspect.signature", "signature")
            and node.args
            and (
                isinstance(node.args[0], ast.Attribute)
                or (
                    isinstance(node.args[0], ast.Call)
                    and ast.unparse(node.args[0].func) == "getattr"
                )
            )
        ):
            self._note(node)
        for keyword in node.keywords:
            self._check_name(node, keyword.arg)
        self.generic_visit(node)
