"""Benchmarks on the suite's own cases: `pytest conformance/bench`; `pytest conformance` leaves them alone."""
