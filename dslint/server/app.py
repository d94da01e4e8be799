"""The server: which request of the editor leads to what. Keeps the verdict about every open document."""

from __future__ import annotations

import asyncio
import os
from argparse import Action, Namespace
from collections.abc import Mapping

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from dslint import __version__
from dslint.server.actions import FIX_ALL, actions, fix_all
from dslint.server.completion import completions
from dslint.server.diagnostics import diagnostics
from dslint.server.hover import hover
from dslint.server.judging import LANGUAGES, Verdict, concerns, judge
from dslint.server.places import UTF16, offset

DELAY = 0.25
"""Seconds without a keystroke before a document is judged."""

WATCHED = ("**/pyproject.toml", "**/dslint.toml")
"""Files whose change may change every verdict."""


class Server(LanguageServer):
    """The language server with what it knows about open documents."""

    def __init__(self, flags: Namespace, flag_actions: Mapping[str, Action]) -> None:
        super().__init__("dslint", __version__, types.TextDocumentSyncKind.Full)
        self.flags = flags
        self.flag_actions = flag_actions
        self.waiting: dict[str, asyncio.TimerHandle] = {}
        self.verdicts: dict[str, tuple[str, Verdict]] = {}  # by URI, with the text it is about

    @property
    def encoding(self) -> str:
        """The unit in which the client counts characters."""
        return str(
            getattr(self.workspace.position_encoding, "value", self.workspace.position_encoding) or UTF16
        )

    def name_of(self, uri: str) -> str:
        """The file name of a document as the command line would be given it."""
        document = self.workspace.get_text_document(uri)
        path: str | None = uris.to_fs_path(uri)
        if path is None or uri.startswith("untitled:"):
            return "untitled" + LANGUAGES.get(document.language_id or "", "")
        here = (
            os.path.relpath(path)
            if os.path.splitdrive(path)[0] == os.path.splitdrive(os.getcwd())[0]
            else path
        )
        return path if here.startswith("..") else here

    def verdict(self, uri: str) -> Verdict | None:
        """What there is to say about an open document as it is now; None when it is no config."""
        document = self.workspace.text_documents.get(uri)
        if document is None:  # closed since the editor asked
            return None
        text = document.source
        known = self.verdicts.get(uri)
        if known is not None and known[0] == text:
            return known[1]
        name = self.name_of(uri)
        if not concerns(name, text):
            self.verdicts.pop(uri, None)
            return None
        verdict = judge(name, text, self.flags, self.flag_actions)
        self.verdicts[uri] = (text, verdict)
        return verdict

    def schedule(self, uri: str, delay: float = DELAY) -> None:
        """Judges a document once nothing has changed for a moment."""
        self.forget(uri)
        self.waiting[uri] = asyncio.get_running_loop().call_later(delay, self.publish, uri)

    def forget(self, uri: str) -> None:
        """No longer judges a document that was to be judged."""
        handle = self.waiting.pop(uri, None)
        if handle is not None:
            handle.cancel()

    def publish(self, uri: str) -> None:
        """Shows the editor what there is to say about a document."""
        self.waiting.pop(uri, None)
        document = self.workspace.text_documents.get(uri)
        if document is None:
            return
        verdict = self.verdict(uri)
        found = diagnostics(verdict, self.encoding) if verdict is not None else []
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, diagnostics=found, version=document.version)
        )

    def again(self) -> None:
        """Judges every open document anew."""
        self.verdicts.clear()
        for uri in self.workspace.text_documents:
            self.schedule(uri)


def make(flags: Namespace, flag_actions: Mapping[str, Action]) -> Server:
    """The server, ready to be started."""
    server = Server(flags, flag_actions)

    @server.feature(types.INITIALIZED)
    def initialized(ls: Server, _: types.InitializedParams) -> None:
        if ls.workspace.root_path and os.path.isdir(ls.workspace.root_path):
            os.chdir(ls.workspace.root_path)  # what the command line would be run in
        workspace = ls.client_capabilities.workspace
        watching = workspace.did_change_watched_files if workspace else None
        if watching is not None and watching.dynamic_registration:
            watchers = [types.FileSystemWatcher(glob_pattern=glob) for glob in WATCHED]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers=watchers)
            what = types.Registration(
                id="settings", method=types.WORKSPACE_DID_CHANGE_WATCHED_FILES, register_options=options
            )
            ls.client_register_capability(types.RegistrationParams(registrations=[what]))

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
        ls.schedule(params.text_document.uri, 0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        ls.schedule(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(ls: Server, _: types.DidSaveTextDocumentParams) -> None:
        ls.again()  # another open document may name this one

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        ls.forget(uri)
        ls.verdicts.pop(uri, None)
        ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=[]))

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def settings_changed(ls: Server, _: types.DidChangeWatchedFilesParams) -> None:
        ls.again()

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hovered(ls: Server, params: types.HoverParams) -> types.Hover | None:
        verdict = ls.verdict(params.text_document.uri)
        if verdict is None:
            return None
        where = offset(verdict.report.document, params.position, ls.encoding)
        return hover(verdict, where, ls.encoding)

    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=['"', ":", " ", "\n"])
    )
    def completed(ls: Server, params: types.CompletionParams) -> list[types.CompletionItem]:
        verdict = ls.verdict(params.text_document.uri)
        if verdict is None:
            return []
        where = offset(verdict.report.document, params.position, ls.encoding)
        return completions(verdict, where, ls.encoding)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, FIX_ALL]),
    )
    def acted(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        verdict = ls.verdict(uri)
        if verdict is None:
            return []
        version = ls.workspace.get_text_document(uri).version
        only = params.context.only
        offered = []
        if only is None or any(FIX_ALL.startswith(kind) for kind in only):
            offered += fix_all(verdict, uri, version, ls.encoding) if only is not None else []
        if only is None or types.CodeActionKind.QuickFix in only:
            offered += actions(verdict, uri, version, params.range, ls.encoding)
        return offered

    return server
