"""The HTTP/1.1 client of the exporter: pushes, orchestrator APIs and scrapes share it.

h11 parses, and this package owns the socket: urllib3 would add 1.2 MiB to the resident set and has timeouts per wait only, and
http.client takes a connection that closes inside the headers for a complete response.
"""
