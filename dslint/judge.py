"""Everything about one file: for each run that names it, for one release, several, or an upgrade. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dslint.document import Node, Span
from dslint.errors import UsageError
from dslint.finding import FileReport
from dslint.lint import Options, all_findings, in_order, lint_releases, settled
from dslint.releases import number
from dslint.settle import Plan, Settling, releases_of

if TYPE_CHECKING:
    from dslint.inputs import Work


def judged(plan: Plan, raw: bytes, name: str, targets: Sequence[Options]) -> FileReport:
    """The report of a file: what there is to say about it for any of its runs, and is not suppressed."""
    reports = [_findings(plan, raw, name, target) for target in targets]
    first = reports[0]
    if len(reports) > 1:
        first.findings = in_order(finding for report in reports for finding in report.findings)
        first.others = [report.target for report in reports[1:]]
    each = [target._replace(release=release) for target in targets for release in plan.releases]
    return settled(first, raw, each, plan.rules)


def report_of(settling: Settling, one: Work) -> FileReport:
    """The report of one file, as its own settings have it."""
    name, raw, targets = one
    return lean(judged(settling.of(name), raw, name, targets))


def lean(report: FileReport) -> FileReport:
    """The report without what nobody reads any more: of many files that is most of the memory."""
    document = report.document
    document.root = document.root and Node("object", Span(0, 0))
    document.problems, document.departures, document.config, document.places = [], [], None, {}
    return report


def _findings(plan: Plan, raw: bytes, name: str, options: Options) -> FileReport:
    if plan.args.upgrade_from is not None:
        from dslint.upgrade import upgrade

        old = releases_of(plan.args.upgrade_from, "--upgrade-from")
        if len(old) > 1 or len(plan.releases) > 1:
            raise UsageError("--upgrade-from goes from one release to one release")
        if number(old[0]) >= number(options.release):
            raise UsageError(
                f"--upgrade-from {old[0]} is not older than {options.release}, the release to judge for; "
                "give the newer one with --deepspeed"
            )
        return upgrade(raw, name, options, plan.rules, old[0])
    if len(plan.releases) > 1:
        return lint_releases(raw, name, options, plan.rules, plan.releases)
    return all_findings(raw, name, options, plan.rules)
