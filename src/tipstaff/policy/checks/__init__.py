"""One file for each part of a request that policy judges; each writes its findings down and gives what it grants.

A check never raises and never stops at its first finding: a requester who is told everything asks once more, not ten
times. None of them knows the others; `judge` puts their answers together.
"""
