"""How far ranks were from one plain process, and how far they may be in fp32."""

from typing import Any

import numpy as np

from ranks.cases import assemble, relative

FIRST_LOSS, ALL_LOSSES, NORMS, GRADIENT = 1e-6, 1e-5, 1e-4, 1e-5


def gradient_error(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """Norm of the difference over norm of the expected, over all parameters."""
    assert set(found) == set(expected)
    square = sum(float(((found[name].astype("f8") - expected[name]) ** 2).sum()) for name in expected)
    whole = sum(float((expected[name].astype("f8") ** 2).sum()) for name in expected)
    return (square / whole) ** 0.5


def distance(answers: list[dict[str, Any]], expected: dict[str, Any]) -> dict[str, float]:
    """Relative differences of the first loss, all losses, the norms and the gradients; all ranks must say the same."""
    for answer in answers:
        assert answer["loss"] == answers[0]["loss"]
        assert answer["norm"] == answers[0]["norm"]
    losses = answers[0]["loss"]
    return {
        "first_loss": relative(losses[:1], expected["loss"][:1]),
        "losses": relative(losses, expected["loss"]),
        "norms": relative(answers[0]["norm"], expected["norm"]),
        "gradient": gradient_error(assemble(answers, "grads"), expected["grads"]),
    }


def beyond(found: dict[str, float]) -> list[str]:
    """Which figures of a distance are larger than they may be.."""
    bounds = {"first_loss": FIRST_LOSS, "losses": ALL_LOSSES, "gradient": GRADIENT}
    return [name for name, bound in bounds.items() if not found[name] < bound]


def require_exact(answers: list[dict[str, Any]], expected: dict[str, Any]) -> dict[str, float]:
    """The distance; fails where ranks were further from one process than may be."""
    found = distance(answers, expected)
    assert not beyond(found), found
    return found
