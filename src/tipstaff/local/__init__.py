"""Embedded: a plane and a runner in one process, on the state of one home; the same walk as with servers.

`embedded` joins them by an in-process client that passes the same bytes as HTTP would, `opening` is the plane alone,
`policies` says which policy holds. Import from these: whoever looks at history does not pay for a sandbox.
"""
