"""The problems of the benchmark: model, priors, data and log likelihood of each.

The model is what a filter gets. The log likelihood is written in NumPy and shares no code with the library, so that a
mistake of the library cannot be in both. Data come from NumPy as well: seeds 0 to 7, float64, NaN where missing.

| problem | parameters | what is hard |
|---|---|---|
| ar1_300, ar1_3000 | phi, q, r | nothing: wide priors |
| ar1_far_300 | phi, q, r | q is 3 prior sds out |
| ar1_tiny_noise | phi, q, r | r is 4.6 prior sds out, and weakly identified |
| ar1_missing_300, ar1_missing_3000 | phi, q, r | a third of the observations is missing |
| ar1_outlier_10, _20, _50, _late_20 | phi, q, r | one outlier of as many sds of y |
| structural | four sds | two weakly identified sds, state of 3 numbers |
| counts | mu, phi, sigma | Poisson observations |
| student_t | phi, q, r | observation noise with heavy tails |
| sv | mu, phi, sigma | mu and phi depend on each other as phi nears 1 |
| sin | theta | nonlinear transition, theta is 3.5 prior sds out |
| lotka_volterra | four rates, sigma | nonlinear transition of two numbers |
| funnel | s, mu | the width of mu depends on s: 30 observations |
| ridge | a, b, q | the data know a b alone: a long curved ridge |
| bimodal | a, phi, r | a and -a fit almost equally well |
| bimodal_label | phi_1, phi_2, r | phi_1 and phi_2 may change places |
| bimodal_sin | theta | several values of theta explain 12 observations |
| eight | eight | many parameters, state of 3 numbers, two series |
| misspecified | phi, q, r | the data are a random walk with jumps, and noise with heavy tails |
| two_outliers | phi, q, r | two outliers of 15 sds of y, with opposite signs |
| near_unit_root | phi, q, r | phi is 0.999, and q is 3 prior sds out |
| flat | phi, q, r | 15 observations: the posterior is almost the prior |
| counts_overdispersed | mu, phi, sigma | counts with more variance than Poisson |

>>> problem = PROBLEMS["ar1_missing_300"]
>>> ys = problem.data(0)
>>> ys.shape, int(np.sum(np.isnan(ys)))
((300,), 99)
"""

from __future__ import annotations

import numpy as np

from benchmarks.truth.autoregressions import COUNTS, STUDENT_T, SV, ar1
from benchmarks.truth.hard_problems import HARD
from benchmarks.truth.other_models import LOTKA_VOLTERRA, SIN, STRUCTURAL

PROBLEMS = {
    problem.name: problem
    for problem in (
        ar1("ar1_300", 1, 300),
        ar1("ar1_3000", 2, 3000),
        ar1("ar1_far_300", 3, 300, q=float(np.exp(3.0))),  # phi and r are as before
        ar1("ar1_tiny_noise", 4, 300, r=0.01),
        ar1("ar1_missing_300", 5, 300, missing=1 / 3),
        ar1("ar1_missing_3000", 6, 3000, missing=1 / 3),
        # one stream: the three differ in the outlier alone
        ar1("ar1_outlier_10", 7, 300, outlier=10.0),
        ar1("ar1_outlier_20", 7, 300, outlier=20.0),
        ar1("ar1_outlier_50", 7, 300, outlier=50.0),
        ar1("ar1_outlier_late_20", 8, 3000, outlier=20.0),
        SV,
        COUNTS,
        SIN,
        STUDENT_T,
        STRUCTURAL,
        LOTKA_VOLTERRA,
        *HARD,
    )
}
