"""A plane far away, with the face of the embedded one: what a command line or a program needs to ask it and believe it.

Synchronous, over HTTP; `carrying` alone has an event loop. Nothing that arrives is believed for its sender's sake: JSON
is read strictly, blobs are hashed, and proofs are checked with the plane's key that was pinned for its address.
"""
