"""Known deviations in the report: read, counted apart, told; a night fails when their list is out of date."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import sample_record as sample
from sample_night import digest

from conformance import terminal
from conformance.case import Case
from conformance.contract import requirements
from conformance.deviations import Deviation, Deviations
from conformance.finding import Finding, Judgement
from conformance.ledger import Ledger
from reports import junit, page
from reports.__main__ import main
from reports.compare import compare
from reports.digest import Digest
from reports.model import Run
from reports.overview import overview
from reports.record import RecordError, read
from reports.replay import replay_command
from reports.verdict import INCOMPLETE, conclude

TIERS = {"ROT-Q": "numeric", "ROT-K": "numeric", "ROT-BIAS": "numeric", "ROB-DUP": "robustness"}
OUTDATED = "the known deviation of ROT-K no longer happens: remove it from mine.toml ('beyond', an address)"
LINES = [sample.CASE.replace("seed=0", f"seed={seed}") for seed in range(3)]


def _list(**fields: Any) -> sample.Line:
    entry = {"reason": "rounded twice <b>", "issue": "https://example.org/7", "expires": "2999-12-31", "hides": []}
    listed = [entry | {"requirements": ["ROT-Q", "ROT-K"]} | fields, entry | {"requirements": ["ROT-Q"]}]
    return {"kind": "deviations", "file": "mine.toml", "deviations": listed}


def _known(requirement: str, number: int = 1) -> sample.Line:
    return sample.finding(requirement) | {"severity": "deviation", "deviation": number}


def _record(name: str = "run", *, listed: sample.Line | None = None, **end: Any) -> list[sample.Line]:
    """Three cases: one deviates twice, one once, one not at all."""
    run, contract, envelopes, _ = sample.begun(name, TIERS)
    return [
        run,
        contract,
        listed or _list(hides=["ROT-BIAS"]),
        envelopes,
        sample.plan(tests=3, cases=3),
        sample.case(LINES[0], _known("ROT-Q"), _known("ROT-K"), _known("ROT-Q", 2), ROT_Q=9.5, ROT_K=9.5, ROB_DUP=None),
        sample.finished(sample.id_of(LINES[0])),
        sample.case(LINES[1], _known("ROT-Q", 2), ROT_Q=9.5, ROT_K=0.5),
        sample.finished(sample.id_of(LINES[1])),
        sample.case(LINES[2], ROT_Q=0.5, ROT_K=0.5),
        sample.finished(sample.id_of(LINES[2])),
        sample.requirement("ROT-Q", "deviates", cases=3, deviated=2),
        sample.requirement("ROT-K", "deviates", cases=3, deviated=1),
        sample.requirement("ROT-BIAS", "not run"),
        sample.requirement("ROB-DUP"),
        sample.end(cases=3, tests_collected=3, **end),
    ]


def _read(folder: Path, *records: list[sample.Line]) -> Run:
    [run] = read(sample.write_each(folder, *records))
    return run


def test_they_are_counted_by_entry_and_requirement(tmp_path: Path) -> None:
    run = _read(tmp_path, _record())
    assert [dict(one.seen) for one in run.deviations] == [{"ROT-Q": 1, "ROT-K": 1}, {"ROT-Q": 2}]
    counted = {entry.id: (entry.verdict, entry.cases, entry.failed, entry.deviated) for entry in run.requirements}
    assert counted["ROT-Q"] == ("deviates", 3, 0, 2)
    assert counted["ROT-K"] == ("deviates", 3, 0, 1)
    assert set(run.index.verdicts) == {"pass"}


def test_the_verdict_tells_of_them_and_of_what_they_hide(tmp_path: Path) -> None:
    verdict = conclude(_read(tmp_path, _record()))
    assert verdict.line == "conforms, with known deviations: ROT-Q, ROT-K"
    [notice] = verdict.notices
    assert (notice.text, notice.blocks) == ("Not run: ROT-BIAS. A known deviation hides what they ask for.", False)
    hides_nothing = conclude(_read(tmp_path, _record(listed=_list())))
    assert (hides_nothing.state, hides_nothing.finished) == (INCOMPLETE, True)
    unseen = [*_record()[:5], sample.case(LINES[2], ROT_Q=0.5, ROT_K=0.5)]
    assert "Not run: ROT-BIAS. Without" in "".join(n.text for n in conclude(_read(tmp_path, unseen)).notices)


def test_a_list_that_is_out_of_date_supports_no_verdict(tmp_path: Path) -> None:
    verdict = conclude(_read(tmp_path, _record(exit_status=1, outdated=[OUTDATED])))
    assert (verdict.state, verdict.finished) == (INCOMPLETE, True)
    assert [notice.text for notice in verdict.notices if notice.blocks] == [f"T{OUTDATED[1:]}."]


def test_parts_of_one_run_are_counted_together(tmp_path: Path) -> None:
    whole, parts = _read(tmp_path, _record()), []
    for number, kept in enumerate((LINES[1:], LINES[:1])):
        ids = {*kept, *map(sample.id_of, kept)}
        events = [line for line in _record()[5:11] if {line.get("line"), line.get("id")} & ids]
        parts.append([sample.run(f"part {number}"), *_record()[1:4], *events])
    merged = _read(tmp_path, *parts)
    assert merged.deviations == whole.deviations
    assert [entry.deviated for entry in merged.requirements] == [entry.deviated for entry in whole.requirements]


@pytest.mark.parametrize(
    "changes",
    [{"severity": "deviation"}, {"deviation": 1}, {"severity": "deviation", "deviation": -1}],
)
def test_a_finding_that_contradicts_itself_is_refused(changes: sample.Line, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="malformed line of kind 'case'"):
        _read(tmp_path, [*_record()[:5], sample.case(LINES[0], sample.finding("ROT-Q") | changes)])


def test_counts_that_disagree_are_told(tmp_path: Path) -> None:
    record = _record()
    record[11] = sample.requirement("ROT-Q", "deviates", cases=3, deviated=1)
    texts = [notice.text for notice in conclude(_read(tmp_path, record)).notices]
    assert "ROT-Q is told to deviate in 1 cases; the record's cases show 2." in texts


def test_the_page_shows_them_apart(tmp_path: Path) -> None:
    run = _read(tmp_path, _record())
    [numeric, _] = overview(run, "kernel", "run-0", None).tiers
    assert (numeric.verdicts["FAIL"], numeric.verdicts["deviates"], numeric.findings) == (0, 2, 0)
    html = page.render([run])
    section = html.partition(">Known deviations</h2>")[2]
    assert "2 of 3 cases" in section
    assert "Known until 2999-12-31: rounded twice &lt;b&gt; <a href=" in section
    assert ">Failures</h2>" not in html
    assert "conforms, with known deviations" in html.partition("</h1>")[0]


def test_no_failure_of_junit(tmp_path: Path) -> None:
    text = junit.render([_read(tmp_path, _record())])
    assert 'failures="0" errors="0"' in text
    assert "deviation of ROT-Q: q_rot is beyond" in text
    outdated = junit.render([_read(tmp_path, _record(exit_status=1, outdated=[OUTDATED]))])
    assert 'errors="1"' in outdated
    assert "no longer happens" in outdated


def test_a_replay_takes_the_list_along() -> None:
    command = replay_command("f32", {"target": "mlx", "deviations path": "my list.toml"})
    assert command.endswith("--target mlx --deviations 'my list.toml'")


def test_one_that_appears_or_goes_is_told(tmp_path: Path) -> None:
    known = digest(tmp_path / "known.jsonl", _record())
    passes = replace(known.requirements["ROT-K"], verdict="pass")
    without = replace(known, run_id="other", requirements={**known.requirements, "ROT-K": passes})
    [new] = compare([without], known).changes
    assert (new.kind, new.severity, new.subject) == ("deviation new", "neutral", "ROT-K")
    [gone] = compare([known], without).changes
    assert (gone.kind, gone.severity, gone.subject) == ("deviation gone", "improvement", "ROT-K")
    fails = replace(without, requirements={**known.requirements, "ROT-K": replace(passes, verdict="FAIL")})
    assert [change.kind for change in compare([known], fails).changes] == ["requirement failed"]


def test_a_night_fails_when_the_list_is_out_of_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "render", lambda *_, **__: "")

    def night(lines: list[sample.Line]) -> int:
        record = sample.write(tmp_path / "r.jsonl", lines)
        return main(["night", str(record), "--history", str(tmp_path / "h.sqlite"), "-o", str(tmp_path / "out")])

    assert night(_record("first")) == 3
    assert night(_record("second", exit_status=1, outdated=[OUTDATED])) == 1
    assert "no longer happens" in (tmp_path / "out" / "summary.txt").read_text()
    told = json.loads((tmp_path / "out" / "regressions.json").read_text())["regressions"]
    assert [(one["kind"], one["text"]) for one in told] == [("deviation outdated", OUTDATED)]
    # What is out of date is no baseline.
    assert night(_record("third")) == 0


def test_older_nights_know_of_none(tmp_path: Path) -> None:
    made = digest(tmp_path / "r.jsonl", _record(exit_status=1, outdated=[OUTDATED]))
    fields = json.loads(json.dumps(made.to_json()))
    assert Digest.from_json(fields, made.planned) == made
    assert (made.held, replace(made, outdated=()).held) == (False, True)
    del fields["outdated"]
    assert Digest.from_json(fields, made.planned).outdated == ()


@pytest.mark.parametrize("failing", ["", "ROT-K", "ROB-DUP"])
@pytest.mark.parametrize("gone", [False, True])
def test_the_terminal_and_the_report_agree(failing: str, gone: bool, tmp_path: Path) -> None:
    tiers = {entry.id: entry.tier for entry in requirements().values()}
    listed = Deviation(
        device="CPU",
        what="beyond",
        reason="rounded twice",
        issue="an address",
        expires=date(2999, 12, 31),
        replay={"ROT-Q": "f32"} | ({"ROT-K": "f32"} if gone else {}),
        where={},
        worst=100.0,
        hides=("ROT-BIAS",),
    )
    known = Deviations("mine.toml", "0" * 12, (listed,), date(2026, 1, 1))
    judgement = Judgement([Finding("ROT-Q", "q_rot is beyond"), *([Finding(failing, "a fault")] if failing else [])])
    for id in tiers:
        if id != "ROT-BIAS":
            judgement.looked(id, 96)
    ledger = Ledger(known)
    ledger.add(sample.CASE, known.marked(judgement, [Case.parse(sample.CASE)]))
    outdated = ledger.outdated(whole=True)
    assert bool(outdated) == gone
    failed = ledger.decides_failure(judgement, strict=False)
    found = [finding.to_json() for finding in judgement.findings]
    run, contract, envelopes, plan = sample.begun(tiers=tiers)
    record = [
        *(run, contract, {"kind": "deviations", "deviations": [listed.to_json()]}, envelopes, plan),
        sample.case(sample.CASE, *found, **dict.fromkeys(id for id in tiers if id != "ROT-BIAS")),
        sample.finished(outcome="failed" if failed else "passed"),
        *(
            sample.requirement(
                id, entry.verdict, cases=len(entry.cases), failed=len(entry.failed), deviated=len(entry.deviated)
            )
            for id, entry in ledger.entries.items()
        ),
        sample.end(exit_status=int(failed or gone), tests_failed=int(failed), outdated=outdated),
    ]
    verdict = conclude(_read(tmp_path, record))
    printed = terminal.summary(ledger, outdated=bool(outdated))
    assert printed.startswith("no verdict" if verdict.state == INCOMPLETE else verdict.line)
    assert (verdict.state == INCOMPLETE) == (gone and not failed)
