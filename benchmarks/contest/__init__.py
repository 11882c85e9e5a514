"""Every algorithm on the same data, judged by the same reference, per second of CPU: see benchmarks/PROTOCOL.md."""
