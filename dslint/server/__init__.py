"""`--server`: a language server over standard input and output, for every editor that speaks the protocol.

What it says is what the command line says: the same settings, the same verdicts. pygls and lsprotocol are
imported here only, and only when a server is asked for.
"""

from __future__ import annotations

from argparse import Action, Namespace
from collections.abc import Mapping

from dslint.errors import UsageError

INSTALL = (
    "--server needs the language server protocol: pip install 'deepspeed-lint[lsp]', in a clone '.[lsp]'"
)


def serve(flags: Namespace, actions: Mapping[str, Action]) -> None:
    """Serves until the editor closes the connection. Raises UsageError where the extra is not installed."""
    try:
        import lsprotocol  # noqa: F401
        import pygls  # noqa: F401
    except ImportError:
        raise UsageError(INSTALL) from None
    from dslint.server.app import make

    make(flags, actions).start_io()
