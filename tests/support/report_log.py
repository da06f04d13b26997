"""A log of load reports that a test can read."""

from pulsar_barycenter.load.reports.load_report import LocalBrokerData


class MemoryReportLog:
    """Keeps reports in `reports`, oldest first."""

    def __init__(self) -> None:
        self.reports: list[LocalBrokerData] = []

    def append(self, report: LocalBrokerData) -> None:
        self.reports.append(report)

    def close(self) -> None:
        pass
