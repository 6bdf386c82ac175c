"""Kavka beside Apache Kafka: the same client and the same work, in turns on the same cores."""
