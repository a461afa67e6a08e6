"""Known deviations: failures of a target that are listed in a file, with a reason and an end."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import kernel
from conformance.case import JOINT, Case, CaseError
from conformance.contract import requirements
from conformance.finding import DEVIATION, FAILURE, Finding, Judgement

_FOLDER = Path(kernel.__file__).parent / "deviations"
_TEXTS = ("device", "what", "reason", "issue")
_NEEDED = (*_TEXTS, "expires", "replay")
_KNOWN = (*_NEEDED, "where", "worst", "hides")


class DeviationError(Exception):
    """A list of deviations that cannot be used; the text is one line that says why."""


@dataclass(frozen=True)
class Deviation:
    """One entry of a list.

    A failure is a known one if the device begins with `device`, its requirement is named, its first line holds `what`,
    every case of it has one of the values in `where`, and no error over bound, where one is measured, is above `worst`.
    """

    device: str
    what: str
    reason: str
    issue: str
    """Address of the issue."""
    expires: date
    """The last day that it is known for."""
    replay: dict[str, str]
    """By requirement, the line of a case that shows it."""
    where: dict[str, tuple[Any, ...]]
    """By field of a Case, the values allowed."""
    worst: float
    """Largest error as a fraction of its bound that the reason explains."""
    hides: tuple[str, ...]
    """Requirements for which nothing can be judged while it lasts."""

    def covers(self, finding: Finding, cases: Collection[Case], worst: float | None = None) -> bool:
        """Whether a finding of these cases, made in one process, is this one.

        worst: their largest error as a fraction of its bound; None where nothing is measured.
        """
        named = finding.requirement in self.replay and self.what in finding.what
        return named and (worst is None or worst <= self.worst) and all(self.allows(case) for case in cases)

    def allows(self, case: Case) -> bool:
        return all(getattr(case, name) in values for name, values in self.where.items())

    def to_json(self) -> dict[str, Any]:
        """For the record."""
        return {
            **{name: getattr(self, name) for name in _TEXTS},
            "expires": self.expires.isoformat(),
            "where": self.where,
            "worst": self.worst,
            "requirements": list(self.replay),
            "hides": self.hides,
        }


@dataclass(frozen=True)
class Deviations:
    """What is known of one target on one device; nothing by default. An entry's number is its place, from 1."""

    file: str = ""
    """Name of the list."""
    hash: str = ""
    """Of its text, 12 hex digits."""
    listed: tuple[Deviation, ...] = ()
    today: date = date.min

    @property
    def lasting(self) -> dict[int, Deviation]:
        """Those that have not expired, by number."""
        return {number: one for number, one in enumerate(self.listed, 1) if one.expires >= self.today}

    @property
    def expired(self) -> list[Deviation]:
        return [one for one in self.listed if one.expires < self.today]

    def marked(self, judgement: Judgement, cases: Collection[Case]) -> Judgement:
        """The judgement, its known failures no longer failures."""
        scores = {id: check.worst for id, check in judgement.checks.items()}
        judgement.findings[:] = [
            self._marked(finding, cases, scores.get(finding.requirement)) for finding in judgement.findings
        ]
        return judgement

    def _marked(self, finding: Finding, cases: Collection[Case], worst: float | None) -> Finding:
        if finding.severity != FAILURE:
            return finding
        covering = (number for number, one in self.lasting.items() if one.covers(finding, cases, worst))
        number = next(covering, 0)
        return replace(finding, severity=DEVIATION, deviation=number) if number else finding


def load(target: str, device: str, path: Path | None = None) -> Deviations:
    """What is known of a target on a device.

    Args:
        target: its name; `kernel/deviations/NAME.toml` is its list, if there is one.
        path: another list.

    Raises DeviationError.
    """
    # A callable's name is a path.
    own = _FOLDER / f"{target}.toml" if Path(target).name == target else None
    source = path or own
    if source is None or not (path or source.is_file()):
        return Deviations()
    try:
        content = source.read_bytes()
        entries = tomllib.loads(content.decode())
    except OSError as error:
        raise DeviationError(f"cannot read the known deviations {source}: {error.strerror}") from error
    except ValueError as error:
        raise DeviationError(f"{source}: {' '.join(str(error).splitlines())}") from error
    if set(entries) - {"deviation"} or not isinstance(entries.get("deviation", []), list):
        raise DeviationError(f"{source}: a list of deviations holds [[deviation]] entries and nothing else")
    listed = [_read(entry, f"{source}, deviation {number}") for number, entry in enumerate(entries["deviation"], 1)]
    here = tuple(one for one in listed if device.startswith(one.device))
    return Deviations(source.name, hashlib.sha256(content).hexdigest()[:12], here, date.today())


