# Cloudflare's pint, without a server to ask: what is known of rules by reading them.
checks {
  # What a job is called is recorded by the group of capacities, and used by that of costs an evaluation later; it does not change.
  disabled = ["rule/dependency"]
}
