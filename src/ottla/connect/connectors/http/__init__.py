"""Records to an HTTP service, with the settings of Confluent's HTTP sink."""
