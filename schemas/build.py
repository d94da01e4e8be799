"""Makes the schemas of this folder from DeepSpeed itself.

    python schemas/build.py 0.19.9            add or remake one release (or several)
    python schemas/build.py --all             remake every known release
    python schemas/build.py --check           exit 1 when the committed schema of the installed release,
                                              or of the one named, is not what this makes

Needs torch (a CPU build will do), pip, setuptools, wheel and what the newest DeepSpeed needs at
import. A release that is not installed is installed into a cache folder (--cache), without its
dependencies; those before 0.14.4 get pydantic 1 beside them.

Each distinct schema is stored once, as deepspeed-<last release that has it>.json; index.json maps
every release to its file, history.json tells what changed when.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import history
import releases
import static_keys

HERE = Path(__file__).resolve().parent
Schema = dict[str, Any]


def text_of(schema: Any) -> str:
    """The bytes of a schema file."""
    return json.dumps(schema, indent=1, sort_keys=False, ensure_ascii=False) + "\n"


def load() -> dict[str, Schema]:
    """The stored schemas, by release."""
    index = HERE / "index.json"
    if not index.exists():
        return {}
    names = json.loads(index.read_text(encoding="utf-8"))
    files = {name: json.loads((HERE / name).read_text(encoding="utf-8")) for name in set(names.values())}
    return {release: files[name] for release, name in names.items()}


def store(schemas: dict[str, Schema]) -> None:
    """Write the schemas, the index and the history; remove files that nothing names."""
    order = sorted(schemas, key=releases.version)
    last: dict[str, str] = {}
    for release in order:
        last[text_of(schemas[release])] = release
    names = {release: f"deepspeed-{last[text_of(schemas[release])]}.json" for release in order}
    for text, release in last.items():
        (HERE / f"deepspeed-{release}.json").write_text(text, encoding="utf-8")
    for stale in HERE.glob("deepspeed-*.json"):
        if stale.name not in names.values():
            stale.unlink()
    (HERE / "index.json").write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")
    story = history.make({release: schemas[release] for release in order})
    (HERE / "history.json").write_text(history.dump(story), encoding="utf-8")


def check(release: str, made: Schema, stored: dict[str, Schema]) -> int:
    """Compare a fresh schema with the committed one."""
    if release not in stored:
        print(f"no committed schema for DeepSpeed {release}: run python schemas/build.py {release}")
        return 1
    if text_of(made) == text_of(stored[release]):
        print(f"DeepSpeed {release}: the committed schema is what build.py makes")
        return 0
    print(f"DeepSpeed {release}: the committed schema differs from what build.py makes:")
    for line in history.differences(stored[release], made)[:40]:
        print("  " + line)
    return 1


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Make the schemas of this folder from DeepSpeed itself.")
    parser.add_argument("release", nargs="*", help="releases to add or remake")
    parser.add_argument("--all", action="store_true", help="every known release")
    parser.add_argument(
        "--check",
        metavar="RELEASE",
        nargs="?",
        const=releases.installed() or "",
        help="compare only, the installed release where none is named; exit 1 on a difference",
    )
    parser.add_argument(
        "--history", action="store_true", help="only remake history.json from the stored schemas"
    )
    parser.add_argument(
        "--cache", type=Path, default=releases.DEFAULT_CACHE, help="where releases are installed"
    )
    parser.add_argument("--quick", action="store_true", help="keep a key's answers where a sample agrees")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what the reading noticed")
    options = parser.parse_args(arguments)
    stored = load()
    if options.history:
        store(stored)
        return 0
    if options.check == "":
        parser.error("--check: no DeepSpeed is installed; name a release")
    if options.check:
        answer = releases.ask(options.check, options.cache)
        return check(options.check, answer["schema"], stored)
    wanted = list(options.release)
    if options.all:
        wanted = sorted({*releases.RELEASES, *stored, *wanted}, key=releases.version)
    if not wanted:
        parser.error("name a release, or --all, or --check RELEASE")
    failed = []
    known: dict[str, Schema] = {}
    results: dict[str, Any] = {}
    scratch = Path(tempfile.mkdtemp()) / "known.json"
    for release in wanted:
        try:
            code = static_keys.fingerprint(releases.root(release, options.cache))
            given = (
                {"schema": known[code]} if code in known else {"results": results if options.quick else {}}
            )
            scratch.write_text(json.dumps(given, ensure_ascii=False), encoding="utf-8")
            answer = releases.ask(release, options.cache, str(scratch))
            known[code] = answer["schema"]
            results = answer.get("results", results)
        except releases.Failed as error:
            print(f"{release}: {error}", file=sys.stderr)
            failed.append(release)
            continue
        stored[release] = answer["schema"]
        store(stored)
        print(f"{release}: {answer['calls']} configs asked, {len(answer['notes'])} notes", flush=True)
        if options.verbose:
            for note in answer["notes"]:
                print(f"    {note}")
    shutil.rmtree(scratch.parent)
    if failed:
        print("not made: " + ", ".join(failed), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
