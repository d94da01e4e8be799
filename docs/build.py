"""Builds the site: the pages of docs/, and those made of rules/, schemas/ and the program itself.

    python docs/build.py [FOLDER]        into FOLDER, build/site by default

Needs the extra docs and no network. What dslint prints on these pages is what it printed during this build.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from dslint import schema as schemas  # noqa: E402
from dslint.arguments import arguments  # noqa: E402
from dslint.examples import judged  # noqa: E402
from dslint.explain import DOCS, key, paths_of  # noqa: E402
from dslint.facts import REGISTRY  # noqa: E402
from dslint.history import known_paths  # noqa: E402
from dslint.links import SITE  # noqa: E402
from dslint.markdown import about_key, plain  # noqa: E402
from dslint.report.text import render  # noqa: E402
from dslint.report.words import PHASES  # noqa: E402
from dslint.rules import Rule, load  # noqa: E402
from dslint.values import schema_at  # noqa: E402

FAMILIES = {
    "DS0": "Reading the file",
    "DS1": "Keys and types",
    "DS2": "Batch and GPUs",
    "DS3": "Precision",
    "DS4": "ZeRO",
    "DS5": "Offload",
    "DS6": "Communication and buckets",
    "DS7": "Memory fit and stage choice",
    "DS8": "Optimizer and scheduler",
    "DS9": "Trainers",
}

ORDER = (
    *(
        "index.md",
        "settings.md",
        "trainers.md",
        "memory.md",
        "verify.md",
        "fixing.md",
        "ci.md",
    ),
    *("editors.md", "add-a-rule.md", "rules/index.md", "keys/index.md", "facts.md", "claims.md"),
    *("command-line.md", "development.md", "changelog.md"),
)
"""The pages in the navigation; others of docs/ follow."""

SAMPLE = (ROOT / "tests" / "samples" / "ds_config.json").read_text(encoding="utf-8")
ZERO2 = """{
  "train_micro_batch_size_per_gpu": 4,
  "bf16": {"enabled": true},
  "gradient_clipping": 1.0,
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
  "zero_optimization": {"stage": 2}
}
"""

PICTURES = {
    "lint": "--gpus 4 --deepspeed 0.19.8 ds_config.json",
    "estimate": "--estimate --model llama-7b --gpus 8 --gpu-type a100-80gb --deepspeed 0.19.8 zero2.json",
    "explain": "--explain zero_optimization.offload_param.pin_memory --deepspeed 0.19.8",
}
"""Pictures of real output by name, and what dslint is called with for each."""


def run(flags: str) -> str:
    """What dslint prints in colour, where the two files above are."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ds_config.json").write_text(SAMPLE, encoding="utf-8")
        Path(folder, "zero2.json").write_text(ZERO2, encoding="utf-8")
        command = [sys.executable, "-m", "dslint", *flags.split(), "--color", "always"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "GITHUB_ACTIONS": ""}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    if done.returncode == 2 or done.stderr:
        raise RuntimeError(f"dslint {flags}: {done.stderr.decode()}")
    return done.stdout.decode("utf-8")


def picture(name: str) -> str:
    """A run of dslint as it looks on a terminal, as SVG without anything from the web."""
    from rich.console import Console
    from rich.text import Text

    command = f"dslint {PICTURES[name]}"
    text = Text.from_ansi(f"$ {command}\n{run(PICTURES[name])}")
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=110, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(text)
        svg = console.export_svg(title=command, unique_id=name)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")


# Rules


RULES = """\
An **error** is a fact, measured against DeepSpeed itself; a **warning** runs, but not as meant; an **info**
is advice. `dslint --explain CODE` shows each page in the terminal."""

KEYS = """\
What DeepSpeed {newest} and the releases before it, from {oldest} on, read in a config. Made from DeepSpeed
itself; `dslint --explain KEY` shows each in the terminal."""


def rules_index(rules: list[Rule]) -> str:
    """All rules by family."""
    lines = [f"# Rules\n\n{len(rules)} rules. {RULES}\n"]
    for family, title in FAMILIES.items():
        lines += [f"## {family}: {title}", "", "| code | name | severity | |", "|---|---|---|---|"]
        lines += [
            f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.severity} | {plain(rule.summary)} |"
            for rule in rules
            if rule.code.startswith(family)
        ]
        lines.append("")
    return "\n".join(lines)


