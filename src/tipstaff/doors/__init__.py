"""The doors: every way in from outside, one folder each.

A door turns what a caller sends into a `Request`, and what came of it into an answer. It takes no decision of its
own, and no door imports another.
"""
