"""Tables of embeddings whose gradient is made whole for a few rows. Pure. See [Note: dense gradients] in the probe."""

import math
import re
from collections.abc import Sequence

from emberward.findings import Cause
from emberward.lens._operations import KERNEL, RankOperations, Table
from emberward.lens._waste import Waste
from emberward.lens._work import RankWork

_MAKES = re.compile(r"^aten::_?embedding(_bag)?(_dense)?_backward$")
_FUSED = re.compile(r"^aten::_fused_\w+_$")


def dense_gradients(work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    """What a step spends on rows of tables that it has not looked up: making their gradient, and in the optimizer.

    Of operations on all of a table's numbers, by its shape; of such as make gradients, or go through all parameters at
    once, by its part of the numbers. With several ranks nothing is said: sparse gradients are reduced in another way.
    """
    if len(ranks) > 1 or not rank.tables:
        return None
    spent = {table: _spent_s(table, work, rank) * (1 - table.looked_up) for table in rank.tables}
    worst = max(spent, key=lambda table: spent[table])
    cost_s = sum(spent.values())
    return Waste(
        cause=Cause.DENSE_GRADIENT,
        site=worst.site,
        cost_s=cost_s,
        share=cost_s / work.pace.step_s,
        ranks=(work.rank,),
        evidence=tuple(
            f"a step looks up {100 * table.looked_up:.1f}% of the {table.shape[0]:,} rows of the table made at "
            f"{table.site}; {1000 * seconds:.2f} ms go to the others"
            for table, seconds in spent.items()
        ),
    )


def _spent_s(table: Table, work: RankWork, rank: RankOperations) -> float:
    """Seconds a step that go to the gradient of a table and to what the optimizer does with it."""
    own = [op for op in rank.operations if op.thread == rank.main and not op.is_async and KERNEL.match(op.name)]
    whole = [(op.began_s, op.ended_s) for op in own if op.shapes[:1] == (table.shape,) and not _is_lookup(op.name)]
    tables = sum(math.prod(each.shape) for each in rank.tables)
    parameters = max(sum(each.held for each in rank.parameters), tables)
    makes = work.pace.of((op.began_s, op.ended_s) for op in own if _MAKES.match(op.name))
    fused = work.pace.of((op.began_s, op.ended_s) for op in own if _FUSED.match(op.name))
    size = math.prod(table.shape)
    alike = sum(each.shape == table.shape for each in rank.tables)
    return work.pace.of(whole) / alike + makes * size / tables + fused * size / parameters


def _is_lookup(name: str) -> bool:
    return name.startswith(("aten::embedding", "aten::_embedding"))
