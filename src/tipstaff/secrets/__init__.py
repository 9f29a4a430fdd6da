"""Secrets: where they are kept and read, to whom they are leased, and how they are kept out of all that is written.

A value is known here and to those it is released to; names, counts and reasons are all that leaves for anything else.
Does not decide who may have a secret: that is the policy's business.
"""
