"""Workspaces: captured from a folder, made again elsewhere, looked at after a run, and brought back by a person.

`capture` turns a folder into a manifest; a `depot` holds what was captured as folders that runs look at copy-on-write;
`materialise` makes one from blobs; `collect` finds what a run changed; `apply` brings it back, `undo` takes it away.
Nothing here follows a link, trusts a name, or runs git on a directory that a sandbox could write.
"""
