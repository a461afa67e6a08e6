"""A rendered page, taken apart."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import sample_record as sample

from reports.page import render
from reports.record import read

_VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """The page's texts by element, its ids and links; fails on tags that do not pair up."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        """Tag, name and value."""
        self.texts: dict[str, list[str]] = {}
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        values = dict(attrs)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [values["href"] or ""] if "href" in values else []
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data

    def text(self, tag: str = "main") -> str:
        return "\n".join(self.texts.get(tag, []))

    @property
    def facts(self) -> dict[str, str]:
        """What every `dl` tells: the last word on each name."""
        return dict(zip(self.texts["dt"], self.texts["dd"], strict=True))


def page(tmp_path: Path, *records: list[sample.Line], rest: str = "", **told: Any) -> Page:
    """The page of some records; told: what `render` is told beside the runs."""
    paths = [sample.write(tmp_path / f"r{n}.jsonl", lines, rest) for n, lines in enumerate(records)]
    return Page(render(read(paths), **told))
