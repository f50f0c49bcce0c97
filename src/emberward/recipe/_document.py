"""YAML and TOML files as tables of nodes, with the line of every key."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

from emberward.files import anew
from emberward.findings import ConfigError
from emberward.recipe._node import Entry, Listing, Node, Scalar, Table

_MAX_DEPTH = 8
_MAX_NODES = 20_000
_NULL_TAG = "tag:yaml.org,2002:null"


def unreadable(
    what: str, *, where: str, expected: str | None = None, found: str | None = None, next: str | None = None
) -> ConfigError:
    """The error for a recipe that cannot be read."""
    return ConfigError(what, code="C106", where=where, expected=expected, found=found, next=next)


def read_text(path: Path) -> str:
    """The file's text. Raises ConfigError C106."""
    try:
        return anew(lambda: path.read_text(encoding="utf-8"))
    except OSError as error:
        raise unreadable("the recipe's file cannot be read", where=str(path), found=error.strerror) from error
    except UnicodeDecodeError as error:
        raise unreadable(
            "the recipe's file is not text", where=str(path), expected="UTF-8", found=f"byte {error.start} is not"
        ) from error


def yaml_table(text: str, name: str) -> Table:
    """The mapping in a YAML text; places are ``name:line``. Raises ConfigError C106.

    Values stay texts: the type of their key reads them, not YAML. See `Scalar`.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = name if mark is None else f"{name}:{mark.line + 1}"
        raise unreadable("the YAML cannot be read", where=where, found=error.problem) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise unreadable("the YAML cannot be read", where=name, found=str(error).splitlines()[0]) from error
    if root is None:
        return Table(entries=(), where=name)
    node = _YamlReader(name).node(root, 0)
    if not isinstance(node, Table):
        kind = "a list" if isinstance(node, Listing) else f"the text {node.value!r}"
        expected = "lines such as `steps: 100`"
        raise unreadable("the YAML is not a mapping", where=node.where, expected=expected, found=kind)
    return node


def yaml_value(text: str, where: str) -> Node:
    """The node of one YAML value of an override; every part has the place `where`. Raises ConfigError C106."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        problem = error.problem if isinstance(error, yaml.MarkedYAMLError) else str(error).splitlines()[0]
        raise unreadable(f"the value {text} cannot be read", where=where, found=problem) from error
    if root is None:
        return Scalar(value=None, where=where)
    return _YamlReader(None, where).node(root, 0)


class _YamlReader:
    """Turns composed YAML into nodes. Bounded, since aliases can make a small file endless."""

    def __init__(self, name: str | None, where: str = "") -> None:
        self._name = name
        self._where = where
        self._count = 0

    def _place(self, node: yaml.Node) -> str:
        return self._where if self._name is None else f"{self._name}:{node.start_mark.line + 1}"

    def node(self, node: yaml.Node, depth: int) -> Node:
        where = self._place(node)
        self._count += 1
        if depth > _MAX_DEPTH or self._count > _MAX_NODES:
            raise unreadable(
                "the YAML is nested too deep or repeats itself",
                where=where,
                expected=f"at most {_MAX_DEPTH} levels and {_MAX_NODES:,} values, aliases written out",
            )
        if isinstance(node, yaml.MappingNode):
            entries = tuple(self._entry(key, value, depth) for key, value in node.value)
            return Table(entries=entries, where=where)
        if isinstance(node, yaml.SequenceNode):
            return Listing(items=tuple(self.node(item, depth + 1) for item in node.value), where=where)
        assert isinstance(node, yaml.ScalarNode)
        is_plain = node.style is None
        value = None if is_plain and node.tag == _NULL_TAG else node.value
        return Scalar(value=value, where=where, is_plain=is_plain and value is not None)

    def _entry(self, key: yaml.Node, value: yaml.Node, depth: int) -> Entry:
        where = self._place(key)
        if not isinstance(key, yaml.ScalarNode):
            raise unreadable("a key of the YAML is not a word", where=where)
        return Entry(key=key.value, where=where, node=self.node(value, depth + 1))


def toml_table(text: str, name: str) -> Table:
    """The table in a TOML text; places are ``name:line``. Raises ConfigError C106."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, _, place = str(error).partition(" (at ")
        line = re.search(r"line (\d+)", place)
        where = f"{name}:{line[1]}" if line else f"{name}:{len(text.splitlines()) or 1}"
        raise unreadable("the TOML cannot be read", where=where, found=problem) from error
    except RecursionError as error:
        raise unreadable("the TOML cannot be read", where=name, found=str(error)) from error
    lines: dict[tuple[str, ...], int] = {}
    for path, number in _toml_lines(text):
        lines.setdefault(path, number)
    return _toml_node(data, (), name, lines, f"{name}:1")


def _toml_node(
    data: dict[str, object], prefix: tuple[str, ...], name: str, lines: dict[tuple[str, ...], int], where: str
) -> Table:
    entries = []
    for key, value in data.items():
        path = (*prefix, key)
        place = f"{name}:{lines[path]}" if path in lines else where
        entries.append(Entry(key=key, where=place, node=_toml_value(value, path, name, lines, place)))
    return Table(entries=tuple(entries), where=where)


def _toml_value(value: object, path: tuple[str, ...], name: str, lines: dict[tuple[str, ...], int], where: str) -> Node:
    if isinstance(value, dict):
        return _toml_node(value, path, name, lines, where)
    if isinstance(value, list):
        items = (_toml_value(item, (*path, str(index)), name, lines, where) for index, item in enumerate(value))
        return Listing(items=tuple(items), where=where)
    return Scalar(value=value, where=where)


_TOML_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_TOML_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_TOML_KEY = re.compile(rf"\s*({_TOML_NAME}(?:\s*\.\s*{_TOML_NAME})*)\s*=")
_TOML_WORD = re.compile(_TOML_NAME)


def _toml_lines(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every key that stands at the start of a line, with its line: tomllib gives values without places.

    Keys inside inline tables are left to their line's key. Lines inside texts of several lines are skipped.
    """
    prefix: tuple[str, ...] = ()
    counts: dict[tuple[str, ...], int] = {}
    closing: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if closing is not None:
            closing = None if closing in line else closing
            continue
        if header := _TOML_HEADER.match(line):
            prefix = _words(header[2])
            if header[1] == "[[":
                counts[prefix] = counts.get(prefix, -1) + 1
                yield prefix, number
                prefix = (*prefix, str(counts[prefix]))
            yield prefix, number
        elif key := _TOML_KEY.match(line):
            path = (*prefix, *_words(key[1]))
            for end in range(len(prefix) + 1, len(path) + 1):
                yield path[:end], number
            rest = line[key.end() :]
            closing = next((mark for mark in ('"""', "'''") if rest.count(mark) == 1), None)


def _words(dotted: str) -> tuple[str, ...]:
    return tuple(word.strip("\"'") for word in _TOML_WORD.findall(dotted))
