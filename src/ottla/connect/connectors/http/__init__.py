"""The HTTP sink, with the settings of Confluent's."""
