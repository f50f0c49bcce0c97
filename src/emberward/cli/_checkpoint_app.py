"""``emberward checkpoint`` with all its verbs."""

import typer

from emberward.cli._checkpoint import checkpoint_app
from emberward.cli._exchange import add_exchange_verbs
from emberward.cli._words import PlainGroup

add_exchange_verbs(checkpoint_app)


def add_to(app: typer.Typer) -> None:
    """Makes them verbs of the program."""
    app.add_typer(checkpoint_app, name="checkpoint", cls=PlainGroup)
