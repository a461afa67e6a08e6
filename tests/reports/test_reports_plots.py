"""Pictures say what the numbers say, within their frame, in the page's own colours, and hold any text as text."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import sample_record as sample

from reports.model import Cell, Envelope, PoolPicture
from reports.plots.accuracy import binned, error_by_position, heat_map, ulp_histogram
from reports.plots.canvas import Picture, power_of_ten
from reports.plots.pool import pool_picture
from reports.plots.trend import amounts, scores, sparkline, states
from reports.record import read

_SVG = "{http://www.w3.org/2000/svg}"
# Below it stand the names of lines and marks.
LEGEND = 215
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def cells(folder: Path, *measures: sample.Line) -> list[Cell]:
    return list(read([sample.write(folder / "r.jsonl", sample.measured(*measures))])[0].cells)


def envelopes() -> tuple[Envelope, ...]:
    return tuple(
        Envelope(name, base, 128, (0, 1, 1000, 2**31 - 1), tuple(base * rank * 1e-12 * 10**n for n in range(4)))
        for rank, name in enumerate(sample.CLASSES, 1)
        for base in (1e4, 5e5)
    )


def pool(**fields: object) -> PoolPicture:
    lines = {"pool": "k_pool", "rows": 8, "written": ((0, 1),), "wrong": ((2, 3),), "stale": ((4, 5),)}
    return PoolPicture(**(lines | {"stray": ((6, 8),), "tokens": 3, "skipped": ((2, 3),)} | fields))  # type: ignore[arg-type]


def pictures(folder: Path, text: str = "float32") -> Iterator[Picture]:
    """One of each kind, with `text` wherever a record has a say."""
    own = cells(folder, sample.measure(0.0, 0.5, 2.5, beyond=12), sample.measure(0.1, decade=0))
    named = tuple(Envelope(text, one.rope_base, one.head_dim, one.positions, one.error) for one in envelopes())
    yield error_by_position("a", text, own, named)
    yield heat_map("b", text, own)
    yield ulp_histogram("c", text, {0: 90, 1: 4, -12: 1})
    yield pool_picture("d", [pool(pool=text), pool(pool=text, rows=0, tokens=0)])
    yield scores("e", [text, text], {text: [0.5, None]})
    yield amounts("f", [text, text], text, [1.0, 2.0])
    yield states("g", [text], ["fails"])
    yield sparkline("h", text, [1.0, None])


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "\"'></svg>&amp;", "$x^2$ and $\\frac$", "\x00\x1b\ud800 漢"]
)
def test_any_text_is_text(tmp_path: Path, text: str) -> None:
    for picture in pictures(tmp_path, text):
        root = ElementTree.fromstring(picture.svg)
        assert {element.tag for element in root.iter()} <= {
            _SVG + tag
            for tag in ("svg", "title", "desc", "defs", "g", "path", "use", "text", "clipPath", "rect", "pattern")
        }
        assert not re.search("[\x00-\x08\ud800-\udfff]", picture.svg)
        picture.svg.encode()
    told = "".join(ElementTree.fromstring(next(pictures(tmp_path, "$x^2$ <b>")).svg).itertext())
    assert "$x^2$ <b> allows" in told


def test_pictures_are_named_and_described_and_keep_to_themselves(tmp_path: Path) -> None:
    ids: list[str] = []
    for picture, name in zip(pictures(tmp_path), "abcdefgh", strict=True):
        root = ElementTree.fromstring(picture.svg)
        assert (root.get("role"), root.get("aria-labelledby")) == ("img", f"{name}-title {name}-desc")
        assert [child.tag for child in root[:2]] == [_SVG + "title", _SVG + "desc"]
        assert all(child.text for child in root[:2])
        own = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
        used = re.findall(r'(?:url\(#|href="#)([^)"]+)', picture.svg)
        assert set(used) <= set(own)
        assert all(id.startswith(f"{name}-") for id in own)
        ids += own
        for outside in ("<style", "font-family", "http://www.w3.org/1999", "<?xml", "<!"):
            assert outside not in picture.svg
    assert len(set(ids)) == len(ids)


def test_colours_are_those_of_the_page(tmp_path: Path) -> None:
    for picture in pictures(tmp_path):
        assert not re.search("#[0-9a-f]{6}", picture.svg)
        assert "var(--" in picture.svg


def test_a_picture_is_the_same_every_time(tmp_path: Path) -> None:
    assert [picture.svg for picture in pictures(tmp_path)] == [picture.svg for picture in pictures(tmp_path)]


def points(picture: Picture, colour: str, shape: str = "use") -> list[tuple[float, float]]:
    """Where the markers of a colour stand."""
    root = ElementTree.fromstring(picture.svg)
    return [
        (float(use.attrib["x"]), float(use.attrib["y"]))
        for use in root.iter(_SVG + shape)
        if f"var(--{colour})" in use.attrib.get("style", "")
    ]


def test_errors_stand_where_they_belong(tmp_path: Path) -> None:
    own = cells(
        tmp_path,
        sample.measure(0.5, decade=0, error=1e-7),
        sample.measure(0.5, decade=3, error=1e-5),
        sample.measure(0.5, decade=9, error=0.0),
        sample.measure(0.5, decade=10, error=1e-3),
    )
    shown = error_by_position("a", "float32", own, envelopes())
    marks = sorted(mark for mark in points(shown, "text") if mark[1] < LEGEND)
    # An error of 0 has no place on an axis of powers.
    assert len(marks) == 3
    assert [y for _, y in marks] == sorted((y for _, y in marks), reverse=True)
    assert math.isclose(marks[0][1] - marks[1][1], marks[1][1] - marks[2][1], abs_tol=1.5)
    assert "largest measured error is 1.0×10⁻³ of the pair's length, at positions 10⁹–2³¹" in shown.caption
    for word in ("exact-angle allows", "float32-angle allows", "fast allows", "rounding of the output", "measured"):
        assert word in shown.svg


@pytest.mark.parametrize("worst", [1e-9, 1.0, 3e38, 1e300, math.inf])
def test_pictures_stay_within_their_frame(tmp_path: Path, worst: float) -> None:
    score: float | str = "inf" if worst == math.inf else worst
    beyond = 12 if worst > 1 else None
    own = cells(tmp_path, sample.measure(score, beyond=beyond, error=min(worst, 2.0)))
    for shown in (error_by_position("a", "float32", own, ()), heat_map("b", "float32", own)):
        root = ElementTree.fromstring(shown.svg)
        width, height = map(float, root.attrib["viewBox"].split()[2:])
        for use in [*root.iter(_SVG + "use"), *root.iter(_SVG + "text")]:
            assert -1 <= float(use.attrib["x"]) <= width + 1
            assert -1 <= float(use.attrib["y"]) <= height + 1


def test_what_is_above_the_bound_is_marked(tmp_path: Path) -> None:
    own = cells(tmp_path, sample.measure(0.5, 1.0, 1.001, 40.0, beyond=12))
    shown = heat_map("a", "float32", own)
    assert len(points(shown, "fail")) == 2
    assert "The worst score is 40, at positions 10¹–10²; 2 of the cells are above the bound." in shown.caption


def test_many_pairs_share_a_column(tmp_path: Path) -> None:
    [cell] = cells(tmp_path, sample.measure(*(0.001 * pair for pair in range(130))))
    assert binned(cell, 3)[:2] == [0.002, 0.005]
    assert len(binned(cell, 3)) == 44
    shown = heat_map("a", "float32", [cell])
    assert "pair, 3 to a column" in shown.svg
    assert len(shown.svg) < 20_000


def test_pairs_not_judged_are_blank(tmp_path: Path) -> None:
    [cell] = cells(tmp_path, sample.measure(0.5, decade=2) | {})
    gap = Cell(**{**cell.__dict__, "pairs": (None, (0.5, "x"), None, None)})
    assert binned(gap, 2) == [0.5, None]


def test_ulps_are_told_by_side() -> None:
    shown = ulp_histogram("a", "bfloat16", {0: 90, 1: 4, 2: 1, -1: 5})
    assert (
        "90.0% of 100 elements are the nearest value; 5 lie below it, 5 above, the farthest by 2 ulps." in shown.caption
    )
    far = ulp_histogram("b", "bfloat16", {0: 1, 12: 1})
    assert "the farthest by more than 1,024 ulps" in far.caption


def test_every_row_of_a_large_pool_can_be_seen() -> None:
    shown = pool_picture("a", [pool(rows=10**6, wrong=((17, 18),))])
    [bar] = [p for p in ElementTree.fromstring(shown.svg).iter(_SVG + "path") if "var(--fail)" in p.attrib["style"]]
    numbers = list(map(float, _NUMBER.findall(bar.attrib["d"])))
    assert max(numbers[::2]) - min(numbers[::2]) >= 2
    assert "1 wrong" in shown.caption


def test_each_state_of_a_night_has_its_own_height() -> None:
    shown = states("a", ["x"] * 4, ["conforms", "fails", "incomplete", "conforms"])
    heights = [points(shown, colour)[0][1] for colour in ("pass", "fail", "warn")]
    assert len(set(heights)) == 3
    assert shown.caption == "How each night ended: 2 conforms, 1 fails, 1 incomplete."


def test_powers_of_ten() -> None:
    assert [power_of_ten(10.0**n) for n in (-6, -2, 0, 2, 3, 9)] == ["10⁻⁶", "0.01", "1", "100", "10³", "10⁹"]


def test_matplotlib_is_imported_only_to_draw() -> None:
    code = "import sys, reports.page; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2]).returncode == 0
