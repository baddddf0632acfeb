"""`top`: what `/metrics` knows, as a live table. Reads scrapes over HTTP; needs no kernel, no root and no exporter at hand.

fetching: URL -> bytes. exposition: bytes -> Scrape. rates: two Scrapes -> View. rendering: View and Screen -> Lines.
terminal and plain show them.
"""
