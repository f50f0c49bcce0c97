"""The end of a verb's help: how it is called."""


def examples(*commands: str, more: str | None = None) -> str:
    """The examples as typer prints them unchanged (a line with \\b before a paragraph keeps its lines)."""
    lines = ["\b", "Examples:", *(f"  {command}" for command in commands)]
    return "\n".join(lines) + ("" if more is None else f"\n\n{more}")
