"""A recipe in the making: keys, values and where each came from."""

from collections.abc import Mapping

from emberward.findings import ConfigError
from emberward.recipe._coerce import coerce
from emberward.recipe._document import unreadable
from emberward.recipe._foreign import foreign
from emberward.recipe._names import closest, closest_keys
from emberward.recipe._node import Entry, Listing, Node, Scalar, Table, found_text, node_of
from emberward.recipe._origins import DEFAULT
from emberward.recipe._recipe import Recipe
from emberward.recipe._schema import assemble, fields_of, join, keys, leaves, sections, type_text

_REFERENCE = "every key: docs/configuration.md"


class Draft:
    """Values of every key with their origins. It begins as the default recipe and is set key by key."""

    def __init__(self) -> None:
        self.values: dict[str, object] = leaves(Recipe())
        self.origins: dict[str, str] = dict.fromkeys(self.values, DEFAULT)

    @classmethod
    def of(cls, recipe: Recipe, origins: Mapping[str, str]) -> "Draft":
        """A draft that begins as `recipe`."""
        draft = cls()
        draft.values, draft.origins = leaves(recipe), dict(origins)
        return draft

    def recipe(self) -> Recipe:
        """The recipe. Raises ConfigError C102 when a section lacks a key that has no default."""
        try:
            return assemble(self.values)
        except KeyError as error:
            missing = str(error.args[0])
            section = missing.rpartition(".")[0]
            given = [name for name in self.values if name.startswith(f"{section}.")]
            raise ConfigError(
                f"{missing} is missing",
                code="C102",
                where=self.origins[given[0]],
                expected=type_text(sections()[section]),
                found=", ".join(name.rpartition(".")[2] for name in given),
                next=f"{section}=null turns it off",
            ) from error

    def merge(self, table: Table) -> None:
        """Sets every key of a file. Raises ConfigError C101, C102, C103 or C106 (a key twice)."""
        seen: dict[str, str] = {}
        for entry in table.entries:
            self._enter("", entry, seen)

    def set(self, name: str, node: Node) -> None:
        """Sets one key or section from the command line or a recipe's function."""
        self._enter("", Entry(key=name, where=node.where, node=node), {})

    def put(self, name: str, value: object, origin: str) -> None:
        """Sets a key to a value of its type."""
        self._forget(name)
        self.values[name] = value
        self.origins[name] = origin

    def take(self, recipe: Recipe, origins: Mapping[str, str]) -> None:
        """Takes over the values of a recipe that a function returned. Raises ConfigError C102 or C103."""
        _require_sections(recipe, origins)
        for name, value in leaves(recipe).items():
            origin = origins[name]
            self.put(name, coerce(name, keys()[name].type, node_of(value, origin)), origin)

    def _enter(self, prefix: str, entry: Entry, seen: dict[str, str]) -> None:
        name = join(prefix, entry.key.strip().replace("-", "_"))
        if name in sections():
            self._section(name, entry, seen)
            return
        if name not in keys():
            raise _unknown_key(name, join(prefix, entry.key), entry)
        _require_new(name, entry.where, seen)
        self.put(name, coerce(name, keys()[name].type, entry.node), entry.where)

    def _section(self, name: str, entry: Entry, seen: dict[str, str]) -> None:
        node, hint = entry.node, keys()[name].type if name in keys() else sections()[name]
        if isinstance(node, Table):
            _require_new(name, entry.where, seen)
            for inner in node.entries:
                self._enter(name, inner, seen)
            return
        is_null = isinstance(node, Scalar) and (
            node.value is None or (node.is_plain and str(node.value).lower() in ("null", "none"))
        )
        if is_null and name in keys():
            _require_new(name, entry.where, seen)
            self.put(name, None, entry.where)
        elif not is_null:
            self._positional(name, node, hint, seen)

    def _positional(self, name: str, node: Node, hint: object, seen: dict[str, str]) -> None:
        """A section that may be null, written as its values in order: ``batch.ramp_up=192,16,9765625``."""
        fields = fields_of(sections()[name])
        items = node.items if isinstance(node, Listing) else _split(node)
        if name not in keys() or len(items) != len(fields):
            raise ConfigError(
                f"{name} has the wrong type",
                code="C102",
                where=node.where,
                expected=type_text(hint),
                found=found_text(node),
                next=f"{name}.{next(iter(fields))}=..." if name not in keys() else None,
            )
        _require_new(name, node.where, seen)
        for field, item in zip(fields, items, strict=True):
            self._enter(name, Entry(key=field, where=node.where, node=item), seen)

    def _forget(self, name: str) -> None:
        """Makes room: a section that may be null is either null or has keys."""
        parent = name.rpartition(".")[0]
        for other in [each for each in self.values if each == parent or each.startswith(f"{name}.")]:
            del self.values[other], self.origins[other]


def _require_sections(recipe: Recipe, origins: Mapping[str, str]) -> None:
    """Raises ConfigError C102 when a section of a Python recipe is not of its own class."""
    for name, section in sections().items():
        value: object = recipe
        for part in name.split(".") if name else ():
            value = getattr(value, part)
        if isinstance(value, section):
            continue
        if value is None and name in keys():
            continue
        inside = [origin for key, origin in origins.items() if key == name or key.startswith(f"{name}.")]
        raise ConfigError(
            f"{name} has the wrong type",
            code="C102",
            where=inside[0],
            expected=section.__name__,
            found=f"{value!r:.80} of type {type(value).__name__}",
        )


def _split(node: Node) -> tuple[Node, ...]:
    if not isinstance(node, Scalar) or not node.is_plain:
        return ()
    parts = str(node.value).split(",")
    return tuple(Scalar(value=part.strip(), where=node.where, is_plain=True) for part in parts)


def _require_new(name: str, where: str, seen: dict[str, str]) -> None:
    if name in seen:
        raise unreadable(f"{name} is given twice", where=where, expected="each key once", found=f"also in {seen[name]}")
    seen[name] = where


def _unknown_key(name: str, written: str, entry: Entry) -> ConfigError:
    """The error for a key that we do not have; one that another trainer has is named with ours."""
    for leaf_name, leaf in _leaves_of(written, entry):
        meant = foreign(leaf_name)
        if meant is None:
            continue
        advice = meant.note
        if advice is None and isinstance(leaf.node, Scalar) and leaf.node.value is not None:
            advice = f"{meant.ours}={leaf.node.value}"
        return ConfigError(
            f"unknown key {leaf_name}",
            code="C101",
            where=leaf.where,
            expected=meant.ours or "no such key",
            found=f"a key of {meant.project}",
            next=advice or meant.ours,
        )
    near = closest(name, sections()) if isinstance(entry.node, Table) else []
    near = near or closest_keys(name)
    return ConfigError(
        f"unknown key {written}",
        code="C101",
        where=entry.where,
        expected="a key of the recipe",
        found=_as_override(written, entry.node),
        next=f"did you mean {' or '.join(near)}?" if near else _REFERENCE,
    )


def _as_override(name: str, node: Node) -> str:
    return f"{name}={node.value}" if isinstance(node, Scalar) and node.value is not None else name


def _leaves_of(name: str, entry: Entry) -> list[tuple[str, Entry]]:
    """The keys with values under an entry, or the entry itself, dotted."""
    if not isinstance(entry.node, Table):
        return [(name, entry)]
    found = [(name, entry)]
    for inner in entry.node.entries:
        found += _leaves_of(join(name, inner.key), inner)
    return found
