"""Look at a run, and say what was found in words."""

from paramfilter.diagnostics.codes import CODES, Code, explain
from paramfilter.diagnostics.diagnosis import Diagnosis, Finding, diagnose

__all__ = ["CODES", "Code", "Diagnosis", "Finding", "diagnose", "explain"]
