"""The way in: a folder becomes a manifest, and a base in the depot.

`capturing` is the door; `taking` makes one attempt, with `scan` (what is there), `filling` (copied and hashed) and
`remembered` (what is known from the last time). `repository` and `pointers` look at a git repository without trusting
it, `shallow` packs its commit, `whole` its history. Names that `denied` matches never come along.
"""
