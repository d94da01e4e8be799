"""Rule files: YAML as people write it to the compiled form that :mod:`dslint.rules` evaluates.

`python -m dslint.rulefile` compiles rules/ into dslint/rules.json and dslint/conditions.py (what every run
loads) and dslint/rule_docs.json (what only --explain needs). A test keeps them in step with rules/.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent

from dslint.examples import fault
from dslint.expression import MAX_LENGTH, ExpressionError, Tree, parse
from dslint.finding import PHASES, SEVERITIES
from dslint.releases import bounds
from dslint.settings import TRAINERS
from dslint.suggest import nearest
from dslint.translate import module

HERE = Path(__file__).parent
SOURCES = HERE.parent / "rules"

REQUIRED = ("code", "name", "severity", "phase", "summary", "why")
SPOKEN = ("message", "cure", "fix")
OPTIONAL = ("check", "deepspeed", "trainers", "when", "at", "each", *SPOKEN, "source", "examples")
DOCS = ("why", "source", "examples")
"""Keys that stay out of rules.json, for they only matter to --explain and to tests."""

SUFFIXES = (".yaml", ".yml")
MAX_BYTES = 16_000
MAX_DEPTH = 40
MAX_VALUES = 1_000
MAX_LIST = 100
"""What a rule file may hold; the longest of rules/ has a tenth of it. Whoever opens a pull request writes
such files, so what is beyond must not cost the time of reading it."""

_NESTED = re.compile(rf"(?:[-?]\s+){{{MAX_DEPTH}}}")
_CODE = re.compile(r"[A-Z]{2,8}[0-9]{3}\Z")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
_PLACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_0-9][A-Za-z0-9_]*)*\Z")


class RuleFileError(ValueError):
    """A rule file that cannot be used; the message, one line, names the file, the key and the cure."""

    def __init__(self, message: str) -> None:
        line = " ".join(message.split())
        super().__init__(line if len(line) <= 400 else f"{line[:300]} ... {line[-90:]}")


class _Bounded(Composer):
    """Makes the nodes of a rule file, of which there are few and none stands twice."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.values = self.level = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """One value with all below it. Raises RuleFileError beyond what a rule file may hold."""
        event = self.parser.peek_event()
        if isinstance(event, AliasEvent) or event.anchor is not None:
            raise RuleFileError("YAML anchors and aliases (&name, *name) are not allowed in a rule file")
        self.values, self.level = self.values + 1, self.level + 1
        if self.values > MAX_VALUES or self.level > MAX_DEPTH:
            raise RuleFileError(f"more than {MAX_VALUES:,} values, or nested deeper than {MAX_DEPTH}")
        node = super().compose_node(parent, index)
        self.level -= 1
        return node


def read(path: Path) -> dict[str, Any]:
    """One rule file as plain data, every value as YAML has it. Raises RuleFileError."""
    try:
        if not path.is_file():
            raise RuleFileError(f"{path}: not a file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise RuleFileError(f"{path}: {error.strerror}") from None
    return data_of(raw, str(path))


def data_of(raw: bytes, origin: str) -> dict[str, Any]:
    """The bytes of a rule file as plain data. Raises RuleFileError, which names `origin`."""
    if len(raw) > MAX_BYTES:
        raise RuleFileError(f"{origin}: larger than {MAX_BYTES:,} bytes; a rule file holds one rule")
    try:
        text = raw.decode("utf-8")
        _shallow(text)
        yaml = YAML(typ="safe", pure=True)
        yaml.Composer = _Bounded
        data = yaml.load(text)
        json.dumps(data)
    except RuleFileError as error:
        raise RuleFileError(f"{origin}: {error}") from None
    except (YAMLError, RecursionError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise RuleFileError(f"{origin}: not readable as YAML: {_first_words(error)}") from None
    if not isinstance(data, dict):
        raise RuleFileError(f"{origin}: a rule file is a mapping that begins with code: and name:")
    return data


def _shallow(text: str) -> None:
    """Refuses deep nesting by the look of it: the YAML scanner takes minutes for a line of brackets."""
    depth = 0
    for char in text:
        if char in "[{":
            depth += 1
        elif char in "]}":
            depth = max(0, depth - 1)
        if depth > MAX_DEPTH:
            break
    if depth > MAX_DEPTH or _NESTED.search(text):
        raise RuleFileError(f"nested deeper than {MAX_DEPTH}")


def _first_words(error: Exception) -> str:
    """What a YAML error says, with the place."""
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or str(error) or type(error).__name__
    where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
    return f"{said}{where}"


def compile_rule(data: dict[str, Any], origin: str) -> dict[str, Any]:
    """The compiled form of a rule. Raises RuleFileError, which names `origin`."""

    def refuse(message: str) -> RuleFileError:
        return RuleFileError(f"{origin}: {message}")

    for key in data:
        if key not in REQUIRED + OPTIONAL:
            near = nearest(str(key)[:40], REQUIRED + OPTIONAL)
            known = f"did you mean {near}?" if near else f"a rule has {', '.join(REQUIRED + OPTIONAL)}"
            raise refuse(f"unknown key {str(key)!r}; {known}")
    for key in REQUIRED:
        if not isinstance(data.get(key), str) or not data[key].strip():
            raise refuse(f"{key}: must be given, as text")
    checks = (
        ("code", _CODE.match(data["code"]), "two to eight capitals and three digits, such as DS401"),
        ("name", _NAME.match(data["name"]), "kebab-case, such as offload-param-needs-stage-3"),
        ("severity", data["severity"] in SEVERITIES, f"one of {', '.join(SEVERITIES)}"),
        ("phase", data["phase"] in PHASES, f"one of {', '.join(PHASES)}"),
    )
    for key, good, expected in checks:
        if not good:
            raise refuse(f"{key}: {data[key]!r} is not {expected}")
    if ("when" in data) == ("check" in data):
        raise refuse("give either when: (a condition) or check: (who emits it)")
    compiled: dict[str, Any] = {key: data[key].strip() for key in REQUIRED}
    try:
        bounds(str(data.get("deepspeed", "")))
    except ValueError as error:
        raise refuse(f"deepspeed: {error}") from None
    compiled["deepspeed"] = str(data.get("deepspeed", ""))
    compiled["trainers"] = _texts(data, "trainers", refuse)
    for trainer in compiled["trainers"]:
        if trainer not in TRAINERS:
            raise refuse(f"trainers: {trainer!r} is not one of {', '.join(TRAINERS)}")
    compiled["each"] = _texts(data, "each", refuse)
    compiled["source"] = _texts(data, "source", refuse)
    compiled["at"] = str(data.get("at", ""))
    compiled["check"] = str(data.get("check", ""))
    for place in (*compiled["each"], *([compiled["at"]] if compiled["at"] else [])):
        if not _PLACE.match(place):
            raise refuse(f"{place!r} is not a dotted path")
    if "when" in data:
        if not compiled["each"] and "at" not in data:
            raise refuse("give at: (where the finding stands) or each: (several places)")
        compiled["when"] = _tree(data, "when", refuse)
        if not isinstance(data.get("message"), str):
            raise refuse("message: must be given, as text")
    for key in ("message", "cure"):
        compiled[key] = template(str(data.get(key, "")).strip(), f"{origin}: {key}")
    if "fix" in data:
        if "when" not in data:
            raise refuse("fix: only a rule with when: has one; what a check finds, the check mends")
        compiled["fix"] = _fix(data["fix"], f"{origin}: fix")
    examples = data.get("examples", [])
    if not isinstance(examples, list) or len(examples) > MAX_LIST:
        raise refuse(f"examples: a list of up to {MAX_LIST} mappings with bad: or good:")
    for number, example in enumerate(examples, 1):
        wrong = fault(example)
        if wrong:
            raise refuse(f"examples: the {number}. {wrong}")
    compiled["examples"] = examples
    return {key: value for key, value in compiled.items() if value not in ("", [], ())}


def _texts(data: dict[str, Any], key: str, refuse: Any) -> list[str]:
    value = data.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise refuse(f"{key}: a list of texts")
    if len(value) > MAX_LIST:
        raise refuse(f"{key}: more than {MAX_LIST} entries")
    return value


def _tree(data: dict[str, Any], key: str, refuse: Any) -> Tree:
    try:
        return parse(str(data[key]))
    except ExpressionError as error:
        raise refuse(f"{key}: {error}") from None


def template(text: str, origin: str) -> Tree:
    """A message as a list of texts and expression trees: "stage {zero_optimization.stage}".

    Doubled braces stand for themselves. Raises RuleFileError.
    """
    if len(text) > MAX_LENGTH:
        raise RuleFileError(f"{origin}: longer than {MAX_LENGTH:,} characters")
    parts: Tree = []
    for piece in re.split(r"(\{\{|\}\}|\{[^{}]*\})", text):
        if piece in ("{{", "}}"):
            parts.append(piece[0])
        elif piece.startswith("{"):
            try:
                parts.append(parse(piece[1:-1]))
            except ExpressionError as error:
                raise RuleFileError(f"{origin}: {piece}: {error}") from None
        elif "{" in piece or "}" in piece:
            raise RuleFileError(f"{origin}: a single brace; write {{{{ or }}}} for the character")
        elif piece:
            parts.append(piece)
    return parts


_CHANGES = ("set", "remove", "rename", "move")


def _fix(data: Any, origin: str) -> dict[str, Any]:
    """The compiled form of what mends a finding. Raises RuleFileError."""
    known = (*_CHANGES, "safe", "title")
    if not isinstance(data, dict) or not set(data) & set(_CHANGES) or set(data) - set(known):
        example = "{set: {zero_optimization.stage: 3}}"
        raise RuleFileError(f"{origin}: a mapping of {', '.join(known)}, such as {example}")
    if not isinstance(data.get("safe", False), bool):
        raise RuleFileError(f"{origin}: safe: true or false")
    compiled: dict[str, Any] = {"safe": data.get("safe", False)}
    if "title" in data:
        compiled["title"] = template(str(data["title"]), f"{origin}: title")
    for kind in _CHANGES:
        if kind not in data:
            continue
        given = data[kind]
        if kind == "remove":
            if not isinstance(given, list):
                raise RuleFileError(f"{origin}: remove: a list of dotted paths")
            compiled[kind] = [_fix_path(path, origin) for path in given]
        elif not isinstance(given, dict):
            raise RuleFileError(f"{origin}: {kind}: a mapping from dotted paths")
        else:
            compiled[kind] = [[_fix_path(path, origin), _fix_value(v, origin)] for path, v in given.items()]
    return compiled


def _fix_path(path: Any, origin: str) -> str:
    if not isinstance(path, str) or not _PLACE.match(path):
        raise RuleFileError(f"{origin}: {path!r} is not a dotted path")
    return path


def _fix_value(value: Any, origin: str) -> Tree:
    """A value as an expression tree: "{zero_optimization.stage}" is one, all else stands for itself."""
    if isinstance(value, dict):
        return ["object", *([str(key), _fix_value(below, origin)] for key, below in value.items())]
    if not isinstance(value, str) or not ("{" in value or "}" in value):
        return ["const", value]
    parts = template(value, origin)
    return parts[0] if len(parts) == 1 and isinstance(parts[0], list) else ["text", *parts]


def compile_folder(folder: Path) -> list[dict[str, Any]]:
    """All rules of a folder, by code. Raises RuleFileError, also for a code or name used twice."""
    rules: list[dict[str, Any]] = []
    seen: dict[str, Path] = {}
    for path in sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES):
        rule = compile_rule(read(path), path.name)
        for key in (rule["code"], rule["name"]):
            if key in seen:
                raise RuleFileError(f"{path.name}: {key} is already taken by {seen[key].name}")
            seen[key] = path
        rules.append(rule)
    return sorted(rules, key=lambda rule: str(rule["code"]))


def outputs(rules: list[dict[str, Any]]) -> dict[str, str]:
    """The texts of the compiled files, by file name."""
    run = [{key: value for key, value in rule.items() if key not in DOCS} for rule in rules]
    docs = {rule["code"]: {key: rule[key] for key in DOCS if key in rule} for rule in rules}
    lines = ",\n".join(json.dumps(rule, ensure_ascii=False, separators=(",", ":")) for rule in run)
    return {
        "rules.json": f"[\n{lines}\n]\n",
        "conditions.py": module((rule["code"], rule["when"]) for rule in run if "when" in rule),
        "rule_docs.json": json.dumps(docs, ensure_ascii=False, indent=1) + "\n",
    }


def main() -> int:
    """Compiles rules/ into the package."""
    try:
        rules = compile_folder(SOURCES)
    except RuleFileError as error:
        print(f"dslint: {error}", file=sys.stderr)
        return 2
    for name, text in outputs(rules).items():
        (HERE / name).write_text(text, encoding="utf-8", newline="\n")
    print(f"{len(rules)} rules compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
