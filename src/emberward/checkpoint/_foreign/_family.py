"""Model families: how another program names, splits, fuses, pads and ties the tensors of a model. Declared, not coded.

[Note: family files]
A family is a YAML file (``docs/convert.md`` has the form). Those that come with Emberward lie in ``families/`` and are
written in the same form as a user's own, so that there is one way to add a model.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emberward.checkpoint._boxes import whole_box
from emberward.checkpoint._foreign._problems import no_rule
from emberward.checkpoint._foreign._stored import Stored, concatenate, cut, join

_FAMILIES = Path(__file__).parent / "families"
_PLACE = re.compile(r"\\\{(layer)(?:\\\+(\d+))?\\\}|\\\{(any)\\\}")
_KEYS = {"ours", "theirs", "split", "parts", "rows", "groups", "vocab"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of a family: a tensor of theirs, and the tensor or tensors of ours that it is.

    `split` is the dim that tensor-parallel ranks divide, None when each of them holds the whole (replicated). `parts`
    equal blocks along `split` are divided each on its own. Several `ours` lie in it fused: one block after the other,
    or with `groups` interleaved group by group. `rows` are their lengths along dim 0, None when equal. `is_vocab`: dim
    0 may be padded.
    """

    ours: tuple[str, ...]
    theirs: str
    split: int | None
    parts: int
    rows: tuple[int, ...] | None
    groups: int
    is_vocab: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A rule that fits a name of theirs; `layer` is our number of the layer, None where the rule has none."""

    rule: Rule
    layer: int | None

    @property
    def ours(self) -> tuple[str, ...]:
        """Our names, with the layer's number filled in."""
        return tuple(filled(template, self.layer) for template in self.rule.ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family's rules. `tied` maps names of theirs that repeat another tensor to our name of that one. Names may
    lack `prefix`."""

    name: str
    where: str
    rules: tuple[Rule, ...]
    tied: Mapping[str, str]
    ignored: tuple[str, ...]
    model_type: str | None
    prefix: str

    def match(self, theirs: str) -> Match | None:
        """The rule for a name of theirs; None for one that is ignored. Raises K114 when there is neither."""
        for name in (theirs, self.prefix + theirs):
            for rule in self.rules:
                found = _pattern(rule.theirs).fullmatch(name)
                if found is not None:
                    return Match(rule=rule, layer=_layer(rule.theirs, found))
        if any(_pattern(template).fullmatch(theirs) for template in self.ignored):
            return None
        near = difflib.get_close_matches(theirs, [rule.theirs for rule in self.rules], n=2, cutoff=0.5)
        raise no_rule(
            f"family {self.name} has no rule for a tensor",
            where=self.where,
            expected="a rule whose `theirs` fits the name"
            + (f", as {' or '.join(near)} do for others" if near else ""),
            found=theirs,
            next="add a rule, or list the name under `ignore`; docs/convert.md shows the form",
        )

    def to_theirs(self, ours: Sequence[str]) -> list[tuple[str, Match]]:
        """Their name and the rule for every tensor of theirs that our names make up, in the order of the rules' names.

        Raises K114 when one of ours is in no rule, or a fused tensor lacks a part.
        """
        made: dict[str, Match] = {}
        placed: set[str] = set()
        for name in ours:
            for rule in self.rules:
                at = next((found for template in rule.ours if (found := _pattern(template).fullmatch(name))), None)
                if at is not None:
                    template = next(text for text in rule.ours if _pattern(text).fullmatch(name))
                    match = Match(rule=rule, layer=_layer(template, at))
                    made.setdefault(filled(rule.theirs, match.layer), match)
                    placed.add(name)
                    break
            else:
                raise no_rule(
                    f"family {self.name} has no rule for a tensor of ours",
                    where=self.where,
                    expected="a rule whose `ours` fits the name",
                    found=name,
                    next="choose another --family; docs/convert.md shows the form",
                )
        for theirs, match in made.items():
            missing = [name for name in match.ours if name not in placed]
            if missing:
                raise no_rule(
                    f"{theirs} cannot be made: a part of it is missing",
                    where=self.where,
                    expected=" and ".join(match.ours),
                    found=f"no {missing[0]}",
                )
        return list(made.items())


def filled(template: str, layer: int | None) -> str:
    """The name that a template stands for in a layer."""
    return re.sub(r"\{layer(?:\+(\d+))?\}", lambda found: str((layer or 0) + int(found[1] or 0)), template)


def _pattern(template: str) -> re.Pattern[str]:
    text = _PLACE.sub(lambda found: r"(\d+)" if found[1] else r"\d+", re.escape(template))
    return re.compile(text)


def _layer(template: str, found: re.Match[str]) -> int | None:
    shift = re.search(r"\{layer(?:\+(\d+))?\}", template)
    return None if shift is None else int(found[1]) - int(shift[1] or 0)


def split_fused(rule: Rule, whole: Stored, ours: Sequence[str]) -> list[Stored]:
    """The tensors of ours that lie in one of theirs. Pure. Raises K114 when the rows do not add up."""
    if len(ours) == 1:
        return [whole.named(ours[0])]
    rows = _rows(rule, whole.shape[0], len(ours), whole.name)
    made, rest = [], whole_box(whole.shape)[1:]
    for index, name in enumerate(ours):
        corner, parts = 0, []
        for group in range(rule.groups):
            start = _group_start(rule, rows, group, index)
            length = rows[index] // rule.groups
            parts.append((corner, cut(whole, ((start, start + length), *rest))))
            corner += length
        shape = (rows[index], *whole.shape[1:])
        made.append(join(name, shape, [((low, *(0 for _ in rest)), part) for low, part in parts]))
    return made


def fuse(rule: Rule, parts: Sequence[Stored], theirs: str) -> Stored:
    """The tensor of theirs that tensors of ours make up. Pure; the inverse of `split_fused`."""
    if len(parts) == 1:
        return parts[0].named(theirs)
    if rule.groups == 1:
        return concatenate(theirs, parts, 0)
    rows = tuple(part.shape[0] for part in parts)
    placed = []
    for index, part in enumerate(parts):
        rest = whole_box(part.shape)[1:]
        length = rows[index] // rule.groups
        for group in range(rule.groups):
            piece = cut(part, ((group * length, (group + 1) * length), *rest))
            placed.append(((_group_start(rule, rows, group, index), *(0 for _ in rest)), piece))
    return join(theirs, (sum(rows), *parts[0].shape[1:]), placed)


def _group_start(rule: Rule, rows: Sequence[int], group: int, index: int) -> int:
    """First row, in the fused tensor, of part `index` of a group."""
    per_group = [length // rule.groups for length in rows]
    return group * sum(per_group) + sum(per_group[:index])


def _rows(rule: Rule, total: int, num_parts: int, name: str) -> tuple[int, ...]:
    rows = rule.rows or tuple(total // num_parts for _ in range(num_parts))
    if sum(rows) != total or any(length % rule.groups for length in rows):
        raise no_rule(
            "a fused tensor does not split as its rule says",
            where=f"{name}, rule {rule.theirs}",
            expected=f"{' + '.join(map(str, rows))} rows in {rule.groups} groups",
            found=f"{total} rows",
            next="set `rows` and `groups` of the rule to the model's; docs/convert.md shows the form",
        )
    return rows


def join_ranks(rule: Rule, name: str, slices: Sequence[Stored]) -> Stored:
    """The whole tensor of theirs out of its tensor-parallel slices, in the order of the ranks. Pure.

    With `parts` > 1 each rank's slice holds its share of every block, and the blocks are put together one by one.
    """
    assert rule.split is not None
    dim = rule.split
    if any(len(part.shape) <= dim or part.shape[dim] % rule.parts for part in slices):
        raise no_rule(
            "a tensor does not split as its rule says",
            where=f"{name}, rule {rule.theirs}",
            expected=f"dim {dim}, in {rule.parts} blocks",
            found=f"shape {slices[0].shape}",
        )
    blocks = []
    for part in range(rule.parts):
        for piece in slices:
            length = piece.shape[dim] // rule.parts
            box = tuple(
                (part * length, (part + 1) * length) if d == dim else (0, size) for d, size in enumerate(piece.shape)
            )
            blocks.append(cut(piece, box))
    return concatenate(name, blocks, dim)


def read_family(name_or_path: str) -> Family:
    """The family of that name, or in that file. Raises K114 when it cannot be read or says something unknown."""
    path = _FAMILIES / f"{name_or_path}.yaml"
    if not path.is_file():
        path = Path(name_or_path)
    known = ", ".join(family_names())
    import yaml  # imported here for the time that it saves conversions without a family

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return _family(data, str(path))
    except OSError as error:
        raise no_rule(
            "there is no such model family",
            where=name_or_path,
            expected=f"a file, or one of {known}",
            found=error.strerror or str(error),
        ) from error
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise no_rule(
            "a family file cannot be read",
            where=str(path),
            expected="`family`, and `tensors`: a list of rules with `theirs` and `ours`",
            found=f"{type(error).__name__}: {error}",
            next="docs/convert.md shows the form",
        ) from error


def family_names() -> tuple[str, ...]:
    """Names of the families that come with Emberward."""
    return tuple(sorted(path.stem for path in _FAMILIES.glob("*.yaml")))


def family_of_model_type(model_type: str) -> Family | None:
    """The family that comes with Emberward for a Hugging Face ``model_type``, None when there is none."""
    for name in family_names():
        family = read_family(name)
        if family.model_type == model_type:
            return family
    return None


def _family(data: Mapping[str, Any], where: str) -> Family:
    return Family(
        name=str(data["family"]),
        where=where,
        rules=tuple(_rule(row) for row in data["tensors"]),
        tied={str(theirs): str(ours) for theirs, ours in data.get("tied", {}).items()},
        ignored=tuple(map(str, data.get("ignore", []))),
        model_type=data.get("model_type"),
        prefix=str(data.get("prefix", "")),
    )


def _rule(row: Mapping[str, Any]) -> Rule:
    unknown = sorted(set(row) - _KEYS)
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}")
    ours = row["ours"] if isinstance(row["ours"], list) else [row["ours"]]
    split, groups = row.get("split"), int(row.get("groups", 1))
    parts = int(row.get("parts", len(ours) if groups == 1 else 1))
    return Rule(
        ours=tuple(map(str, ours)),
        theirs=str(row["theirs"]),
        split=None if split is None else int(split),
        parts=parts,
        rows=tuple(map(int, row["rows"])) if "rows" in row else None,
        groups=groups,
        is_vocab=bool(row.get("vocab", False)),
    )
