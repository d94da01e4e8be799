"""The language server as an editor meets it: a client session over the standard streams of `dslint --server`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from dslint.arguments import arguments
from dslint.cli import main
from dslint.document import Document
from dslint.formats import read_bytes
from dslint.links import rule_url
from dslint.server.actions import actions, fix_all
from dslint.server.completion import completions
from dslint.server.diagnostics import diagnostics
from dslint.server.hover import hover
from dslint.server.judging import judge
from dslint.server.places import cursor, offset, position

ROOT = Path(__file__).parents[1]
WAIT = 60
"""Seconds until an answer of the server counts as missing."""


class Editor:
    """What an editor does, with the answers it got."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.shown: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    async def open(self, name: str, text: str, language: str = "json") -> list[lsp.Diagnostic]:
        uri = name if ":" in name else self.uri(name)
        self.texts[uri], self.versions[uri] = text, 1
        item = lsp.TextDocumentItem(uri, language, 1, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return await self.diagnostics(uri)

    def type(self, name: str, text: str) -> None:
        uri = self.uri(name)
        self.texts[uri] = text
        self.versions[uri] += 1
        identifier = lsp.VersionedTextDocumentIdentifier(uri=uri, version=self.versions[uri])
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(identifier, [change]))

    async def diagnostics(self, uri: str) -> list[lsp.Diagnostic]:
        while True:
            said = await asyncio.wait_for(self.shown.get(), WAIT)
            if said.uri == uri and said.version in (None, self.versions[uri]):
                return list(said.diagnostics)

    def at(
        self, name: str, text: str, after: bool = False
    ) -> tuple[lsp.TextDocumentIdentifier, lsp.Position]:
        """A text of the document, by its beginning or its end; in UTF-16 units, as Python encodes them."""
        whole = self.texts[self.uri(name)]
        head = whole[: whole.index(text) + (len(text) if after else 0)]
        line = head.rsplit("\n", 1)[-1]
        where = lsp.Position(head.count("\n"), len(line.encode("utf-16-le")) // 2)
        return lsp.TextDocumentIdentifier(self.uri(name)), where

    async def hover(self, name: str, text: str) -> str:
        identifier, where = self.at(name, text)
        answer = await self.client.text_document_hover_async(lsp.HoverParams(identifier, where))
        return answer.contents.value if answer is not None else ""

    async def complete(self, name: str, after: str) -> dict[str, lsp.CompletionItem]:
        identifier, where = self.at(name, after, after=True)
        answer = await self.client.text_document_completion_async(lsp.CompletionParams(identifier, where))
        items = answer.items if isinstance(answer, lsp.CompletionList) else answer
        return {item.label: item for item in items or []}

    async def actions(self, name: str, text: str, only: list[str] | None = None) -> dict[str, lsp.CodeAction]:
        identifier, where = self.at(name, text)
        context = lsp.CodeActionContext([], only)
        asked = lsp.CodeActionParams(identifier, lsp.Range(where, where), context)
        answer = await self.client.text_document_code_action_async(asked)
        return {action.title: action for action in answer or []}

    def applied(self, name: str, edits: list[lsp.TextEdit]) -> str:
        """The text after edits, worked out as editors do: on UTF-16 code units."""
        data = self.texts[self.uri(name)]
        starts = [0]
        for line in data.split("\n"):
            starts.append(starts[-1] + len((line + "\n").encode("utf-16-le")))
        raw = data.encode("utf-16-le")
        place: Callable[[lsp.Position], int] = lambda p: starts[p.line] + 2 * p.character  # noqa: E731
        for edit in sorted(edits, key=lambda e: place(e.range.start), reverse=True):
            raw = (
                raw[: place(edit.range.start)]
                + edit.new_text.encode("utf-16-le")
                + raw[place(edit.range.end) :]
            )
        return raw.decode("utf-16-le")


@asynccontextmanager
async def session(folder: Path, *flags: str, encodings: list[Any] | None = None) -> AsyncIterator[Editor]:
    client = LanguageClient("editor", "1")
    editor = Editor(client, folder)

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def shown(params: lsp.PublishDiagnosticsParams) -> None:
        editor.shown.put_nowait(params)

    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    await client.start_io(sys.executable, "-m", "dslint", "--server", *flags, cwd=folder, env=environment)
    general = lsp.GeneralClientCapabilities(position_encodings=encodings)
    await client.initialize_async(
        lsp.InitializeParams(lsp.ClientCapabilities(general=general), root_uri=folder.as_uri())
    )
    client.initialized(lsp.InitializedParams())
    yield editor
    await client.shutdown_async(None)
    client.exit(None)
    await asyncio.wait_for(client._server.wait(), WAIT)
    assert client._server.returncode == 0
    await client.stop()


def play(folder: Path, scene: Callable[[Editor], Awaitable[None]], *flags: str, **options: Any) -> None:
    """Runs one session."""

    async def run() -> None:
        async with session(folder, *flags, **options) as editor:
            await scene(editor)

    asyncio.run(run())


CONFIG = """\
{
  "train_batch_size": 8,
  "zero_optimization": {
    "stage": 2,
    "offload_param": {"device": "cpu"}
  },
  "gradient_cliping": 1.0
}
"""


def codes(shown: list[lsp.Diagnostic]) -> list[Any]:
    return [diagnostic.code for diagnostic in shown]


def test_findings_are_shown_while_typing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def scene(editor: Editor) -> None:
        shown = await editor.open("ds_config.json", CONFIG)
        (tmp_path / "ds_config.json").write_text(CONFIG)
        main(["--format", "json", str(tmp_path / "ds_config.json")])
        said = json.loads(capsys.readouterr().out)["files"][0]["findings"]
        assert codes(shown) == [finding["code"] for finding in said] and len(shown) > 2
        typo = next(d for d in shown if d.code == "DS102")
        assert typo.range == lsp.Range(lsp.Position(6, 2), lsp.Position(6, 20))
        assert typo.severity == lsp.DiagnosticSeverity.Error and typo.source == "dslint"
        assert "did you mean gradient_clipping?" in typo.message
        assert typo.code_description is not None and typo.code_description.href == rule_url("DS102")
        editor.type("ds_config.json", CONFIG.replace("cliping", "clip"))
        editor.type("ds_config.json", CONFIG.replace("cliping", "clippin"))
        editor.type("ds_config.json", CONFIG.replace("cliping", "clipping"))
        uri = editor.uri("ds_config.json")
        assert "DS102" not in codes(await editor.diagnostics(uri))
        assert editor.shown.empty()  # the versions in between were not judged
        editor.type("ds_config.json", "{")
        assert codes(await editor.diagnostics(uri)) == ["DS001"]
        identifier = lsp.TextDocumentIdentifier(uri)
        editor.client.text_document_did_close(lsp.DidCloseTextDocumentParams(identifier))
        assert await editor.diagnostics(uri) == []

    play(tmp_path, scene)


DOCUMENTS = [
    ("ds_config.json", "json", "{}", True),
    ("ds_config_new.json", "json", "", True),
    ("package.json", "json", '{"name": "x", "version": 1}', False),
    ("tsconfig.json", "jsonc", '{"optimizer": 1}', False),
    ("train.json", "json", '{"zero_optimization": {"stage": 7}}', True),
    ("train.hjson", "hjson", "{zero_optimization: {stage: 7}}", True),
    ("notes.md", "markdown", '{"zero_optimization": {"stage": 7}}', False),
    ("untitled:Untitled-1", "json", '{"zero_optimization": {"stage": 7}}', True),
    ("untitled:Untitled-2", "plaintext", '{"zero_optimization": {"stage": 7}}', False),
    (
        "accelerate.yaml",
        "yaml",
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 7\n",
        True,
    ),
    ("values.yaml", "yaml", "image:\n  tag: 7\n", False),
]


def test_only_configs_are_judged(tmp_path: Path) -> None:
    async def scene(editor: Editor) -> None:
        for name, language, text, judged in DOCUMENTS:
            assert bool(await editor.open(name, text, language)) is judged, name

    play(tmp_path, scene)


WIDE = '{"train_batch_size": 8, "zero_optimization": {"stage": 1}, "_🚀é": "🚀", "gradient_cliping": 1.0}'


@pytest.mark.parametrize("encodings", [None, ["utf-16"], ["utf-8", "utf-16"], ["utf-32"]])
def test_columns_are_counted_as_the_client_does(tmp_path: Path, encodings: list[Any] | None) -> None:
    head = WIDE[: WIDE.index('"gradient_cliping"')]
    width = {"utf-8": len(head.encode()), "utf-32": len(head)}
    expected = width.get(encodings[0] if encodings else "", len(head.encode("utf-16-le")) // 2)

    async def scene(editor: Editor) -> None:
        shown = await editor.open("ds_config.json", "\r\n" + WIDE)
        typo = next(d for d in shown if d.code == "DS102")
        assert typo.range.start == lsp.Position(1, expected)

    play(tmp_path, scene, encodings=encodings)


def test_hover_tells_what_a_key_is(tmp_path: Path) -> None:
    async def scene(editor: Editor) -> None:
        text = CONFIG.replace('"cpu"}', '"cpu", "pin_memory": true}, "overlap_comm": "auto"')
        await editor.open("ds_config.json", text)
        stage = await editor.hover("ds_config.json", '"stage"')
        assert "**zero_optimization.stage**" in stage and "one of 0, 1, 2, 3" in stage
        assert "default `0`" in stage and "DeepSpeed 0.16.4" in stage and "Here: `2` (the file)" in stage
        pin = await editor.hover("ds_config.json", "pin_memory")
        assert "0.19.5: default false became true" in pin  # what other releases do
        assert f"[DS517]({rule_url('DS517')})" in pin
        assert await editor.hover("ds_config.json", "gradient_cliping") == ""
        assert await editor.hover("ds_config.json", "{") == ""

    play(tmp_path, scene, "--deepspeed", "0.16.4")


def test_hover_tells_who_fills_an_auto(tmp_path: Path) -> None:
    async def scene(editor: Editor) -> None:
        await editor.open("ds_config.json", '{"train_batch_size": "auto", "zero_optimization": {"stage": 2}}')
        said = await editor.hover("ds_config.json", '"auto"')
        assert '`"auto"`: HF Trainer fills it from world size' in said and "Here: `?`" in said

    play(tmp_path, scene)


def test_hover_in_an_accelerate_file_is_about_the_key_of_deepspeed(tmp_path: Path) -> None:
    async def scene(editor: Editor) -> None:
        text = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n"
        await editor.open("accelerate.yaml", text, "yaml")
        assert "zero_optimization.stage" in await editor.hover("accelerate.yaml", "zero_stage")

    play(tmp_path, scene)


COMPLETIONS = [
    # name, text with | for the cursor, labels that are offered, labels that are not
    ("a.json", '{"zero_optimization": {"st|"', {"stage", "stage3_prefetch_bucket_size"}, {"fp16", "cpu_offload"}),
    ("a.json", '{\n  "zero_optimization": {\n    "stage": 2,\n    |\n  }\n}', {"overlap_comm", "offload_param"}, {"stage", "zero_optimization"}),
    ("ds_config.json", '{\n  |\n  "train_batch_size": 8\n}', {"zero_optimization", "bf16"}, {"train_batch_size"}),
    ("a.json", '{"zero_optimization": {"stage": |', {"0", "1", "2", "3"}, {"4", "true"}),
    ("a.json", '{"zero_optimization": {"overlap_comm": |}}', {"true", "false"}, {"1"}),
    ("a.json", '{"zero_optimization": {"offload_optimizer": {"device": "|"}}}', {"cpu", "nvme", "none"}, {"auto"}),
    ("a.json", '{"optimizer": {"type": "|"}, "train_batch_size": 8, "fp16": {}}', {"AdamW", "Adam", "Lamb", "SGD"}, {"adamw"}),
    ("a.json", '{"fp16": {}, "optimizer": {"type": "AdamW", "params": {|}}, "train_batch_size": 8}', {"lr", "betas", "weight_decay"}, {"type"}),
    ("a.json", '{"fp16": {}, "scheduler": {"type": "WarmupLR", "params": {"|"}}, "train_batch_size": 8}', {"warmup_num_steps"}, {"cycle_min_lr"}),
    ("a.json", '{"train_batch_size": "auto", "gradient_clipping": |, "fp16": {}}', {"auto"}, {"true"}),
    ("a.hjson", "{\n  // a comment\n  zero_optimization: {\n    over|\n  }\n}", {"overlap_comm"}, set()),
    ("a.hjson", "{\n  zero_optimization: {stage: 2}\n  // over|\n}", set(), {"fp16"}),
    ("train.yaml", "output_dir: x\ndeepspeed:\n  zero_optimization:\n    stage: 2\n    over|\n", {"overlap_comm"}, {"stage"}),
    ("train.yaml", "output_dir: x\ndeepspeed:\n  zero_optimization:\n    offload_param:\n      device: |\n", {"cpu", "nvme"}, set()),
    ("train.yaml", "out|: x\ndeepspeed:\n  zero_optimization:\n    stage: 2\n", set(), {"fp16"}),
    ("accelerate.yaml", "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n  off|\n", {"offload_optimizer_device"}, {"zero_stage"}),
    ("accelerate.yaml", "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: |\n", {"2", "3"}, set()),
]  # fmt: skip


def test_completion(tmp_path: Path) -> None:
    async def scene(editor: Editor) -> None:
        for number, (kind, text, offered, absent) in enumerate(COMPLETIONS):
            name = f"{number}/{kind}"
            before, _, after = text.partition("|")
            await editor.open(name, before + after, "yaml" if name.endswith("yaml") else "json")
            items = await editor.complete(name, before)
            assert offered <= set(items) and not absent & set(items), (text, sorted(items))
            for item in items.values():
                assert isinstance(item.text_edit, lsp.TextEdit) and item.filter_text

    play(tmp_path, scene)


CHOICES = [
    # name, text with | for the cursor, what is chosen, the text then
    ("a.json", '{"zero_optimization": {"st|": 2}}', "stage", '{"zero_optimization": {"stage": 2}}'),
    ("a.json", '{"zero_optimization": {"st|}}', "stage", '{"zero_optimization": {"stage": }}'),
    ("a.json", '{"zero_optimization": {st|}}', "stage", '{"zero_optimization": {"stage": }}'),
    ("a.json", '{"é🚀": 1, "zero_optimization": {"offload_param": {"device": "c|"}}}', "cpu",
     '{"é🚀": 1, "zero_optimization": {"offload_param": {"device": "cpu"}}}'),
    ("a.json", '{"zero_optimization": {"offload_param": {"device": |}}}', "cpu",
     '{"zero_optimization": {"offload_param": {"device": "cpu"}}}'),
    ("a.json", '{"fp16": {"enabled": fa|}, "train_batch_size": 1}', "false",
     '{"fp16": {"enabled": false}, "train_batch_size": 1}'),
    ("t.yaml", "deepspeed:\n  zero_optimization:\n    st|\n", "stage", "deepspeed:\n  zero_optimization:\n    stage: \n"),
    ("t.yaml", "deepspeed:\n  zero_optimization:\n    offload_param:\n      device: n|\n", "nvme",
     "deepspeed:\n  zero_optimization:\n    offload_param:\n      device: nvme\n"),
]  # fmt: skip


def test_what_is_chosen_is_written(tmp_path: Path) -> None:
    async def scene(editor: Editor) -> None:
        for number, (kind, text, label, expected) in enumerate(CHOICES):
            name = f"{number}/{kind}"
            before, _, after = text.partition("|")
            await editor.open(name, before + after, "yaml" if name.endswith("yaml") else "json")
            item = (await editor.complete(name, before))[label]
            assert editor.applied(name, [item.text_edit]) == expected

    play(tmp_path, scene)


def test_keys_are_those_of_the_release(tmp_path: Path) -> None:
    async def scene(editor: Editor) -> None:
        await editor.open("a.json", '{"zero_optimization": {}}')
        assert "zenflow" not in await editor.complete("a.json", '{"zero_optimization": {')

    play(tmp_path, scene, "--deepspeed", "0.14.4")


def test_fixes_and_suppressions_are_offered(tmp_path: Path) -> None:
    async def scene(editor: Editor) -> None:
        text = CONFIG.replace('  "gradient_cliping"', '  "_é🚀": 1, "gradient_cliping"')
        await editor.open("ds_config.json", text)
        offered = await editor.actions("ds_config.json", "gradient_cliping")
        mend = next(action for title, action in offered.items() if "gradient_clipping" in title)
        assert mend.kind == lsp.CodeActionKind.QuickFix and codes(list(mend.diagnostics or [])) == ["DS102"]
        change = mend.edit.document_changes[0]
        assert change.text_document.version == 1
        assert json.loads(editor.applied("ds_config.json", change.edits))["gradient_clipping"] == 1.0
        silence = offered["Suppress DS102 misspelled-key here"]
        silent = editor.applied("ds_config.json", silence.edit.document_changes[0].edits)
        assert json.loads(silent)["dslint"]["ignore"] == {"DS102@gradient_cliping": "TODO: say why"}
        editor.type("ds_config.json", silent)
        assert "DS102" not in codes(await editor.diagnostics(editor.uri("ds_config.json")))
        assert await editor.actions("ds_config.json", '"stage"') == {}

    play(tmp_path, scene)


@pytest.mark.parametrize(
    "name, text, line",
    [
        ("a.hjson", "{\n  train_batch_size: 8\n  gradient_cliping: 1\n  zero_optimization: {stage: 1}\n}", "  // dslint: ignore[DS102] TODO"),
        ("t.yaml", "deepspeed:\n  train_batch_size: 8\n  gradient_cliping: 1\n  zero_optimization:\n    stage: 1\n", "  # dslint: ignore[DS102] TODO"),
    ],
)  # fmt: skip
def test_suppressions_are_comments_where_there_are_comments(
    tmp_path: Path, name: str, text: str, line: str
) -> None:
    async def scene(editor: Editor) -> None:
        assert "DS102" in codes(await editor.open(name, text))
        offered = await editor.actions(name, "gradient_cliping")
        edits = offered["Suppress DS102 misspelled-key here"].edit.document_changes[0].edits
        silent = editor.applied(name, edits)
        assert silent.splitlines()[2].startswith(line)
        editor.type(name, silent)
        assert "DS102" not in codes(await editor.diagnostics(editor.uri(name)))

    play(tmp_path, scene)


def test_all_safe_fixes_are_one_action(tmp_path: Path) -> None:
    async def scene(editor: Editor) -> None:
        text = '{"train_batch_size": 8, "bfloat16": {"enabled": True}, "zero_optimization": {"stage": 2}}'
        await editor.open("ds_config.json", text)
        offered = await editor.actions("ds_config.json", "{", [lsp.CodeActionKind.SourceFixAll])
        (action,) = offered.values()
        fixed = editor.applied("ds_config.json", action.edit.document_changes[0].edits)
        assert '"enabled": true' in fixed
        assert await editor.actions("ds_config.json", "{", [lsp.CodeActionKind.Refactor]) == {}

    play(tmp_path, scene)


def test_settings_of_the_workspace_hold(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.dslint]\nignore = ["DS102"]\n')
    rules = tmp_path / "ci" / "rules"
    rules.mkdir(parents=True)
    (rules / "no-batch.yaml").write_text(
        "code: ACME001\nname: no-batch\nseverity: warning\nphase: run\nsummary: s\nwhy: w\nat: train_batch_size\n"
        "when: has(train_batch_size)\nmessage: our launcher sets the batch size\n"
    )

    async def scene(editor: Editor) -> None:
        shown = codes(await editor.open("ds_config.json", CONFIG))
        assert "DS102" not in shown and "ACME001" not in shown
        (tmp_path / "pyproject.toml").write_text('[tool.dslint]\nrules = ["ci/rules"]\n')
        uri = editor.uri("ds_config.json")
        changed = lsp.FileEvent((tmp_path / "pyproject.toml").as_uri(), lsp.FileChangeType.Changed)
        editor.client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams([changed]))
        shown = codes(await editor.diagnostics(uri))
        assert "DS102" in shown and "ACME001" in shown
        (tmp_path / "pyproject.toml").write_text('[tool.dslint]\nignroe = ["DS102"]\n')
        identifier = lsp.TextDocumentIdentifier(uri)
        editor.client.text_document_did_save(lsp.DidSaveTextDocumentParams(identifier))
        shown = await editor.diagnostics(uri)
        assert shown[0].code == "settings" and "did you mean ignore?" in shown[0].message
        assert "DS102" in codes(shown)

    play(tmp_path, scene)


def test_flags_of_the_server_hold(tmp_path: Path) -> None:
    async def scene(editor: Editor) -> None:
        shown = codes(await editor.open("ds_config.json", CONFIG))
        assert "DS102" in shown and all(code.startswith("DS1") for code in shown)

    play(tmp_path, scene, "--select", "DS1")


def test_without_the_extra_one_line_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "pygls.py").write_text("raise ImportError('not here')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-m", "dslint", "--server"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert (
        done.stderr == "dslint: --server needs the language server protocol: "
        "pip install 'deepspeed-lint[lsp]', in a clone '.[lsp]'\n"
    )


def test_a_plain_run_loads_no_server(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(CONFIG)
    script = "import sys, dslint.cli; dslint.cli.main(['ds.json']); print([m for m in sys.modules if 'pygls' in m or 'lsprotocol' in m or 'dslint.server' in m])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_what_is_asked_of_a_file_that_is_closed_has_no_answer(tmp_path: Path) -> None:
    async def scene(editor: Editor) -> None:
        await editor.open("ds_config.json", CONFIG)
        uri = editor.uri("ds_config.json")
        closed = lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(uri))
        editor.client.text_document_did_close(closed)
        assert await editor.hover("ds_config.json", '"stage"') == ""
        assert await editor.complete("ds_config.json", "{") == {}
        assert await editor.actions("ds_config.json", '"stage"') == {}

    play(tmp_path, scene)


def test_two_slips_for_one_key_are_not_mended_at_once() -> None:
    text = '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_com": true, "overlap_comms": true}}'
    parser = arguments()
    verdict = judge("ds.json", text, parser.parse_args(["--isolated"]), parser.by_flag)
    (action,) = fix_all(verdict, "file:///a", 1, "utf-16")
    assert sum("overlap_comm" in edit.new_text for edit in action.edit.document_changes[0].edits) == 1


def test_what_a_file_says_is_no_markdown(tmp_path: Path) -> None:
    async def scene(editor: Editor) -> None:
        text = '{"zero_optimization": {"stage": 2}, "optimizer": {"type": "`[x](command:evil)`\\n<b>"}}'
        await editor.open("ds_config.json", text)
        said = await editor.hover("ds_config.json", '"type"')
        assert '`` "`[x](command:evil)`\ufffd<b>" `` (the file)' in said

    play(tmp_path, scene)


# Without a session

TEXTS = [
    ("a.json", json.dumps({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}, "gradient_cliping": 1})),
    ("a.hjson", "{\n // c\n zero_optimization: {stage: 3\n overlap_comm: true}\n fp16: {enabled: auto}\n}"),
    ("a.yaml", "output_dir: x\ndeepspeed:\n  zero_optimization:\n    stage: 2\n    offload_param:\n      device: cpu\n"),
    ("b.yaml", "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n  gradient_clipping: 0\n"),
]  # fmt: skip
BITS = [
    '"',
    ":",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\n",
    " ",
    "auto",
    "🚀",
    "#",
    "//",
    "*a",
    "&a ",
    "- ",
    "null",
    "\t",
    "\u2028",
    "\r",
]


