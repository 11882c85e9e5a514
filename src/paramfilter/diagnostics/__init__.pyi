"""The public names of the package, and where each comes from."""

from .codes import CODES as CODES
from .codes import Code as Code
from .codes import explain as explain
from .diagnosis import Diagnosis as Diagnosis
from .diagnosis import Finding as Finding
from .diagnosis import Record as Record
from .diagnosis import diagnose as diagnose
from .diagnosis import examine as examine
from .diagnosis import record_of as record_of

__all__: list[str]
