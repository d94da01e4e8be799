"""What holds for one file: flags before settings, settings before defaults.

Each file has the settings nearest to it (as with ruff: they are not merged with those further up); where
there are none above it, and for the run as a whole, those nearest to the current directory hold.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from dslint import schema as schemas
from dslint.errors import UsageError
from dslint.installed import installed_release
from dslint.lint import Options, chosen
from dslint.memory import arguments as fitting
from dslint.releases import holds, number
from dslint.repository import asked_release
from dslint.rules import Rule, load, no_such_rule
from dslint.settings import KEYS, Settings, nearest, read

DEFAULTS: dict[str, Any] = {"fail_on": "error", "select": (), "ignore": (), "severity": {}, "rules": ()}


class Plan(NamedTuple):
    """How one file is judged. `args` are the flags, filled from settings; `origins` says from where."""

    args: argparse.Namespace
    options: Options
    releases: list[str]
    rules: list[Rule]
    origins: Mapping[str, str]


class Settling:
    """Flags and settings files to plans. Reads each settings file once."""

    def __init__(self, args: argparse.Namespace, actions: Mapping[str, argparse.Action]) -> None:
        self.flags = args
        self.actions = actions
        self._above: dict[str, Settings | None] = {}
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._of: dict[str, Plan] = {}
        self._rules: dict[tuple[str, ...], list[Rule]] = {}
        self._given: Settings | None = None
        if args.config is not None:
            if args.isolated:
                raise UsageError("give one of --config and --isolated")
            self._given = read(args.config, os.getcwd())
            if self._given is None:
                raise UsageError(f"--config {args.config}: no settings file")
        self.here = self._nearest(None)

    def _nearest(self, folder: str | None) -> Settings | None:
        """The settings above a folder; None: above the current directory."""
        if self._given is not None or self.flags.isolated:
            return self._given
        try:
            folder = os.getcwd() if folder is None else os.path.abspath(folder)
        except FileNotFoundError:  # the current directory is gone
            return None
        return nearest(folder, self._above)

    def settings_for(self, name: str) -> Settings | None:
        """The settings that hold for a file."""
        folder = name if os.path.isdir(name) else os.path.dirname(name)
        return (self._nearest(folder) if folder else None) or self.here

    def leaves_out(self, name: str) -> bool:
        """Whether the settings exclude a file that was found by search."""
        settings = self.settings_for(name)
        return settings is not None and settings.excludes(name)

    def run(self) -> Plan:
        """The plan of what is not about one file."""
        return self._plan(self.here, ())

    def of(self, name: str) -> Plan:
        """The plan of a file. Raises UsageError for a setting that means nothing."""
        plan = self._of.get(name)
        if plan is None:
            settings = self.settings_for(name)
            sections = settings.for_file(name) if settings is not None else ()
            plan = self._of[name] = self._plan(settings, sections)
        return plan

    def _plan(self, settings: Settings | None, sections: tuple[Any, ...]) -> Plan:
        key = (id(settings), *(id(section) for section in sections))
        if key not in self._plans:
            self._plans[key] = self._settle(settings, sections)
        return self._plans[key]

    def _settle(self, settings: Settings | None, sections: tuple[Any, ...]) -> Plan:
        args = argparse.Namespace(**vars(self.flags))
        origins: dict[str, str] = {}
        layers = [(section.values, section.where) for section in reversed(sections)]
        layers += [(settings.values, settings.where)] if settings is not None else []
        folder = settings.folder if settings is not None else ""
        for key in KEYS:
            name = key.replace("-", "_")
            if getattr(args, name, None) not in (None, False):
                origins[key] = f"--{key}"
                continue
            layer = next(((values[key], where) for values, where in layers if key in values), None)
            if layer is not None:
                origins[key] = layer[1]
                setattr(args, name, self._value(key, *layer, folder))
            else:
                setattr(args, name, getattr(args, name, None) or DEFAULTS.get(name))
        args.rules = tuple(args.rules)
        fitting.settle(args)
        rules = self._rules_of(args, origins)
        releases, reason = target_releases(args.deepspeed, origins.get("deepspeed", ""), args.isolated)
        options = Options(releases[-1], reason, args.trainer, args.gpus, args.select, args.ignore)
        if fitting.said(args):
            from dslint.memory.workload import workload

            try:
                options = options._replace(workload=workload(vars(args)))
            except UsageError as error:
                raise _blamed(error, origins) from None
        return Plan(args, options, releases, rules, origins)

    def _value(self, key: str, value: Any, where: str, folder: str) -> Any:
        """A setting as its flag would give it. Raises UsageError."""
        if key == "baseline":
            return os.path.join(folder, value)
        if key == "rules":
            return tuple(os.path.join(folder, path) for path in value)
        if isinstance(value, (list, dict, bool)):
            return tuple(value) if isinstance(value, list) else value
        if key == "model" and os.path.isfile(os.path.join(folder, value)):
            return os.path.join(folder, value)
        action = self.actions[f"--{key}"]
        try:
            made = action.type(str(value)) if callable(action.type) else str(value)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"{where}: {key}: {error}") from None
        if action.choices is not None and made not in action.choices:
            from dslint.suggest import nearest as nearest_name

            near = nearest_name(str(made), [str(choice) for choice in action.choices])
            hint = f"; did you mean {near}?" if near else ""
            raise UsageError(
                f"{where}: {key}: {made!r} is not one of {', '.join(map(str, action.choices))}{hint}"
            )
        return made

    def _rules_of(self, args: argparse.Namespace, origins: Mapping[str, str]) -> list[Rule]:
        """The rules, a team's own included, at the severities that the settings give them."""
        if args.rules not in self._rules:
            self._rules[args.rules] = all_rules(args.rules)
        rules = self._rules[args.rules]
        for key in ("select", "ignore", "severity"):
            for selector in getattr(args, key):
                if not any(chosen(rule, (selector,)) for rule in rules):
                    origin = origins[key]
                    error = no_such_rule(selector, rules)
                    raise error if origin.startswith("--") else UsageError(f"{origin}: {key}: {error}")
        return at_severities(rules, args.severity)


