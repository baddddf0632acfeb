"""`serve` and `mcp`: the tools over HTTP and over the Model Context Protocol, in a process without privileges."""
