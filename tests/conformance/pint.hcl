# Cloudflare's pint, without a server to ask: what is known of rules by reading them.
parser {
  schema = "prometheus"
}
