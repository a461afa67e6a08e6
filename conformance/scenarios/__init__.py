"""Named scenarios: functions from a profile to the Cases of one test."""
