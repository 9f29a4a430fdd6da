"""The plane's door for other machines: HTTP, by Litestar on uvicorn.

Carries bytes between the wire and the plane, says who asks and bounds what is asked; decides nothing. Its modules are
imported only by those who serve: `app` builds, `serving` listens.
"""
