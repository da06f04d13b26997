"""The keys of broker.conf with their types. Names, units and defaults are Pulsar's unless the description says
otherwise.

Defaults are those of the newest version (`pulsar_version`). A percentage is a whole number from 0 to 100, as in Pulsar.
Keys that are whole minutes or seconds in Pulsar may have fractions here. Pulsar's keys are in `serving_config`,
`security_config` and `load_balancing_config`, Barycenter's own in this module.

Source: Pulsar's `ServiceConfiguration`.
"""

import ipaddress
from typing import Annotated, Literal

from pulsar_barycenter.config.key import (
    DrainedBrokers,
    IntervalSeconds,
    Positive,
    about,
    key_name,
)
from pulsar_barycenter.config.load_balancing_config import LoadBalancingConfig
from pulsar_barycenter.config.pulsar_version import PulsarVersion


class BrokerConfig(LoadBalancingConfig, frozen=True, kw_only=True, rename=key_name):
    """The configuration of one broker. Values are validated when they are parsed (`broker_conf`), not by this class."""

    # ---- Barycenter's own ----
    barycenter_pulsar_compatibility: Annotated[
        PulsarVersion,
        about(
            "Version of Pulsar whose load balancing and defaults apply; a key that is set overrides its default. "
            "See pulsar-versions.md."
        ),
    ] = "5.x"
    barycenter_data_dir: Annotated[
        str,
        about(
            "Folder of ledgers (`ledgers`), load reports (`load-reports`), decisions (`decisions`), changes by "
            "administrators (`audit`), and of the pipeline's publications (`pipeline/publication`) and tables "
            "(`tables`).",
            own=True,
        ),
    ] = "data"
    barycenter_log_level: Annotated[
        Literal["debug", "info", "warn", "error"],
        about("Lowest level of events in the process log. The variable PULSAR_LOG_LEVEL overrides this; see logs.md."),
    ] = "info"
    load_report_log_enabled: Annotated[bool, about("Append every load report to the log that the pipeline reads.")] = (
        True
    )
    load_report_log_retention_hours: Annotated[
        Positive, about("Age at which load reports are removed from the log.", unit="h")
    ] = 24.0
    barycenter_load_report_topic_enabled: Annotated[
        bool, about("Publish every load report to `persistent://pulsar/system/load-reports` as well, keyed by broker.")
    ] = False
    load_balancer_pipeline_max_lag_seconds: Annotated[
        IntervalSeconds,
        about("Age of the pipeline's values from which the leader uses its own until newer ones arrive.", dynamic=True),
    ] = 60.0
    barycenter_extensible_pipeline_enabled: Annotated[
        bool,
        about(
            "The extensible load manager uses the pipeline's averages of load reports while these are current.",
            dynamic=True,
        ),
    ] = False
    barycenter_drained_brokers: Annotated[
        DrainedBrokers,
        about(
            "Ids of brokers that get no bundle while another one can serve it; `barycenter drain` sets it. A single "
            "comma: no broker.",
            dynamic=True,
        ),
    ] = ()
    load_balancer_host_usage_scope: Annotated[
        Literal["process", "host"],
        about("Whether CPU and network usage of the process or of the host is the broker's load."),
    ] = "process"
    leader_only_metadata_writes: Annotated[
        Literal["false", "administration", "true"],
        about(
            "Who writes metadata. false: every broker; administration: the leader, what administrators change; true: "
            "the leader, everything except records of topics."
        ),
    ] = "false"

    barycenter_unauthenticated_network_allowed: Annotated[
        bool,
        about(
            "Listen beyond loopback although every client that reaches the ports may do everything. See security.md."
        ),
    ] = False

    @property
    def effective_advertised_address(self) -> str | None:
        """The host name or address that this broker advertises to clients; None if the name of the machine is to be
        used.
        """
        if self.advertised_address:
            return self.advertised_address
        if self.bind_address == "localhost":
            return "127.0.0.1"
        try:
            address = ipaddress.ip_address(self.bind_address)
        except ValueError:
            return self.bind_address
        if address.is_loopback:
            return "127.0.0.1" if address.version == 4 else str(address)
        return None if address.is_unspecified else str(address)

    @property
    def is_open_to_strangers(self) -> bool:
        """Whether clients on other machines can connect, and may do everything without authentication."""
        return self.opened_to_strangers_by is not None

    @property
    def opened_to_strangers_by(self) -> str | None:
        """The settings that make `is_open_to_strangers` True, as text for a message; None if it is False."""
        try:
            is_loopback = ipaddress.ip_address(self.bind_address).is_loopback
        except ValueError:
            is_loopback = self.bind_address == "localhost"
        if is_loopback:
            return None
        if not self.authentication_enabled:
            return "authenticationEnabled=false"
        role = self.anonymous_user_role
        if role and not self.authorization_enabled:
            return f"anonymousUserRole={role} and authorizationEnabled=false"
        if role and role in self.super_user_roles:
            return f"anonymousUserRole={role} among superUserRoles"
        return None

    @property
    def effective_metadata_store_url(self) -> str:
        """The address of the metadata store; by default a file in the data folder."""
        return self.metadata_store_url or f"sqlite:{self.barycenter_data_dir}/metadata.sqlite"
