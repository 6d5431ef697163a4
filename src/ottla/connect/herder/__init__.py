"""Who keeps the connectors: what is to run is in a topic, and workers share it among them."""
