"""The Grafana boards: each answers one question. `make golden` writes them as JSON into the folder `grafana`."""