def _read(entry: Any, name: str) -> Deviation:
    """An entry. Raises DeviationError; `name` tells which one it is."""
    if not isinstance(entry, dict):
        raise DeviationError(f"{name}: it is no table")
    if missing := [key for key in _NEEDED if not entry.get(key)]:
        raise DeviationError(f"{name}: it lacks {', '.join(missing)}")
    if unknown := sorted(set(entry) - set(_KNOWN)):
        raise DeviationError(f"{name}: unknown {', '.join(unknown)}; it may have {', '.join(_KNOWN)}")
    if wrong := [key for key in _TEXTS if not isinstance(entry[key], str) or not entry[key].strip()]:
        raise DeviationError(f"{name}: {', '.join(wrong)} must be text")
    # A date with a time is a date to Python.
    if not isinstance(entry["expires"], date) or isinstance(entry["expires"], datetime):
        raise DeviationError(f"{name}: expires must be a date without quotes, such as 2027-06-01")
    worst = entry.get("worst", math.inf)
    if type(worst) not in (int, float) or not worst > 1:
        raise DeviationError(f"{name}: worst must be a number above 1, where the bound is broken")
    read = Deviation(
        **{key: entry[key] for key in (*_TEXTS, "expires")},
        replay=_table(entry, "replay", name),
        where={key: _values(key, value, name) for key, value in _table(entry, "where", name).items()},
        worst=float(worst),
        hides=_ids(entry.get("hides", []), name),
    )
    _ids(list(read.replay), name)
    for requirement, line in read.replay.items():
        _check_replay(read, line, f"{name}, replay of {requirement}")
    return read


def _table(entry: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    table = entry.get(key, {})
    if not isinstance(table, dict):
        raise DeviationError(f"{name}: {key} must be a table")
    return table


def _ids(ids: Any, name: str) -> tuple[str, ...]:
    if not isinstance(ids, list):
        raise DeviationError(f"{name}: hides must be a list of requirements")
    if unknown := [str(id) for id in ids if id not in requirements()]:
        raise DeviationError(f"{name}: unknown requirement {', '.join(unknown)}")
    return tuple(ids)


def _values(field: str, values: Any, name: str) -> tuple[Any, ...]:
    kinds = {each.name: type(each.default) for each in dataclasses.fields(Case)}
    if field not in kinds:
        raise DeviationError(f"{name}: where names {field!r}, which no case has; it has {', '.join(kinds)}")
    kind = (int, float) if kinds[field] is float else kinds[field]
    if not isinstance(values, list) or not values or not all(isinstance(value, kind) for value in values):
        raise DeviationError(f"{name}: {field} must have a list of the values that a case may have")
    return tuple(values)


def _check_replay(deviation: Deviation, line: Any, name: str) -> None:
    if not isinstance(line, str):
        raise DeviationError(f"{name}: a case must be text")
    try:
        cases = [Case.parse(one) for one in line.split(JOINT)]
    except CaseError as error:
        raise DeviationError(f"{name}: {error}") from error
    if not all(map(deviation.allows, cases)):
        raise DeviationError(f"{name}: the case is none of those that `where` allows")


def outdated(deviations: Deviations, gone: Sequence[tuple[Deviation, str]]) -> list[str]:
    """What the list says and is no longer so, a line each.

    gone: deviations that no longer happen, each with its requirement.
    """
    file = deviations.file
    return [
        *(
            f"the known deviation of {', '.join(one.replay)} expired on {one.expires}: "
            f"remove it from {file}, or look at its issue again and give it a later date ({one.issue})"
            for one in deviations.expired
        ),
        *(
            f"the known deviation of {requirement} no longer happens: remove it from {file} ({one.what!r}, {one.issue})"
            for one, requirement in gone
        ),
    ]
