"""Recipes that are Python functions: found, called, and traced back to the lines that set their keys."""

import ast
import importlib
import inspect
import re
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from pathlib import Path

from emberward.findings import ConfigError
from emberward.recipe._document import read_text, unreadable
from emberward.recipe._names import closest
from emberward.recipe._origins import DEFAULT
from emberward.recipe._recipe import Recipe
from emberward.recipe._schema import fields_of, join, leaves, sections

_UNEXPECTED = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")


def recipe_of_file(path: Path, function: str | None, shown: str) -> tuple[Recipe, dict[str, str]]:
    """The recipe that a function of the file returns, and the origin of each key.

    Runs the file. `function` None takes the only one that returns a Recipe. Raises ConfigError C101 or C106.
    """
    text = read_text(path)
    module = _run_file(path, text, shown)
    found = _choose(module, function, shown)
    return _call(found, shown, text)


def recipe_of_module(module_name: str, function: str) -> tuple[Recipe, dict[str, str]]:
    """As `recipe_of_file`, for ``package.module:function``; a module of the current folder counts too."""
    name = f"{module_name}:{function}"
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        path = Path(*module_name.split(".")).with_suffix(".py")
        if path.is_file():
            return recipe_of_file(path, function, str(path))
        if error.name is not None and not f"{module_name}.".startswith(f"{error.name}."):
            raise unreadable("the recipe's module cannot be imported", where=name, found=str(error)) from error
        raise unreadable(
            "no such module", where=name, expected=f"an installed module, or {path} in this folder", found=error.name
        ) from error
    except (Exception, SystemExit) as error:
        raise unreadable("the recipe's module cannot be imported", where=name, found=_one_line(error)) from error
    path_text = getattr(module, "__file__", None)
    shown = name if path_text is None else shown_path(Path(path_text))
    found = _choose(module, function, shown)
    return _call(found, shown, None if path_text is None else read_text(Path(path_text)))


