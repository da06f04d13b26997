"""Answers requests for the damaged ledgers that this broker found. This resource is Barycenter's own.

    GET /barycenter/v1/damaged-ledgers

returns the damaged ledgers of the topics that the broker has loaded, as far as they were read: topic, ledger, file, and
the positions that cannot be read (empty: the whole ledger). `barycenter ledger check` reads all ledgers of all topics.
"""

from aiohttp import web

from pulsar_barycenter.broker.rest.requests import json_response
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic


class DamagedLedgers:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    async def show(self, request: web.Request) -> web.Response:
        found = [
            {"topic": ledger.topic, "ledger": ledger.ledger_id, "file": ledger.file, "positions": ledger.positions}
            for topic in self._services.registry.loaded()
            if isinstance(topic, PersistentTopic)
            for ledger in topic.ledger.damaged_ledgers
        ]
        return json_response(found)
