"""A change set is brought into a folder by a person, and taken out of it again.

`choosing` says what would be done, `divergence` where the folder is no longer what it was, `hazards` what the host
would execute later. `writing` does it, all or nothing, `undo` keeps what was there, `branch` makes a commit instead.
"""
