"""The public names of the package, and where each comes from."""

from . import config as config
from . import errors as errors
from . import filters as filters
from . import models as models
from . import nodes as nodes
from . import particles as particles
from . import plots as plots
from . import proposals as proposals
from . import references as references
from . import resampling as resampling
from . import results as results
from . import structural as structural
from . import tables as tables
from .calibration import calibrate as calibrate
from .checkpoint import restore as restore
from .checkpoint import save as save
from .data import observations_from_table as observations_from_table
from .diagnostics import diagnose as diagnose
from .diagnostics import explain as explain
from .errors import ParamfilterError as ParamfilterError
from .filters import OutlierGate as OutlierGate
from .fleet import Fleet as Fleet
from .forecaster import Forecaster as Forecaster
from .model import StateSpaceModel as StateSpaceModel
from .model import simulate as simulate
from .outcome import Outcome as Outcome
from .particles import ParticleFilter as ParticleFilter
from .presets import auto_filter as auto_filter
from .presets import extended_parameter_filter as extended_parameter_filter
from .presets import liu_west_filter as liu_west_filter
from .presets import node_filter as node_filter
from .presets import sir_filter as sir_filter
from .presets import storvik_filter as storvik_filter
from .results import to_datatree as to_datatree
from .running import catch_up as catch_up
from .running import predict as predict
from .running import run as run

__all__: list[str]
__version__: str
