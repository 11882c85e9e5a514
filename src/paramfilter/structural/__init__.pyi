"""The public names of the package, and where each comes from."""

from .building import StructuralModel as StructuralModel
from .building import model as model
from .component import Component as Component
from .component import Components as Components
from .decomposing import Decomposition as Decomposition
from .decomposing import decompose as decompose
from .observing import ObservationKind as ObservationKind
from .observing import gaussian as gaussian
from .observing import negative_binomial as negative_binomial
from .observing import poisson as poisson
from .observing import student_t as student_t
from .regressing import autoregressive as autoregressive
from .regressing import regression as regression
from .seasons import cycle as cycle
from .seasons import freq_seasonal as freq_seasonal
from .seasons import seasonal as seasonal
from .trends import damped_trend as damped_trend
from .trends import fixed_intercept as fixed_intercept
from .trends import local_level as local_level
from .trends import local_linear_trend as local_linear_trend
from .trends import random_walk_with_drift as random_walk_with_drift
from .trends import smooth_trend as smooth_trend

__all__: list[str]
