"""Scrapes of a running exporter: a URL -> an exposition -> typed series -> rates, for `top` and `explain --confirm`."""
