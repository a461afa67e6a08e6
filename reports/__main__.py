"""`python -m reports RECORD.jsonl`: write the HTML report of a recorded run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn

from reports.page import render
from reports.record import RecordError, read

USAGE_ERROR = 4


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, and the exit status of the suite's usage errors."""
        self.exit(USAGE_ERROR, f"error: {message}\n")


def main(arguments: list[str] | None = None) -> int:
    """0: the report is written, whatever it says; 4: the record cannot be read or the report not written."""
    parser = _Parser(prog="python -m reports", description=__doc__)
    parser.add_argument("record", type=Path, metavar="RECORD.jsonl", help="what pytest --record wrote")
    parser.add_argument("-o", "--output", type=Path, metavar="REPORT.html", help="next to the record by default")
    parsed = parser.parse_args(arguments)
    output = parsed.output or parsed.record.with_suffix(".html")
    try:
        record = read(parsed.record)
    except RecordError as error:
        parser.error(" ".join(str(error).splitlines()))
    if output.resolve() == parsed.record.resolve():
        parser.error(f"the report would overwrite its record {output}; name another file with -o")
    try:
        # A record may hold half a surrogate pair, which UTF-8 cannot.
        output.write_text(render(record), encoding="utf-8", errors="replace")
    except OSError as error:
        parser.error(f"cannot write {output}: {error.strerror}")
    print(output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