def shown_path(path: Path) -> str:
    """The path as a person knows it: relative to the current folder when it lies there."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _run_file(path: Path, text: str, shown: str) -> types.ModuleType:
    try:
        code = compile(text, str(path), "exec")
    except SyntaxError as error:
        raise unreadable(
            "the recipe is not valid Python",
            where=f"{shown}:{error.lineno or 1}",
            found=f"{error.msg}" + (f": {error.text.strip()}" if error.text else ""),
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise unreadable("the recipe is not valid Python", where=shown, found=_one_line(error)) from error
    module = types.ModuleType(f"emberward_recipe_{re.sub(r'[^0-9A-Za-z_]', '_', str(path))}")
    module.__file__ = str(path)
    # Dataclasses that the file defines look their module up by name.
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        raise _failed("the recipe's file failed", error, shown, str(path)) from error
    return module


def _choose(module: types.ModuleType, function: str | None, shown: str) -> Callable[[], object]:
    """The function to call. Raises ConfigError C106 when there is none, or several to choose from."""
    candidates = {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and _takes_nothing(value)
    }
    if function is not None:
        value = getattr(module, function, None)
        if callable(value) and _takes_nothing(value):
            found: Callable[[], object] = value
            return found
        near = closest(function, candidates)
        raise unreadable(
            f"no function {function} to call",
            where=shown,
            expected="a function without arguments that returns a Recipe",
            found=f"{', '.join(candidates) or 'none'}" if value is None else f"{function}, which is not one",
            next=f"did you mean {shown}:{near[0]}?" if near else None,
        )
    public = {name: value for name, value in candidates.items() if not name.startswith("_")}
    returning = {name: value for name, value in public.items() if _says_recipe(value)} or public
    if len(returning) == 1:
        return next(iter(returning.values()))
    raise unreadable(
        "no function returns a recipe" if not returning else "several functions may be the recipe",
        where=shown,
        expected="one function without arguments that returns a Recipe",
        found=", ".join(returning) or "none",
        next=f"{shown}:{next(iter(returning))}" if returning else "def my_recipe() -> Recipe: return Recipe(steps=100)",
    )


def _takes_nothing(function: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return all(
        parameter.default is not parameter.empty or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        for parameter in parameters
    )


def _says_recipe(function: Callable[..., object]) -> bool:
    says = function.__annotations__.get("return")
    return says is Recipe or (isinstance(says, str) and says.rpartition(".")[2] == "Recipe")


def _call(function: Callable[[], object], shown: str, text: str | None) -> tuple[Recipe, dict[str, str]]:
    code = getattr(function, "__code__", None)
    line = 1 if code is None else int(code.co_firstlineno)
    name = getattr(function, "__name__", "the recipe")
    try:
        recipe = function()
    except (Exception, SystemExit) as error:
        raise _failed(f"{name} failed", error, shown, "" if code is None else str(code.co_filename)) from error
    if not isinstance(recipe, Recipe):
        raise unreadable(
            f"{name} returns something else",
            where=f"{shown}:{line}",
            expected="a Recipe",
            found=f"{recipe!r:.80} of type {type(recipe).__name__}",
        )
    lines = {} if text is None else lines_of_keys(text, line)
    return recipe, origins_of(recipe, f"{shown}:{line}", {key: f"{shown}:{at}" for key, at in lines.items()})


def origins_of(recipe: Recipe, origin: str, places: Mapping[str, str]) -> dict[str, str]:
    """Where each key of a recipe came from: its own place where known, else `origin`, or ``default`` if unchanged."""
    defaults = leaves(Recipe())
    found: dict[str, str] = {}
    for key, value in leaves(recipe).items():
        sections_up = [key[:end] for end in range(len(key), 0, -1) if end == len(key) or key[end] == "."]
        place = next((places[name] for name in sections_up if name in places), None)
        is_default = key in defaults and type(defaults[key]) is type(value) and defaults[key] == value
        found[key] = places.get(key) or (DEFAULT if is_default else place or origin)
    return found


def _failed(what: str, error: BaseException, shown: str, filename: str) -> ConfigError:
    """The error for a recipe that raised, with the last line of the recipe's own file that was running."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == filename]
    where = f"{shown}:{frames[-1].lineno}" if frames else shown
    unexpected = _UNEXPECTED.match(str(error)) if isinstance(error, TypeError) else None
    for name, section in sections().items():
        if unexpected is None or section.__name__ != unexpected[1]:
            continue
        fields = fields_of(section)
        near = closest(unexpected[2], fields)
        return ConfigError(
            f"unknown key {join(name, unexpected[2])}",
            code="C101",
            where=where,
            expected=f"a field of {section.__name__}: {', '.join(fields)}",
            found=unexpected[2],
            next=f"did you mean {near[0]}?" if near else None,
        )
    return unreadable(what, where=where, found=_one_line(error))


def recipe_of_preset(function: Callable[[], Recipe], origin: str) -> tuple[Recipe, dict[str, str]]:
    """The recipe of a preset, and `origin` for each key that the preset sets."""
    text = Path(inspect.getfile(function)).read_text(encoding="utf-8")
    recipe = function()
    return recipe, origins_of(
        recipe, origin, dict.fromkeys(lines_of_keys(text, function.__code__.co_firstlineno), origin)
    )


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")


def lines_of_keys(text: str, first_line: int) -> dict[str, int]:
    """The line of each key that the function at `first_line` sets by keyword in what it returns.

    Reads ``return Recipe(model=ModelConfig(hidden=128))``, the same through a name, and ``replace(recipe, steps=1)``.
    Keys set in any other way have no line.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and first_line in (node.lineno, *(d.lineno for d in node.decorator_list)):
            named = {
                target.id: statement.value
                for statement in ast.walk(node)
                if isinstance(statement, ast.Assign)
                for target in statement.targets
                if isinstance(target, ast.Name)
            }
            returns = [statement.value for statement in ast.walk(node) if isinstance(statement, ast.Return)]
            return _keyword_lines(returns[-1], "", named, depth=0) if returns else {}
    return {}


def _keyword_lines(node: ast.expr | None, prefix: str, named: dict[str, ast.expr], *, depth: int) -> dict[str, int]:
    if isinstance(node, ast.Name):
        node = named.get(node.id)
    if not isinstance(node, ast.Call) or depth > 4:
        return {}
    found: dict[str, int] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            continue
        name = join(prefix, keyword.arg)
        inner = _keyword_lines(keyword.value, name, named, depth=depth + 1) if name in sections() else {}
        found |= inner or {name: keyword.lineno}
    return found
