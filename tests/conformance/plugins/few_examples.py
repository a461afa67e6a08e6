"""The nightly profile with few generated cases."""

from __future__ import annotations

from dataclasses import replace

from conformance.profile import PROFILES

PROFILES["nightly"] = replace(PROFILES["nightly"], examples=40)
