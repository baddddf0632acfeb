"""What many nodes push, stored in one place: ingest over OTLP, and a store of hourly DuckDB files. Needs no privileges."""
