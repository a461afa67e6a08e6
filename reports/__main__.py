"""Reports of recorded runs: `build` writes the page, `night` compares with past nights, `accept` moves the baseline."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from reports import build, night

USAGE_ERROR = 4


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, and the exit status of the suite's usage errors."""
        self.exit(USAGE_ERROR, f"error: {message}; see {self.prog} --help\n")


def main(arguments: list[str] | None = None) -> int:
    """The exit status of the command; 4 where it could not be carried out."""
    parser = _Parser(prog="python -m reports", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="build|night|suspects|accept")
    build.add_command(commands)
    night.add_commands(commands)
    parsed = parser.parse_args(arguments)
    return int(parsed.run(parsed))


if __name__ == "__main__":
    sys.exit(main())
