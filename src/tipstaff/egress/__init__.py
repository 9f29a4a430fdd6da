"""The only way out of a sandbox: a gate that lets through what the contract names, and writes every attempt down.

`terms` decides, and touches nothing. `gate` serves the listening socket that lies inside the sandbox's own network.
What its clients send is hostile until it has been parsed by `heads`, `bodies` and `hello`.
Nothing is imported here: a run without a network does not pay for one.
"""
