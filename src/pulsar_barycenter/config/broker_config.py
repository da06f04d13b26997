"""The keys of broker.conf, typed: names, units and defaults are Pulsar's unless the description says otherwise.

Defaults are those of the newest version (`pulsar_version`). A percentage stays a whole number from 0 to 100 as Pulsar
writes it. Keys that Pulsar counts in whole minutes or seconds take fractions here. Those that Pulsar has stand in
`serving_config`, `security_config` and `load_balancing_config`, our own here. Source: `ServiceConfiguration`.
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
    """The configuration of one broker. Values are checked when they are parsed (`broker_conf`), not here."""

    # ---- Barycenter's own ----
    barycenter_pulsar_compatibility: Annotated[
        PulsarVersion,
        about("Whose load balancing and defaults are followed; a key that is set wins. See pulsar-versions.md."),
    ] = "5.x"
    barycenter_data_dir: Annotated[
        str,
        about(
            "Folder of the ledgers (`ledgers`), load reports (`load-reports`), decisions (`decisions`), changes by "
            "administrators (`audit`) and of what the pipeline publishes (`pipeline/publication`) and keeps "
            "(`tables`).",
            own=True,
        ),
    ] = "data"
    barycenter_log_level: Annotated[
        Literal["debug", "info", "warn", "error"],
        about("Least level of events in the process log. The variable PULSAR_LOG_LEVEL comes first; see logs.md."),
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
        about("Age of the pipeline's figures at which the leader goes by its own until newer ones come.", dynamic=True),
    ] = 60.0
    barycenter_extensible_pipeline_enabled: Annotated[
        bool, about("The extensible load manager goes by the pipeline's windows while it keeps up.", dynamic=True)
    ] = False
    barycenter_drained_brokers: Annotated[
        DrainedBrokers,
        about(
            "Ids of brokers that get no bundle while another may serve it; `barycenter drain` sets it. A comma alone: "
            "nobody.",
            dynamic=True,
        ),
    ] = ()
    load_balancer_host_usage_scope: Annotated[
        Literal["process", "host"], about("Whose CPU and network count as the broker's load.")
    ] = "process"
    leader_only_metadata_writes: Annotated[
        Literal["false", "administration", "true"],
        about("Who writes: any broker; the leader what administrators change; the leader all but what is of topics."),
    ] = "false"

    barycenter_unauthenticated_network_allowed: Annotated[
        bool,
        about("Listen beyond loopback where whoever reaches the ports may do everything. See security.md."),
    ] = False

    @property
    def effective_advertised_address(self) -> str | None:
        """The address to advertise; None says that it is the name of the host, which is not known here."""
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
        """Whether others than this machine reach the ports, and may do everything, whoever they are."""
        return self.opened_to_strangers_by is not None

    @property
    def opened_to_strangers_by(self) -> str | None:
        """The settings by which that is so; None if it is not."""
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
        return self.metadata_store_url or f"sqlite:{self.barycenter_data_dir}/metadata.sqlite"
