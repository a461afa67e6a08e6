"""Inline SVG from matplotlib: colours that the page decides, texts that are text, ids that cannot collide."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that stand for the page's CSS variables, so that one picture serves light, dark and paper.
TEXT, QUIET, LINE, PANEL = "#010101", "#010102", "#010103", "#010104"
PASS, FAIL, WARN, FINDING = "#020201", "#020202", "#020203", "#020204"
SERIES = ("#030301", "#030302", "#030303")
HEAT = ("#040401", "#040402", "#040403", "#040404", "#040405", "#040406")
_VARIABLES = {
    TEXT: "text",
    QUIET: "quiet",
    LINE: "line",
    PANEL: "panel",
    PASS: "pass",
    FAIL: "fail",
    WARN: "warn",
    FINDING: "finding",
    **{colour: f"series-{place}" for place, colour in enumerate(SERIES)},
    **{colour: f"heat-{place}" for place, colour in enumerate(HEAT)},
}
DASHES = ("-", (0, (6, 2)), (0, (1.5, 1.5)))
MARKERS = ("o", "s", "^")
"""Beside SERIES: no line is known by its colour alone."""

_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    # A name that holds dollar signs is no formula.
    "text.parse_math": False,
    "font.size": 11,
    "text.color": TEXT,
    "axes.labelcolor": QUIET,
    "axes.edgecolor": LINE,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": QUIET,
    "ytick.labelcolor": QUIET,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "hatch.linewidth": 1,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
}
_POINTS_PER_INCH = 72
_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#([^)]*)\)")
_FONT = re.compile(r"font-family:[^;]*;?\s*")
_DECIMALS = re.compile(r"(\d+\.\d)\d+")
# What XML 1.0 cannot hold.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COLOUR = re.compile(r"#0[0-9a-f]{5}\b")


@dataclass(frozen=True)
class Picture:
    """A drawing that the page holds inline; the caption says what is to be seen."""

    svg: Markup
    caption: str


def printable(text: str) -> str:
    """`text` without the characters that a drawing cannot hold."""
    return _UNPRINTABLE.sub("\ufffd", text)


def draw(
    name: str,
    title: str,
    description: str,
    size: tuple[float, float],
    paint: Callable[[Figure], None],
    *,
    placed: bool = False,
) -> Markup:
    """An SVG element painted by `paint`.

    Args:
        name: unique in the page; every id in the drawing begins with it.
        title, description: what it says to those who do not see it.
        size: width and height in CSS pixels at its natural size.
        placed: whether `paint` places its axes itself.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        # Browsers have the glyphs that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        inches = (size[0] / _POINTS_PER_INCH, size[1] / _POINTS_PER_INCH)
        figure = Figure(figsize=inches, layout=None if placed else "constrained")
        paint(figure)
        written = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(written, format="svg", transparent=True, metadata=nothing)
    root = ElementTree.fromstring(written.getvalue())
    _tidy(root, name)
    _name(root, name, title, description)
    ElementTree.register_namespace("", _SVG.strip("{}"))
    # The one source of markup beside the templates: ElementTree has escaped every text.
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def powers(axes: Axes, *, x: bool = False) -> None:
    """Label a log axis by powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis = axes.xaxis if x else axes.yaxis
    axis.set_major_locator(LogLocator(numticks=7))
    axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
    axis.set_minor_locator(NullLocator())


def power_of_ten(value: float) -> str:
    """A power of ten as an axis prints it: 0.01, 1, 10, 10 to the 6 with a raised exponent."""
    if 0.01 <= value <= 100:
        return f"{value:g}"
    exponent = f"{value:.0e}".partition("e")[2]
    return "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def legend(figure: Figure, columns: int, **options: Any) -> None:
    """Name the lines below the axes, if there are any."""
    if options or any(axes.get_legend_handles_labels()[0] for axes in figure.axes):
        figure.legend(loc="outside lower center", ncols=columns, fontsize=10, columnspacing=1.2, **options)


def _tidy(root: ElementTree.Element, name: str) -> None:
    """Leave nothing that could reach out of the drawing: global styles, fonts, ids of other drawings."""
    used = set(_references(root))
    for element in list(root.iter()):
        for child in [child for child in element if child.tag in (f"{_SVG}style", f"{_SVG}metadata")]:
            element.remove(child)
        own = element.attrib.pop("id", "")
        if own in used:
            element.set("id", f"{name}-{own}")
        if target := element.attrib.pop(_XLINK, ""):
            element.set("href", f"#{name}-{target[1:]}")
        for key, value in list(element.attrib.items()):
            element.set(key, _restyled(key, value, name))
        # Indentation and line ends between elements are a fifth of the file.
        if not (element.text or "").strip():
            element.text = None
        element.tail = None


def _references(root: ElementTree.Element) -> Iterator[str]:
    for element in root.iter():
        for value in element.attrib.values():
            yield from _REFERENCE.findall(value)
        if target := element.attrib.get(_XLINK):
            yield target[1:]


def _restyled(key: str, value: str, name: str) -> str:
    value = _REFERENCE.sub(rf"url(#{name}-\1)", value)
    if key == "style":
        value = _FONT.sub("", value)
        return _COLOUR.sub(lambda found: f"var(--{_VARIABLES.get(found[0], 'text')})", value)
    if key in ("d", "x", "y", "transform", "points"):
        return _DECIMALS.sub(r"\1", " ".join(value.split()))
    return value


def _name(root: ElementTree.Element, name: str, title: str, description: str) -> None:
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(_SVG + tag, {"id": f"{name}-{tag}"})
        element.text = printable(text)
        root.insert(place, element)
    for size in ("width", "height"):
        root.attrib.pop(size)
    root.attrib |= {
        "role": "img",
        "aria-labelledby": f"{name}-title {name}-desc",
        "style": "stroke-linejoin: round; stroke-linecap: butt",
    }
