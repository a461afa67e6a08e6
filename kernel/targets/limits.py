"""What a target cannot show: its section of kernel/LIMITS.md, for the report."""

from __future__ import annotations

from pathlib import Path

_LIMITS = Path(__file__).resolve().parents[1] / "LIMITS.md"


def not_evidenced(target: str) -> tuple[str, ...]:
    """The list items of the section `Not evidenced by TARGET`, as sentences without markup."""
    _, found, rest = _LIMITS.read_text(encoding="utf-8").partition(f"## Not evidenced by `{target}`\n")
    assert found, f"LIMITS.md has no section for {target}"
    section = rest.partition("\n## ")[0]
    items = (" ".join(item.split()) for item in section.split("\n- ")[1:])
    return tuple(item.replace("**", "").replace("`", "") for item in items)
