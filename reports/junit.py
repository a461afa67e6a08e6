"""Runs as JUnit XML, for the tools that read test results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from reports.model import BROKEN, FAILED, Case, Finished, Run, Trouble
from reports.verdict import conclude

# Characters that XML 1.0 has no way to write (its production 2, "Char").
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HEADER = '<?xml version="1.0" encoding="utf-8"?>\n'
_NO_FACTS = {"kind", "format", "classes", "limits", "terms", "probes", "allowed", "versions"}


def render(runs: Sequence[Run]) -> str:
    """A `testsuite` for each run: its tests, what befell it, and whether its record supports a verdict.

    Failures hold the texts of the findings; tests of the suite that broke are errors. Findings that do not decide
    stand in the output of a test that passed.
    """
    root = Element("testsuites", name="conformance")
    suites = [_suite(run) for run in runs]
    for attribute in ("tests", "failures", "errors", "skipped"):
        root.set(attribute, str(sum(int(suite.get(attribute, "0")) for suite in suites)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in suites):.3f}")
    root.extend(suites)
    indent(root)
    return f"{_HEADER}{tostring(root, encoding='unicode')}\n"


def _suite(run: Run) -> Element:
    suite = Element("testsuite", name=_text(f"{run.facts['target']} ({run.facts['device']})"))
    suite.set("timestamp", _text(min(part.started for part in run.parts)))
    suite.append(_properties(run))
    found: dict[str, list[Case]] = {}
    for case in run.found:
        found.setdefault(case.test, []).append(case)
    for test in run.tests:
        suite.append(_test(test, found.get(test.id, [])))
    for trouble in run.troubles:
        suite.append(_trouble(trouble))
    suite.append(_record(run))
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    suite.set("skipped", "0")
    suite.set("time", f"{sum(test.seconds for test in run.tests):.3f}")
    return suite


def _properties(run: Run) -> Element:
    properties = Element("properties")
    facts = {name: value for name, value in run.facts.items() if name not in _NO_FACTS}
    for name, value in {**facts, **run.facts["versions"], "decides": run.decides}.items():
        SubElement(properties, "property", name=_text(name), value=_text(str(value)))
    return properties


def _test(test: Finished, cases: Sequence[Case]) -> Element:
    module, _, name = test.id.partition("::")
    element = _testcase(module.removesuffix(".py").replace("/", "."), name or test.id, test.seconds)
    if test.outcome == FAILED:
        _tell(element, "failure", f"failed {', '.join(test.failed) or 'no requirement'}", _findings(cases))
    elif test.outcome == BROKEN:
        _tell(element, "error", "the suite broke", test.text)
    elif cases:
        SubElement(element, "system-out").text = _text(_findings(cases))
    return element


def _findings(cases: Sequence[Case]) -> str:
    if not cases:
        return "The record holds its findings; those of other cases tell as much."
    return "\n\n".join(_case(case) for case in cases)


def _case(case: Case) -> str:
    lines = [f"case: {case.line}", *([f"note: {case.note}"] if case.note else [])]
    for finding in case.findings:
        lines.append(f"{finding.severity} of {finding.requirement}: {finding.what}")
        lines += [f"  {text}" for text in (finding.where, finding.extent, finding.looks_like) if text]
    return "\n".join(lines)


def _trouble(trouble: Trouble) -> Element:
    element = _testcase(trouble.what, trouble.where or "the run", 0.0)
    _tell(element, "error", trouble.what, trouble.text)
    return element


def _record(run: Run) -> Element:
    """An error where the record supports no verdict: else a run that died would be as green as its last test."""
    element = _testcase("record", "it supports a verdict", 0.0)
    if notices := [notice.text for notice in conclude(run).notices if notice.blocks]:
        _tell(element, "error", "the record supports no verdict, or not alone", "\n".join(notices))
    return element


def _testcase(classname: str, name: str, seconds: float) -> Element:
    return Element("testcase", classname=_text(classname), name=_text(name), time=f"{seconds:.3f}")


def _tell(element: Element, tag: str, message: str, text: str) -> None:
    SubElement(element, tag, message=_text(message)).text = _text(text)


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
