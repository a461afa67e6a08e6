"""The report of one record as a self-contained HTML page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from reports import numbers
from reports.accuracy import accuracy
from reports.allowed import by_class, sentences
from reports.model import FAIL, WARNING, Case, Check, Finding, Record, Requirement
from reports.replay import replay_command
from reports.verdict import Verdict, conclude, deciding

SHOWN_PER_REQUIREMENT = 5
_NOT_FACTS = ("kind", "format", "limits", "terms", "probes", "allowed")
_NUMBER = re.compile(r"\d[\d.,]*(e[+-]?\d+)?")
_UNKNOWN_TIER = "tier unknown"


@dataclass(frozen=True)
class Row:
    """A line of the table of requirements."""

    requirement: Requirement
    verdict: str
    anchor: str
    """Anchor of the requirement's findings; empty without any."""

    @property
    def css(self) -> str:
        return self.verdict.lower().replace(" ", "-")


@dataclass(frozen=True)
class Tier:
    """The requirements of one tier."""

    name: str
    decides: bool
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Shown:
    """A finding, the case that shows it, and the command that makes its calls again."""

    case: Case
    finding: Finding
    replay: str


@dataclass(frozen=True)
class Group:
    """The findings of one requirement; failed and hidden count distinct cases."""

    requirement: Requirement
    anchor: str
    failed: int
    shown: tuple[Shown, ...]
    hidden: int


@dataclass(frozen=True)
class Section:
    """Findings that carry the same weight."""

    title: str
    css: str
    explanation: str
    groups: tuple[Group, ...]


def render(record: Record) -> str:
    """The page. Every text of the record is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(fraction=numbers.fraction, relative=numbers.relative)
    sections = tuple(section for section in _sections(record) if section.groups)
    verdict = conclude(record)
    return environment.get_template("template.html.j2").render(
        target=str(record.run.get("target", "unnamed target")),
        verdict=verdict,
        facts=list(_facts(record)),
        counts=list(_counts(record)),
        tiers=_tiers(record, verdict, {group.requirement.id: group.anchor for s in sections for group in s.groups}),
        sections=sections,
        accuracy=accuracy(record),
        standard=record.standard,
        quantity=numbers.quantity,
        terms=by_class(record.standard.terms) if record.standard else {},
        allowances=list(sentences(record.standard.allowed)) if record.standard else [],
        limits=_limits(record.run),
    )


def _facts(record: Record) -> Iterator[tuple[str, str]]:
    for name, value in record.run.items():
        if name not in _NOT_FACTS:
            yield name, {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _counts(record: Record) -> Iterator[tuple[str, str]]:
    elements = sum(check.elements for case in record.cases for check in case.checks.values())
    yield "cases", f"{record.distinct_cases:,} distinct, {len(record.cases):,} judgements"
    yield "elements judged", f"{elements:,}"
    if record.end is not None:
        yield "tests", f"{record.end.tests_collected:,} collected, {record.end.tests_failed:,} failed"
        yield "exit status", str(record.end.exit_status)
        yield "seconds", f"{record.end.seconds:g}"


def _limits(run: dict[str, Any]) -> list[str]:
    limits = run.get("limits", [])
    return [str(limit) for limit in limits] if isinstance(limits, list) else [str(limits)]


def _requirements(record: Record) -> tuple[Requirement, ...]:
    """The requirements that the record gives verdicts on, then those that its cases alone know."""
    given = {entry.id for entry in record.requirements}
    checks: dict[str, dict[str, list[Check]]] = {}
    for case in record.cases:
        for finding in case.findings:
            checks.setdefault(finding.requirement, {}).setdefault(case.line, [])
        for id, check in case.checks.items():
            checks.setdefault(id, {}).setdefault(case.line, []).append(check)
    counted = [_counted(id, by_case) for id, by_case in checks.items() if id not in given]
    return (*record.requirements, *counted)


def _counted(id: str, by_case: dict[str, list[Check]]) -> Requirement:
    checks = [check for checks in by_case.values() for check in checks]
    return Requirement(
        id=id,
        tier=_UNKNOWN_TIER,
        sentence="",
        source="",
        cases=len(by_case),
        elements=sum(check.elements for check in checks),
        worst=max((check.worst for check in checks if check.worst is not None), default=None),
        failed=0,
        warned=0,
        verdict="none given",
    )


def _tiers(record: Record, verdict: Verdict, anchors: dict[str, str]) -> list[Tier]:
    tiers: dict[str, list[Row]] = {}
    for requirement in _requirements(record):
        word = requirement.verdict
        if word == FAIL and requirement.id in verdict.robustness:
            word = "finding"
        tiers.setdefault(requirement.tier, []).append(Row(requirement, word, anchors.get(requirement.id, "")))
    decide = deciding(record)
    return [Tier(name, rows[0].requirement.id in decide, tuple(rows)) for name, rows in tiers.items()]


def _sections(record: Record) -> Iterator[Section]:
    decide = deciding(record)
    failures = _groups(record, warnings=False)
    yield Section(
        "Failures",
        "fail",
        "These decide: the target does not conform.",
        tuple(group for group in failures if group.requirement.id in decide),
    )
    yield Section(
        "Failures of unknown weight",
        "fail",
        "The record does not tell the tier of these requirements.",
        tuple(group for group in failures if group.requirement.tier == _UNKNOWN_TIER),
    )
    yield Section(
        "Robustness findings",
        "finding",
        "These do not decide: the contract leaves such calls open, and users meet them.",
        tuple(g for g in failures if g.requirement.id not in decide and g.requirement.tier != _UNKNOWN_TIER),
    )
    yield Section("Warnings", "warn", "These do not decide.", _groups(record, warnings=True))


def _groups(record: Record, *, warnings: bool) -> tuple[Group, ...]:
    found: dict[str, dict[tuple[str, Finding], Case]] = {}
    for case in record.cases:
        for finding in case.findings:
            if (finding.severity == WARNING) == warnings:
                found.setdefault(finding.requirement, {}).setdefault((case.line, finding), case)
    prefix = "warned" if warnings else "failed"
    return tuple(
        _group(record, requirement, f"{prefix}-{requirement.id}", found[requirement.id])
        for requirement in _requirements(record)
        if requirement.id in found
    )


def _group(record: Record, requirement: Requirement, anchor: str, found: dict[tuple[str, Finding], Case]) -> Group:
    pairs = _telling([(case, finding) for (_, finding), case in found.items()])
    shown = tuple(Shown(case, finding, replay_command(case.line, record.run)) for case, finding in pairs)
    lines = {line for line, _ in found}
    hidden = len(lines - {item.case.line for item in shown})
    return Group(requirement, anchor, len(lines), shown, hidden)


def _telling(pairs: Iterable[tuple[Case, Finding]]) -> list[tuple[Case, Finding]]:
    """A few findings: those that differ in what they say first, the shortest case of each."""
    ordered = sorted(pairs, key=lambda pair: len(pair[0].line))
    distinct: dict[tuple[str, str], tuple[Case, Finding]] = {}
    for pair in ordered:
        distinct.setdefault(_likeness(pair[1]), pair)
    first = list(distinct.values())
    return [*first, *(pair for pair in ordered if pair not in first)][:SHOWN_PER_REQUIREMENT]


def _likeness(finding: Finding) -> tuple[str, str]:
    # "largest error 6.92" and "largest error 7.08" tell one story.
    return _NUMBER.sub("#", finding.what), _NUMBER.sub("#", finding.looks_like)
