"""The dashboard: pages that read completely without scripts, made in the process of a call, from what the tools know."""
