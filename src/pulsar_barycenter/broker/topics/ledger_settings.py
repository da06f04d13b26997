"""The settings of topics' ledgers, from the broker's configuration."""

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.settings import LedgerSettings


def ledger_settings(config: BrokerConfig) -> LedgerSettings:
    """Return the settings that ledgers are opened with."""
    return LedgerSettings(
        max_entries_per_ledger=config.managed_ledger_max_entries_per_ledger,
        max_bytes_per_ledger=config.managed_ledger_max_size_per_ledger_mbytes << 20,
        mark_delete_per_second=config.managed_ledger_default_mark_delete_rate_limit,
        skip_non_recoverable=config.auto_skip_non_recoverable_data,
    )
