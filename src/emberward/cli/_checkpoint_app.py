"""``emberward checkpoint`` with all its verbs, as a program of its own and as a part of the whole one."""

import typer

from emberward.cli._checkpoint import checkpoint_app
from emberward.cli._exchange import add_exchange_verbs
from emberward.cli._words import PlainGroup

add_exchange_verbs(checkpoint_app)
app = typer.Typer(
    name="emberward", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, cls=PlainGroup
)
app.add_typer(checkpoint_app, name="checkpoint", cls=PlainGroup)

__all__ = ["app", "checkpoint_app"]
