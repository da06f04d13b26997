"""Tests on clusters of Apache Pulsar, one for each of its load managers, that all files of this folder share."""
