"""What servers without privileges share: flags, tokens, rate limits, certificates, connections, and the HTTP server."""
