"""The command line: `ottla <verb>`, and Kafka's own tool names with Kafka's own flags."""
