"""Spark's web page is served to this machine alone, or not at all."""

import pytest

from pulsar_barycenter.pipeline.spark.session import page_refusal


@pytest.mark.parametrize("master", [None, "local[2]", "spark://127.0.0.1:7077", "spark://localhost:7077"])
def test_a_driver_on_loopback_may_serve_it(master: str | None) -> None:
    assert page_refusal(master, {}) is None


@pytest.mark.parametrize("master", ["spark://10.0.0.1:7077", "yarn", "k8s://https://kubernetes"])
def test_with_executors_on_other_machines_it_is_refused(master: str) -> None:
    assert "open to these machines" in (page_refusal(master, {}) or "")


def test_under_spark_submit_the_address_of_java_decides() -> None:
    submitted = {"PYSPARK_GATEWAY_PORT": "1"}
    assert "SPARK_LOCAL_IP=127.0.0.1" in (page_refusal("local[2]", submitted) or "")
    assert page_refusal("local[2]", submitted | {"SPARK_LOCAL_IP": "127.0.0.1"}) is None
