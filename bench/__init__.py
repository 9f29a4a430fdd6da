"""Measurements: `make bench`. Each file measures one part; `__main__` runs them and prints one JSON object last."""
