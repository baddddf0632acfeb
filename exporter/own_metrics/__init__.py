"""Values of the exporter's metrics about itself: every part sets its own, the outputs read them all."""
