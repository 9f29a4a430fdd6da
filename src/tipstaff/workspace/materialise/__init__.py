"""A manifest and its blobs become a folder again, on any machine, with every digest checked before use.

`making` is the door. `packing` and `unpacking` are for trees, `history` with `bundles` and `objects` for repositories;
`planting` writes beneath the folder, `bounds` says how much, and which names.
"""
