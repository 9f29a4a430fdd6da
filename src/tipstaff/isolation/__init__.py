"""The rooms that commands run in: tiers, and the one small process that builds them.

`tier` says what every tier answers to. `bwrap` is the tier of Linux namespaces. What touches the kernel lives in the
spawner (`spawner` and what it imports), which uses the standard library alone and runs as a process of its own.
Decides nothing: a `Plan` comes decided.
"""