def rule_page(rule: Rule, docs: dict[str, Any], rules: list[Rule], keys: dict[str, str]) -> str:
    """What a rule means, when it speaks, what it says, what to do."""
    lines = [f"# {rule.code} {rule.name}", "", f"{plain(rule.summary[0].upper() + rule.summary[1:])}.", ""]
    facts = [f"**{rule.severity}**", PHASES[rule.phase]]
    facts.append(f"DeepSpeed {plain(rule.deepspeed)}" if rule.deepspeed else "every DeepSpeed release")
    facts.append(f"trainers {', '.join(rule.trainers)}" if rule.trainers else "every trainer")
    if rule.fix is not None:
        facts.append("`--fix` mends it" if rule.fix.get("safe") else "`--unsafe-fixes` mends it")
    lines += [" · ".join(facts), "", *docs["why"].splitlines(), ""]
    bad = [example for example in docs.get("examples", []) if "bad" in example]
    good = next((example for example in docs.get("examples", []) if "good" in example), None)
    if bad:
        lines += ["## What it speaks about", "", *shown(bad[0], bad[0]["bad"]), *said(rule, bad[0], rules)]
    if good is not None:
        lines += ["## What it leaves alone", "", *shown(good, good["good"])]
    about = [place for place in dict.fromkeys((rule.at, *rule.each)) if place in keys]
    if about:
        lines += ["## Keys", "", *(f"- [{place}](../{keys[place]})" for place in about), ""]
    if docs.get("source"):
        lines += ["## Established by", "", *(f"- {plain(source)}" for source in docs["source"]), ""]
    return "\n".join(lines)


def shown(example: dict[str, Any], config: Any) -> Iterator[str]:
    """An example config as a block, with what it is judged for."""
    text = config if isinstance(config, str) else json.dumps(config, indent=2, ensure_ascii=False)
    language = "yaml" if example.get("format") in ("yaml", "accelerate") else "json"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    yield from (f"{fence}{language}", *text.rstrip("\n").split("\n"), fence, "")
    given = [f"`--{name} {example[name]}`" for name in ("deepspeed", "trainer", "gpus") if name in example]
    for name in ("args", "launcher", "workload"):
        given += [f"`{name}: {json.dumps(example[name], ensure_ascii=False)}`"] if name in example else []
    if given:
        yield from ("with " + ", ".join(given), "")


def said(rule: Rule, example: dict[str, Any], rules: list[Rule]) -> Iterator[str]:
    """What dslint says about an example, of this rule alone."""
    report = judged(example, rules)
    report.findings = [finding for finding in report.findings if finding.code == rule.code]
    text = render([report]).rpartition("\n\n")[0]
    yield from ("```text", *text.split("\n"), "```", "")


# Keys


def key_pages(rules: list[Rule]) -> tuple[dict[str, str], dict[str, str]]:
    """The pages about keys by file name, and of each path where it is described."""
    newest = schemas.newest()
    schema = schemas.load(newest)
    known = paths_of(schema)
    by_section: dict[str, list[str]] = {}
    for path in dict.fromkeys((*known, *known_paths())):
        by_section.setdefault(path.split(".")[0], []).append(path)
    sections = {s: paths for s, paths in by_section.items() if len(paths) > 1}
    single = [s for s, paths in by_section.items() if len(paths) == 1]
    places = {path: f"keys/index.md#{path}" for path in single}
    places |= {path: f"keys/{s}.md#{path}" for s, paths in sections.items() for path in paths}
    pages = {
        f"keys/{section}.md": "\n".join([f"# {section}", "", *described(paths, rules, newest)])
        for section, paths in sections.items()
    }
    listed = [f"- [{s}]({s}.md): {plain(first_sentence(schema, s))}" for s in sorted(sections)]
    head = KEYS.format(newest=newest, oldest=next(iter(schemas.index())))
    top = described(sorted(single), rules, newest)
    pages["keys/index.md"] = "\n".join(
        ["# Keys", "", head, "", "## Sections", "", *listed, "", "## At the top", "", *top]
    )
    return pages, places


