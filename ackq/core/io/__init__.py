"""Connections and drivers, blocking and asyncio: the only code that touches a socket."""
