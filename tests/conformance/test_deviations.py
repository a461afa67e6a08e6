"""Known deviations fail nothing and are told apart; what is out of date, or no list at all, is told in a line."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import tempfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from command import PLANTED, RIGHT, replay, suite

from conformance.case import Case
from conformance.deviations import DeviationError, Deviations, load
from conformance.finding import DEVIATION, FAILURE, WARNING, Finding, Judgement
from conformance.ledger import Ledger
from reports import junit
from reports import page as pages
from reports.record import read
from reports.verdict import conclude

USAGE_ERROR = 4
PLUGINS = str(Path(__file__).parent / "plugins")
TARGET = ("--target", f"{PLANTED}:also_writes_next_row")
PART = ("conformance/test_slots.py", "-k", "kinds")
CASE = "f16 T=5 Hq=4 Hkv=4 D=16 P=9 base=10000 pos=rise:0 slots=identity values=mixed seed=0"
LISTED = f"""
[[deviation]]
device = "decided"
where = {{ slots = ["identity", "holes", "first", "reversed"] }}
what = "k_pool row"
reason = "The row after the one named is written too."
issue = "https://example.org/issues/7"
expires = 2999-12-31
hides = ["ROT-BIAS"]

[deviation.replay]
SLOT-K = "{CASE}"
SLOT-REST = "{CASE}"
"""
Line = dict[str, Any]


def _write(folder: Path, old: str = "", new: str = "") -> Path:
    """The list, one thing in it changed."""
    assert not old or LISTED.count(old) == 1
    path = folder / "mine.toml"
    path.write_text(LISTED.replace(old, new) if old else LISTED)
    return path


def _lines(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _verdicts(path: Path) -> list[Line]:
    """What a run says of each requirement; elements of a test that was made again are counted twice."""
    return [line | {"elements": None} for line in _lines(path) if line["kind"] == "requirement"]


@dataclass(frozen=True)
class Known:
    """A run in which every failure is a known one."""

    list: Path
    record: Path
    status: int
    output: str


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Known:
    folder = tmp_path_factory.mktemp("known")
    listed, record = _write(folder), folder / "r.jsonl"
    run = suite(*PART, *TARGET, "--deviations", str(listed), "--record", str(record))
    return Known(listed, record, run.returncode, run.stdout + run.stderr)


def test_a_known_deviation_is_told_apart_and_fails_nothing(known: Known) -> None:
    assert known.status == 0, known.output
    assert not re.search("^FAIL ", known.output, re.MULTILINE)
    told = known.output.partition("KNOWN DEVIATION, until 2999-12-31, listed in mine.toml\n")[2]
    for line in ("The row after the one named is written too.", "https://example.org/issues/7"):
        assert line in told
    assert re.search(r"SLOT-REST +[1-9] of [1-9] cases, such as ", told)
    assert re.search("^SLOT-REST .* deviates ", told, re.MULTILINE)
    assert "no verdict: nothing found, " in told
    assert ", with known deviations: SLOT-K, SLOT-REST (" in told


def test_the_record_tells_of_it(known: Known) -> None:
    lines = _lines(known.record)
    assert [line["kind"] for line in lines[:4]] == ["run", "contract", "deviations", "envelopes"]
    assert re.fullmatch("mine.toml [0-9a-f]{12}", lines[0]["deviations"])
    [listed] = lines[2]["deviations"]
    assert (listed["expires"], listed["requirements"]) == ("2999-12-31", ["SLOT-K", "SLOT-REST"])
    cases = [line for line in lines if line["kind"] == "case"]
    found = [finding for line in cases for finding in line["findings"]]
    assert found
    assert {(finding["severity"], finding["deviation"]) for finding in found} == {(DEVIATION, 1)}
    assert {line["verdict"] for line in cases} == {"pass"}
    [rest] = [line for line in lines if line["kind"] == "requirement" and line["id"] == "SLOT-REST"]
    assert (rest["verdict"], rest["failed"], rest["deviated"] > 0) == ("deviates", 0, True)
    assert (lines[-1]["exit_status"], lines[-1]["outdated"]) == (0, [])


def test_the_report_shows_it_apart(known: Known) -> None:
    [run] = read([known.record])
    [one] = run.deviations
    counted = {line["id"]: line["deviated"] for line in _lines(known.record) if line["kind"] == "requirement"}
    assert dict(one.seen) == {id: counted[id] for id in ("SLOT-K", "SLOT-REST")}
    verdict = conclude(run)
    assert (verdict.failing, verdict.known, verdict.finished) == ((), ("SLOT-K", "SLOT-REST"), True)
    assert "ROT-BIAS" not in next(notice.text for notice in verdict.notices if notice.weight == "unseen")
    html = pages.render([run])
    section = html.partition(">Known deviations</h2>")[2]
    assert one.reason in section
    assert f'<a href="{one.issue}">' in section
    assert "<failure" not in junit.render([run])


def test_a_run_that_goes_on_remembers_it(known: Known, tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    record.write_bytes(b"".join(known.record.read_bytes().splitlines(keepends=True)[:8]))
    arguments = (*PART, *TARGET, "--record", str(record), "--resume")
    other = suite(*arguments, "--deviations", str(_write(tmp_path, "2999-12-31", "2999-12-30")))
    assert other.returncode == USAGE_ERROR
    assert "is of another run: deviations was mine.toml " in other.stderr
    run = suite(*arguments, "--deviations", str(known.list))
    assert run.returncode == 0, run.stdout + run.stderr
    assert _verdicts(record) == _verdicts(known.record)
    assert any(line["kind"] == "resumed" for line in _lines(record))


def test_a_replay_says_that_it_is_known(known: Known) -> None:
    run = replay(CASE, *TARGET, "--deviations", str(known.list))
    assert run.returncode == 0, run.stdout
    assert "k_pool rows changed that no slot names" in run.stdout
    assert "The row after the one named is written too." in run.stdout
    assert "this case conforms, with known deviations: SLOT-K, SLOT-REST" in run.stdout
    assert replay(CASE, *TARGET).returncode == 1


@pytest.mark.parametrize(
    ("old", "new", "failing"),
    [
        ('"decided"', '"another device"', "SLOT-K, SLOT-REST"),
        ('"k_pool row"', '"k_pool rows"', "SLOT-K"),
        (f'SLOT-K = "{CASE}"\n', "", "SLOT-K"),
    ],
)
def test_what_it_does_not_cover_fails(old: str, new: str, failing: str, tmp_path: Path) -> None:
    run = replay(CASE, *TARGET, "--deviations", str(_write(tmp_path, old, new)))
    assert run.returncode == 1
    assert re.findall("^FAIL ([A-Z-]+)", run.stdout, re.MULTILINE) == failing.split(", ")
    assert run.stdout.splitlines()[-1].startswith("does not conform")


def test_a_match_is_narrow() -> None:
    [one] = _known().listed
    case = Case.parse(CASE)
    finding = Finding("SLOT-REST", "k_pool rows changed")
    assert one.covers(finding, [case])
    assert not one.covers(finding, [case, case.but(slots="last")])
    for other in (Finding("SLOT-V", "k_pool rows changed"), Finding("SLOT-REST", "v_pool rows changed")):
        assert not one.covers(other, [case])
    judgement = Judgement([finding, dataclasses.replace(finding, severity=WARNING), Finding("SLOT-SKIP", "k_pool row")])
    judgement.looked("SLOT-REST", 9, 4.5)
    severities = [finding.severity for finding in _known().marked(judgement, [case]).findings]
    assert severities == [DEVIATION, WARNING, FAILURE]
    assert judgement.verdict == "fail"


@pytest.mark.parametrize("score", [4.5, 4.6, math.inf, math.nan])
def test_a_larger_error_than_its_reason_explains_is_none(score: float) -> None:
    known = _known()
    known = dataclasses.replace(known, listed=(dataclasses.replace(known.listed[0], worst=4.5),))
    judgement = Judgement([Finding("SLOT-K", "k_pool row")])
    judgement.looked("SLOT-K", 9, score)
    assert known.marked(judgement, [Case.parse(CASE)]).failed == (score != 4.5)


def _known(today: date = date(2026, 1, 1)) -> Deviations:
    """The list as it is read on a day."""
    with tempfile.TemporaryDirectory() as folder:
        listed = load("kernel", "decided by the callable", _write(Path(folder)))
    return dataclasses.replace(listed, today=today)


def test_an_expired_one_is_known_no_more(tmp_path: Path) -> None:
    expired = _write(tmp_path, "2999-12-31", "2020-02-29")
    record = tmp_path / "r.jsonl"
    run = suite(*PART, *TARGET, "--deviations", str(expired), "--record", str(record))
    assert run.returncode == 1
    [line] = [line for line in run.stdout.splitlines() if "expired on 2020-02-29" in line]
    assert line.startswith(
        "the known deviation of SLOT-K, SLOT-REST expired on 2020-02-29: remove it from mine.toml, or"
    )
    assert "does not conform: SLOT-K, SLOT-REST (" in run.stdout
    right = suite(*PART, "--target", f"{RIGHT}:float32_angle", "--deviations", str(expired), "--record", str(record))
    assert right.returncode == 1
    assert "no verdict: the list of known deviations is out of date (" in right.stdout
    [run_read] = read([record])
    verdict = conclude(run_read)
    assert (verdict.state, verdict.finished) == ("incomplete", True)
    assert [notice.text for notice in verdict.notices if notice.weight == "outdated"] == [
        f"T{line[1:]}." for line in _lines(record)[-1]["outdated"]
    ]


def test_the_day_it_expires_it_is_known_still() -> None:
    last = date(2999, 12, 31)
    assert _known(last).lasting
    assert not _known(last).expired
    assert not _known(date(3000, 1, 1)).lasting


def test_one_that_no_longer_happens_fails_a_whole_run(tmp_path: Path) -> None:
    listed = str(_write(tmp_path))
    arguments = ("conformance", "--target", f"{RIGHT}:float32_angle", "--deviations", listed)
    run = suite(*arguments, "--profile", "default", "-p", "few_cases", PYTHONPATH=PLUGINS)
    assert run.returncode == 1, run.stdout
    told = [line for line in run.stdout.splitlines() if "no longer happens" in line]
    assert [line.partition(" no longer")[0] for line in told] == [
        "the known deviation of SLOT-K",
        "the known deviation of SLOT-REST",
    ]
    assert all("remove it from mine.toml" in line for line in told)
    assert "no verdict: the list of known deviations is out of date (" in run.stdout
    # A part of the suite need not show it.
    assert suite(*PART, *arguments[1:], "--profile", "default").returncode == 0


def test_it_hides_requirements_while_it_lasts() -> None:
    def missing(*findings: Finding, known: Deviations) -> set[str]:
        ledger = Ledger(known)
        ledger.add(CASE, known.marked(Judgement(list(findings)), [Case.parse(CASE)]))
        return set(ledger.not_run())

    seen = Finding("SLOT-REST", "k_pool rows changed")
    assert "ROT-BIAS" not in missing(seen, known=_known())
    assert "ROT-FREQ" in missing(seen, known=_known())
    assert "ROT-BIAS" in missing(known=_known())
    assert "ROT-BIAS" in missing(seen, known=_known(date(3000, 1, 1)))


def test_of_several_requirements_each_must_happen() -> None:
    ledger = Ledger(_known())
    ledger.add(CASE, _known().marked(Judgement([Finding("SLOT-K", "k_pool row")]), [Case.parse(CASE)]))
    assert not ledger.outdated(whole=False)
    [line] = ledger.outdated(whole=True)
    assert line.startswith("the known deviation of SLOT-REST no longer happens")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("expires = 2999-12-31", "", "deviation 1: it lacks expires"),
        ('reason = "The row after the one named is written too."', "", "it lacks reason"),
        ('issue = "https://example.org/issues/7"', 'issue = ""', "it lacks issue"),
        ("2999-12-31", '"2999-12-31"', "expires must be a date without quotes, such as 2027-06-01"),
        ("2999-12-31", "2999-12-31T00:00:00", "expires must be a date without quotes"),
        ("2999-12-31", "2999-13-31", "mine.toml: "),
        (f'SLOT-K = "{CASE}"', f'SLOT-Q = "{CASE}"', "unknown requirement SLOT-Q"),
        ('hides = ["ROT-BIAS"]', 'hides = ["ROT-BIASED"]', "unknown requirement ROT-BIASED"),
        ('hides = ["ROT-BIAS"]', 'hidden = ["ROT-BIAS"]', "unknown hidden; it may have device, what"),
        (f'SLOT-K = "{CASE}"', 'SLOT-K = "f16 T=three"', "replay of SLOT-K: T must be a number, got 'three'"),
        (f'SLOT-K = "{CASE}"', 'SLOT-K = "f16 slots=last"', "the case is none of those that `where` allows"),
        ("where = { slots =", "where = { slot =", "where names 'slot', which no case has; it has dtype, "),
        ('["identity", "holes", "first", "reversed"]', '"identity"', "slots must have a list of the values"),
        ("[[deviation]]", "[[deviations]]", "a list of deviations holds [[deviation]] entries and nothing else"),
        ('what = "k_pool row"', 'what = "k_pool row"\nworst = 0.5', "worst must be a number above 1"),
        ('what = "k_pool row"', "what = 7", "what must be text"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused_in_a_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    if "deviations" in new:
        path = tmp_path / "mine.toml"
        path.write_text(LISTED.replace("[[deviation]]", new).replace("[deviation.", "[deviations."))
    else:
        path = _write(tmp_path, old, new)
    with pytest.raises(DeviationError) as refused:
        load("kernel", "decided by the callable", path)
    assert message in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_the_command_ends_with_that_line(tmp_path: Path) -> None:
    wrong = str(_write(tmp_path, "2999-12-31", '"soon"'))
    for run in (suite(*PART, *TARGET, "--deviations", wrong), replay(CASE, *TARGET, "--deviations", wrong)):
        assert run.returncode == USAGE_ERROR
        assert "expires must be a date" in run.stderr
        assert len(run.stderr.strip().splitlines()) == 1


def test_a_target_has_its_own_list_and_no_other(tmp_path: Path) -> None:
    with pytest.raises(DeviationError, match=r"cannot read the known deviations .*none\.toml: No such file"):
        load("kernel", "a device", tmp_path / "none.toml")
    assert [one.device for one in load("mlx", "MLX cpu").listed] == ["MLX cpu", "MLX cpu"]
    assert not load("mlx", "MLX gpu (Apple M3)").listed
    for name in ("host", f"{PLANTED}:also_writes_next_row", "../deviations/mlx"):
        assert load(name, "MLX cpu") == Deviations()