def described(paths: list[str], rules: list[Rule], release: str) -> Iterator[str]:
    """Keys, each under a heading with its path as anchor."""
    for path in paths:
        yield from (f"### {plain(path)} {{ #{path} }}", "")
        yield from (
            about_key(key(path, rules, release), lambda rule: f"[{rule.code}](../rules/{rule.code}.md)"),
            "",
        )


def first_sentence(schema: schemas.Schema, section: str) -> str:
    """The first sentence of a section's description."""
    text = schema_at(schema, (section,)).get("description", "a section of other releases")
    return str(text).split(". ")[0].rstrip(".")


# Other pages


def facts_page() -> str:
    """The facts that rules may ask for, by the module that computes them."""
    modules: dict[str, list[str]] = {}
    for name, compute in sorted(REGISTRY.items()):
        about = " ".join((compute.__doc__ or "").split())
        modules.setdefault(compute.__module__, []).append(f"| `facts.{name}` | {plain(about)} |")
    lines = ["# Facts", "", "What a rule may ask about a config besides the values in it; see",
             "[Add a rule](add-a-rule.md).", ""]  # fmt: skip
    for module, rows in sorted(modules.items()):
        about = (sys.modules[module].__doc__ or "").strip().splitlines()[0]
        lines += [
            f"## {module.rsplit('.', 1)[1]}",
            "",
            plain(about),
            "",
            "| fact | |",
            "|---|---|",
            *rows,
            "",
        ]
    return "\n".join(lines)


def command_line_page() -> str:
    """The flags, as --help has them."""
    os.environ["COLUMNS"] = "100"
    return f"# Command line\n\n```text\n{arguments().format_help()}```\n"


def generated() -> dict[str, str]:
    """Every page and picture that is made, by its path in the site's source."""
    rules = load()
    docs = json.loads(DOCS.read_text(encoding="utf-8"))
    pages, places = key_pages(rules)
    pages["rules/index.md"] = rules_index(rules)
    pages |= {f"rules/{r.code}.md": rule_page(r, docs[r.code], rules, places) for r in rules}
    pages["facts.md"] = facts_page()
    pages["command-line.md"] = command_line_page()
    pages["changelog.md"] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    pages |= {f"pictures/{name}.svg": picture(name) for name in PICTURES}
    return pages


def rewritten(markdown: str, codes: dict[str, str]) -> str:
    """A page whose links into the repository lead to what the site has instead, or else are no links."""
    markdown = re.sub(
        r"\]\(\.\./rules/([a-z0-9-]+)\.yaml\)", lambda m: f"](rules/{codes[m[1]]}.md)", markdown
    )
    markdown = markdown.replace("](../dslint/facts/)", "](facts.md)").replace(
        "](../rules/)", "](rules/index.md)"
    )
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", markdown)


# The build


def source(folder: Path) -> Path:
    """Writes all that the site is made of into a folder; returns its configuration file."""
    codes = {rule.name: rule.code for rule in load()}
    pages = {
        path.name: rewritten(path.read_text(encoding="utf-8"), codes) for path in (ROOT / "docs").glob("*.md")
    }
    pages |= generated()
    for name, text in pages.items():
        path = folder / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    tops = [name for name in pages if "/" not in name and name.endswith(".md")]
    nav = [name for name in ORDER if name in pages] + sorted(set(tops) - set(ORDER))
    settings = folder / "mkdocs.yml"
    settings.write_text(
        (ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8")
        + f"site_url: {SITE}\nsite_dir: site\nnav:\n"
        + "".join(f"  - {name}\n" for name in nav),
        encoding="utf-8",
    )
    return settings


def main() -> int:
    """Builds the site; a link that leads nowhere is an error."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").absolute()
    with tempfile.TemporaryDirectory() as folder:
        settings = source(Path(folder))
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(settings)]
        code = subprocess.run(command, cwd=folder, check=False).returncode
        if code == 0:
            shutil.copytree(Path(folder, "site"), target, dirs_exist_ok=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