def all_rules(own: tuple[str, ...]) -> list[Rule]:
    """dslint's rules, and those of a team's own folders. Raises UsageError."""
    rules = load()
    if own:
        from dslint.team import load as team_rules

        rules += team_rules(own, rules)
    return rules


def at_severities(rules: list[Rule], severities: Mapping[str, str]) -> list[Rule]:
    """Rules with the severities given by code, name or family; the one that means fewest rules counts."""
    if not severities:
        return rules
    exact = sorted(severities, key=lambda word: sum(chosen(rule, (word,)) for rule in rules))
    changed = []
    for rule in rules:
        word = next((word for word in exact if chosen(rule, (word,))), None)
        changed.append(rule if word is None else replace(rule, severity=severities[word]))
    return changed


def _blamed(error: UsageError, origins: Mapping[str, str]) -> UsageError:
    """An error that begins with a flag, blamed on the setting that gave it where it was no flag."""
    flag, _, problem = str(error).partition(": ")
    where = origins.get(flag.removeprefix("--"), flag)
    return error if where == flag else UsageError(f"{where}: {flag.removeprefix('--')}: {problem}")


def target_releases(asked: str | None, where: str, isolated: bool) -> tuple[list[str], str]:
    """The releases to judge for, oldest first, and why these."""
    releases, reason = _target_releases(asked, where, isolated)
    newest = schemas.newest()
    if number(releases[-1]) <= number(newest):
        return releases, reason
    note = f"newer than {newest}, the newest release known here, and judged like it"
    return releases, note if reason == "given" else f"{reason}; {note}"


def _target_releases(asked: str | None, where: str, isolated: bool) -> tuple[list[str], str]:
    if asked is not None:
        return releases_of(asked, where), "given" if where.startswith("--") else where
    try:
        named = None if isolated else asked_release(os.getcwd())
    except FileNotFoundError:  # the current directory is gone
        named = None
    if named is not None and named[0][0].isdigit():
        return releases_of(*named), named[1]
    spec, file = named or ("", "")
    known = list(schemas.index())
    installed = installed_release(sys.path)
    if installed is not None and number(installed) >= number(known[0]) and holds(spec, installed):
        return [installed], "installed"
    allowed = [release for release in known if holds(spec, release)]
    if spec and allowed:
        return allowed[-1:], f"the newest that {file} allows"
    return known[-1:], "newest known" + (f", for no known one is {spec} ({file})" if spec else "")


def releases_of(text: str, where: str) -> list[str]:
    """The releases that "0.16.4" or "0.14.4..0.19.8" means. Raises UsageError, which names `where`."""
    known = list(schemas.index())
    first, dots, last = text.partition("..")
    if dots and not (first and last):
        raise UsageError(f"{where}: {text} is half a range; write both ends, such as {known[0]}..{known[-1]}")
    try:
        low, high = number(first), number(last if dots else first)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    if low < number(known[0]):
        raise UsageError(f"{where}: DeepSpeed releases before {known[0]} are not known")
    if not dots:
        return [first]
    if low > high:
        raise UsageError(f"{where}: the range {text} is empty; write the older release first")
    within = [release for release in known if low <= number(release) <= high]
    if not within:
        raise UsageError(f"{where}: no known DeepSpeed release lies in {text}; they go up to {known[-1]}")
    return within


def show(plan: Plan, name: str) -> str:
    """Every setting of a file and where it comes from, for `--show-settings`."""
    import json

    from dslint.report.escape import line_head, visible

    lines = [f"# {name}" if name else "# the run"]
    for key in KEYS:
        value = getattr(plan.args, key.replace("-", "_"))
        origin = plan.origins.get(key, "default")
        if key == "deepspeed":
            value = plan.args.deepspeed or plan.options.release
            origin = origin if plan.args.deepspeed else plan.options.release_reason
        if value in (None, (), {}, False) and origin == "default":
            continue
        lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}  # {origin}")
    return "".join(f"{line_head(visible(line))}\n" for line in lines)
