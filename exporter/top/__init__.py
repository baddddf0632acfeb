"""`top`: the metrics of a running exporter as a live table. Needs no kernel and no root.

scraper: target -> View. rendering: View and Screen -> Lines. terminal and plain print them.
"""
