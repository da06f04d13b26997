"""A Pulsar-compatible broker cluster that balances itself, with its load-data pipeline on Spark."""
