"""Look at a run, and say what was found in words."""

from paramfilter.diagnostics.codes import CODES, Code, explain
from paramfilter.diagnostics.diagnosis import Diagnosis, Finding, Record, diagnose, examine

__all__ = ["CODES", "Code", "Diagnosis", "Finding", "Record", "diagnose", "examine", "explain"]
