"""A stream left alone: constant time, constant memory, and sums that hold. `python -m benchmarks.long_stream`.

1. Storvik's filter on AR(1), 100 particles: time of a block of steps at t = 0 and at t = 100,000, interleaved; bytes.
2. Ten million float32 updates of a conjugate statistic on a known path, against the same sums in float64.
"""

from __future__ import annotations

from tests.support.long_stream import drift_of_statistics, time_of_late_steps

from benchmarks.tables import write_table


def main() -> None:
    results = {"time": time_of_late_steps(100_000, 100), "drift after 1e7 updates": drift_of_statistics(10_000_000)}
    print(results)
    write_table("long_stream", results)


if __name__ == "__main__":
    main()
