"""Resampling: turn a weighted population into one of equal weights.

| part | points thrown on N slots | copies of particle i | use |
|---|---|---|---|
| `Systematic` | one random shift of a comb | within 1 of `N w_i` | the default: cheapest, least noise |
| `Multinomial` | independent | anything | theory that assumes independent draws |
| `WhenEssBelow` | another part's, when needed | | in almost every filter |

All are O(N), exact for float32 weights at any N below 2^31 (see `slots`), never choose a weight of zero,
and can be used under `jit`, `vmap` and `scan`.
"""

from paramfilter.resampling.base import Resampled, Resampling
from paramfilter.resampling.multinomial import Multinomial
from paramfilter.resampling.systematic import Systematic
from paramfilter.resampling.when_ess_below import WhenEssBelow

__all__ = ["Multinomial", "Resampled", "Resampling", "Systematic", "WhenEssBelow"]