@given(st.data())
def test_any_text_can_be_edited_anywhere(data: st.DataObject) -> None:
    """Whatever stands in a document and wherever the cursor is: an answer, and edits within the text."""
    name, text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from(BITS)) + text[at + data.draw(st.integers(0, 6)) :]
    parser = arguments()
    verdict = judge(name, text, parser.parse_args(["--isolated"]), parser.by_flag)
    where = data.draw(st.integers(0, len(text)))
    at = position(verdict.report.document, where, "utf-16")
    hover(verdict, where, "utf-16")
    shown = diagnostics(verdict, "utf-16")
    edits = [item.text_edit for item in completions(verdict, where, "utf-16")]
    offered = actions(verdict, "file:///a", 1, lsp.Range(at, at), "utf-16") + fix_all(
        verdict, "file:///a", 1, "utf-16"
    )
    edits += [edit for action in offered for edit in action.edit.document_changes[0].edits]
    end = position(verdict.report.document, len(text), "utf-16")
    for found in (*shown, *edits):
        assert lsp.Position(0, 0) <= found.range.start <= found.range.end <= end


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_positions_go_there_and_back(encoding: str) -> None:
    document = Document("a.json", 'a\r\né🚀x\r\u2028\u0085\x0b"🚀"\n\nlast', None)
    for where in range(len(document.text) + 1):
        there = position(document, where, encoding)
        assert there.line == document.position(where)[0] - 1
        back = offset(document, there, encoding)
        assert back == where or document.text[back:where] in ("\r", "\n", "\r\n")
    assert offset(document, lsp.Position(99, 0), encoding) == len(document.text)
    assert offset(document, lsp.Position(0, 99), encoding) == 1


@pytest.mark.parametrize(
    "name, text, path, is_key, word",
    [
        ("a.json", "{|", (), True, ""),
        ("a.json", '{"a": {"b": 1}, "c": {"d|', ("c",), True, '"d'),
        ("a.json", '{"a": |', ("a",), False, ""),
        ("a.json", '{"a": "x|y", "b": 1}', ("a",), False, '"xy"'),
        ("a.json", '{"a": [1, |', None, False, ""),
        ("a.json", '{"a": 1} // |', None, False, ""),
        ("a.hjson", "a: {\n b|", ("a",), True, "b"),
        ("a.yaml", "a:\n  b: 1\n  c:\n    |", ("a", "c"), True, ""),
        ("a.yaml", "a:\n  b: |", ("a", "b"), False, ""),
        ("a.yaml", "a:\n  b: 1\n|", (), True, ""),
    ],
)
def test_what_the_cursor_asks_for(name: str, text: str, path: Any, is_key: bool, word: str) -> None:
    where = text.index("|")
    text = text.replace("|", "")
    found = cursor(read_bytes(text.encode(), name), where)
    if path is None:
        assert found is None
    else:
        assert found is not None and (found.path, found.is_key) == (path, is_key)
        assert text[found.start : found.end] == word
