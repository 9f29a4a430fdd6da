"""The way out: what a run left in its workspace becomes a change set, with its diff and its contents.

`collecting` is the door. `layers` reads an overlay, `comparing` a whole copy; `gathering` sorts and counts, `ignored`
asks the base's ignore rules, `sides` reads and masks, `keeping` keeps, `difference` has git spell the diff.
"""
