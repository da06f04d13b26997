"""How a process of ours logs: events with fields, as lines of JSON in a file or as text on a terminal."""

import logging
import sys

import structlog


def configure_logging(*, as_json: bool, level: int = logging.INFO) -> None:
    """Send structlog's events of `level` and above to standard error."""
    renderer: structlog.typing.Processor
    renderer = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
