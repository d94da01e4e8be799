"""Readers: raw bytes to text, and text to a :class:`~dslint.document.Document`."""

from __future__ import annotations

import re

from ..document import Document, Problem, Span
from .json_reader import read_json

__all__ = ["decode", "read_bytes", "read_json"]

# UTF-32 before UTF-16: the little-endian mark of UTF-32 begins with that of UTF-16.
WIDE_BOMS = (
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\xfe\xff", "utf-16"),
    (b"\xff\xfe", "utf-16"),
)
_TELLING = re.compile(r'"(?:deepspeed_config|distributed_type|deepspeed|output_dir)"\s*:')
_ARGUMENTS = {"output_dir", "base_model", "model_name_or_path", "per_device_train_batch_size"}
"""Keys at the top of a file of arguments: TrainingArguments, or a framework's."""

SAVE_AS_UTF8 = "save the file as UTF-8, for example with `iconv -f {} -t UTF-8`"


def read_bytes(raw: bytes, name: str) -> Document:
    """A config from the bytes of its file; bytes that are no text end in one Problem and no root.

    YAML by its suffix, JSON otherwise; accelerate's own files and arguments of a run by their keys.
    """
    text, problems = decode(raw)
    if problems:
        return Document(name, text, None, problems)
    if name.lower().endswith((".yaml", ".yml")):
        from .yaml_reader import read_yaml

        return _recognized(read_yaml(text, name))
    document = read_json(text, name)
    return _recognized(document) if _TELLING.search(text) else document


def _recognized(document: Document) -> Document:
    """The document, told what kind of file it is by the keys at its top."""
    from .accelerate import as_accelerate, is_accelerate

    if is_accelerate(document.root):
        return as_accelerate(document)
    members = (
        {} if document.root is None else {member.key: member.node.kind for member in document.root.members}
    )
    if "zero_optimization" not in members and "train_batch_size" not in members:
        if members.get("deepspeed") == "object":
            document.base = ("deepspeed",)
        elif _ARGUMENTS & set(members):
            document.format = "arguments"
    return document


def decode(raw: bytes) -> tuple[str, list[Problem]]:
    """The text of a file, and why DeepSpeed cannot read it as UTF-8, if so.

    Nothing is dropped or translated: a byte order mark stays as U+FEFF and line ends stay as written,
    so that offsets into the text are offsets into the file. With a Problem the text is only good for
    showing what the Problem points at.
    """
    failed = None
    try:
        text = raw.decode("utf-8")
        if "\0" not in text:
            return text, []
    except UnicodeDecodeError as error:
        failed = error
    wide = _wide_encoding(raw)
    if wide:
        return raw.decode(wide, "replace"), [_not_utf8("utf16", Span(0, 1), _wide_message(wide), wide)]
    return (text, []) if failed is None else _undecodable(raw, failed)


def _wide_encoding(raw: bytes) -> str | None:
    """UTF-16 or UTF-32 by its byte order mark, or by the zero bytes of a leading ASCII letter."""
    for bom, encoding in WIDE_BOMS:
        if raw.startswith(bom):
            return encoding
    zeros = tuple(byte == 0 for byte in raw[:4])
    if len(raw) % 4 == 0 and zeros in ((False, True, True, True), (True, True, True, False)):
        return "utf-32-be" if zeros[0] else "utf-32-le"
    if len(raw) % 2 == 0 and zeros in ((False, True, False, True), (True, False, True, False)):
        return "utf-16-be" if zeros[0] else "utf-16-le"
    return None


def _wide_message(encoding: str) -> str:
    return f"the file is {encoding.upper()}; DeepSpeed reads UTF-8 and fails on it"


def _not_utf8(rule: str, span: Span, message: str, encoding: str) -> Problem:
    return Problem(rule, span, message, cure=SAVE_AS_UTF8.format(encoding.upper()))


def _undecodable(raw: bytes, error: UnicodeDecodeError) -> tuple[str, list[Problem]]:
    """Bytes that are not UTF-8: a binary file, or text in the encoding of some other time."""
    text = raw.decode("utf-8", "replace")
    offset = len(raw[: error.start].decode("utf-8"))
    span = Span(offset, offset + 1)
    byte = f"byte 0x{raw[error.start]:02x}"
    if b"\x00" in raw:
        return text, [
            Problem(
                "binary-file",
                span,
                f"a binary file ({byte} is no text); DeepSpeed reads its config as UTF-8 and fails on it",
                cure="name the config file, not a binary file such as a checkpoint or an archive",
            )
        ]
    message = f"{byte} is not UTF-8; DeepSpeed reads its config as UTF-8 and fails on it"
    return text, [_not_utf8("not-utf8", span, message, "latin1")]
