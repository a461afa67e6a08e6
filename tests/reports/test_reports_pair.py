"""A second target on the same cases: counted once for each case, shown with what replays it, checked as it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sample_record as sample
from shown_page import page

from conformance.pair import difference
from conformance.pair.book import PairBook
from reports.record import RecordError, read

FACTS = {"target": "mlx", "device": "MLX cpu", "shader path": "other.metal"}
CASES = [sample.CASE.replace("seed=0", f"seed={seed}") for seed in range(3)]


def differing(**told: Any) -> sample.Line:
    """A difference of one ulp in which the second target is nearer."""
    return difference.Difference(
        **{
            "output": "q_rot",
            "first": "0.5",
            "second": "0.75",
            "wanted": "exact 0.7",
            "nearer": "second",
            "dtype": "float32",
            "where": "token 1, head 0, element 5",
            "ulps": 1,
            "elements": 3,
            "size": 96,
            "nearer_first": 1,
            "nearer_second": 2,
            "largest_ulps": 7,
        }
        | told
    ).to_json()


ENDED = differing(
    output="ending", first="<b>got it</b>", second="the call crashed", wanted="the call must return", nearer="first",
    dtype="", where="", ulps=None, elements=0, size=0, nearer_first=0, nearer_second=0, largest_ulps=None,
)  # fmt: skip


def paired(*told: list[sample.Line]) -> list[sample.Line]:
    """A record of a pair with a case for each list of differences; the last case is made twice."""
    cases = [sample.case(line) | {"pair": found} for line, found in zip(CASES, told, strict=False)]
    return [*sample.begun(pair=FACTS), *cases, cases[-1], sample.finished()]


def test_counts_are_those_of_the_run_itself(tmp_path: Path) -> None:
    record = paired([differing(), ENDED], [], [differing(ulps=2, largest_ulps=9, nearer_second=0)])
    [run] = read([sample.write(tmp_path / "r.jsonl", record)])
    assert run.pair is not None
    book = PairBook()
    for line in record:
        if "pair" in line and line["kind"] == "case":
            book.add(line["line"], tuple(difference.Difference(**told) for told in line["pair"]))
    assert (run.pair.compared, run.pair.disagreeing) == (len(book.compared), len(book.differing)) == (3, 2)
    own = [(c.output, c.dtype, c.cases, c.elements, c.nearer_first, c.nearer_second, c.largest_ulps, c.undecided)
           for c in run.pair.counts]  # fmt: skip
    assert own == [
        (*key, t.cases, t.elements, t.nearer_first, t.nearer_second, t.largest_ulps, t.undecided)
        for key, t in book.tallies().items()
    ]
    assert own == [("ending", "", 1, 1, 1, 0, None, 0), ("q_rot", "float32", 2, 6, 2, 2, 9, 2)]
    assert [(line, told.output) for line, told in run.pair.telling] == [
        (line, told.output) for line, told in book.telling()
    ]


def test_records_of_one_run_count_a_case_once(tmp_path: Path) -> None:
    records = [paired([differing()]), paired([differing()], [differing()])]
    records[1][0]["run"] = "0" * 32
    [run] = read(sample.write_each(tmp_path, *records))
    assert run.pair is not None
    assert (run.pair.compared, run.pair.disagreeing, run.pair.counts[0].cases) == (2, 2, 2)


def test_the_page_tells_of_it(tmp_path: Path) -> None:
    shown = page(tmp_path, paired([differing()], [ENDED]))
    assert "Two targets on the same cases" in shown.texts["h2"]
    assert "host against mlx" in shown.texts["h3"]
    text = shown.text()
    assert "2 cases compared: 0 identical, 2 disagreeing." in " ".join(text.split())
    assert "q_rot: 3 of 96 elements differ, at most 7 ulps apart" in text
    assert "token 1, head 0, element 5: host 0.5; mlx 0.75, 1 ulp apart" in text
    assert "exact 0.7: mlx is nearer" in text
    assert "host <b>got it</b>; mlx the call crashed" in text
    [command] = [
        code for code in shown.texts["code"] if code.startswith("python") and CASES[0] in code and "pair" in code
    ]
    assert command.endswith("--accuracy auto --pair mlx --pair-shader other.metal")


def test_a_run_of_one_target_has_no_such_section(tmp_path: Path) -> None:
    assert 'id="pair"' not in page(tmp_path, sample.green()).html


@pytest.mark.parametrize(
    "wrong",
    [
        {"output": "q"},
        {"nearer": "third"},
        {"nearer_first": 2},
        {"elements": 97, "size": 96},
        {"ulps": -1},
        {"first": 0.5},
    ],
)
def test_what_is_no_difference_is_refused(tmp_path: Path, wrong: sample.Line) -> None:
    with pytest.raises(RecordError, match="malformed line of kind 'case'"):
        read([sample.write(tmp_path / "r.jsonl", paired([differing(**wrong)]))])


def test_facts_of_the_second_target_are_texts(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="malformed line of kind 'run'"):
        read([sample.write(tmp_path / "r.jsonl", sample.begun(pair={"target": "mlx"}))])
