"""The fields of a load report and of a registration that identify the broker."""

from msgspec import UNSET

from pulsar_barycenter import version
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.load.managers import manager_in_force
from pulsar_barycenter.load.reports.extensible_reports import BrokerLookupData
from pulsar_barycenter.load.reports.load_report import AdvertisedListener, LocalBrokerData


def identity_report(context: LoadManagerContext) -> LocalBrokerData:
    """Return a load report that has only the broker's names, URLs and kinds of topics, and no load."""
    config, urls = context.config.current, context.urls
    return LocalBrokerData(
        broker_id=urls.broker_id,
        web_service_url=urls.web_url,
        web_service_url_tls=urls.web_url_tls,
        pulsar_service_url=urls.broker_url,
        pulsar_service_url_tls=urls.broker_url_tls,
        persistent_topics_enabled=config.enable_persistent_topics,
        non_persistent_topics_enabled=config.enable_non_persistent_topics,
        broker_version_string=version(),
        advertised_listeners=_listeners(urls),
        load_manager_class_name=manager_in_force(config).class_name,
        start_timestamp=context.started_at_ms,
        incarnation=context.incarnation,
        only_assigns=UNSET if context.balances else True,
    )


def lookup_data(context: LoadManagerContext) -> BrokerLookupData:
    """Return the data with which a broker with the extensible load manager registers."""
    config, urls = context.config.current, context.urls
    return BrokerLookupData(
        web_service_url=urls.web_url,
        web_service_url_tls=urls.web_url_tls,
        pulsar_service_url=urls.broker_url,
        pulsar_service_url_tls=urls.broker_url_tls,
        advertised_listeners=_listeners(urls),
        persistent_topics_enabled=config.enable_persistent_topics,
        non_persistent_topics_enabled=config.enable_non_persistent_topics,
        load_manager_class_name=manager_in_force(config).class_name,
        start_timestamp=context.started_at_ms,
        broker_version=version(),
        properties=context.ownership.properties(),
        incarnation=context.incarnation,
        only_assigns=UNSET if context.balances else True,
    )


def _listeners(urls: ServiceUrls) -> dict[str, AdvertisedListener]:
    return {
        name: AdvertisedListener(
            broker_service_url=listener.broker_url,
            broker_service_url_tls=listener.broker_url_tls,
            broker_http_url=listener.web_url,
            broker_https_url=listener.web_url_tls,
        )
        for name, listener in urls.listeners.items()
    }
