"""How far a run has come: what is counted, saved and taken up again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(slots=True, kw_only=True)
class Position:
    """How far a run has come. `step` counts finished steps. One trainer owns and changes it."""

    step: int = 0
    consumed_samples: int = 0
    consumed_tokens: int = 0
    num_skipped: int = 0
    health: Mapping[str, Any] | None = None
    """What the watches over the run have seen, for a save; None where nobody watches."""

    def counters(self) -> dict[str, Any]:
        """What a save's meta holds beside the step."""
        counted = asdict(self)
        del counted["step"]
        return counted

    @classmethod
    def of(cls, *, step: int, counters: Mapping[str, Any]) -> "Position":
        """The position that `counters` gave, at `step`."""
        return cls(
            step=step,
            consumed_samples=counters["consumed_samples"],
            consumed_tokens=counters["consumed_tokens"],
            num_skipped=counters["num_skipped"],
            health=counters.get("health"),
        )
