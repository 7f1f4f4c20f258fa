"""The conductor behind perf/compare: one module a concern, the standard library alone."""
