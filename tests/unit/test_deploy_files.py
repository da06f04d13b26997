"""The files in `deploy/` are valid for brokers, systemd and Kubernetes, and the page names all of them."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.config.broker_conf import parse_broker_conf
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.advice.configuration_advice import Severity, advice
from pulsar_barycenter.metadata.open import check_url

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "deploy.md").read_text()
MANIFESTS: list[Any] = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "barycenter.yaml").read_text()))
PIPELINE: list[Any] = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "pipeline.yaml").read_text()))
COMPOSE: Any = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())


def manifest(kind: str, name: str = "barycenter") -> Any:
    (found,) = (each for each in (*MANIFESTS, *PIPELINE) if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def configurations() -> Iterator[tuple[str, str]]:
    for file in sorted(DEPLOY.rglob("broker.conf")):
        yield str(file.relative_to(DEPLOY)), file.read_text()
    yield "kubernetes", manifest("ConfigMap")["data"]["broker.conf"]


@pytest.mark.parametrize(("name", "text"), list(configurations()))
def test_a_configuration_has_known_keys_and_opens_the_broker(name: str, text: str) -> None:
    for each in (text, re.sub(r"^# (?=\w+=)", "", text, flags=re.MULTILINE)):  # also with what is commented out
        result = parse_broker_conf(each, name)
        assert result.unknown_keys == ()
        assert [said for said in advice(result.config) if said.severity is not Severity.NOTE] == []
        check_url(result.config.metadata_store_url)
        assert result.config.bind_address == "0.0.0.0"
        assert result.config.barycenter_unauthenticated_network_allowed
        assert result.config.barycenter_data_dir == "/var/lib/barycenter"


def test_kubernetes_takes_every_manifest() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    executor = yaml.safe_load(manifest("ConfigMap", "barycenter-pipeline")["data"]["executor.yaml"])
    for each in (*MANIFESTS, *PIPELINE, executor):
        validate.validate(each, "1.37", strict=True)


def test_the_manifests_fit_one_another_and_the_broker() -> None:
    pods = manifest("StatefulSet")["spec"]
    labels = pods["template"]["metadata"]["labels"]
    (broker,) = pods["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in broker["ports"]}
    assert ports == {"pulsar": BrokerConfig().broker_service_port, "web": BrokerConfig().web_service_port}
    for name in ("barycenter", pods["serviceName"]):
        service = manifest("Service", name)["spec"]
        assert service["selector"] == labels
        assert {port["name"]: port["port"] for port in service["ports"]} == ports
    assert (
        manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == pods["selector"]["matchLabels"] == labels
    )
    mounts = {mount["mountPath"]: mount["name"] for mount in broker["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pods["template"]["spec"]["volumes"]}
    claim = volumes[mounts["/var/lib/barycenter"]]["persistentVolumeClaim"]["claimName"]
    assert manifest("PersistentVolumeClaim", claim)["spec"]["accessModes"] == ["ReadWriteMany"]
    assert volumes[mounts["/etc/barycenter"]]["configMap"]["name"] == manifest("ConfigMap")["metadata"]["name"]


def test_the_manifests_of_the_pipeline_fit_one_another_and_the_command(tmp_path: Path) -> None:
    name = "barycenter-pipeline"
    pods = manifest("Deployment", name)["spec"]
    pod = pods["template"]["spec"]
    (driver,) = pod["containers"]
    assert (pods["replicas"], pods["strategy"]["type"]) == (1, "Recreate")
    labels = pods["template"]["metadata"]["labels"]
    assert pods["selector"]["matchLabels"] == labels == manifest("Service", name)["spec"]["selector"]
    files = manifest("ConfigMap", name)["data"]
    settings = dict(line.split() for line in files["spark-defaults.conf"].splitlines() if line and line[0] != "#")
    ports = {port["name"]: port["containerPort"] for port in driver["ports"]}
    assert {port["name"]: port["port"] for port in manifest("Service", name)["spec"]["ports"]} == ports
    assert ports == {"driver": int(settings["spark.driver.port"]), "blocks": int(settings["spark.blockManager.port"])}
    account = manifest("ServiceAccount", pod["serviceAccountName"])["metadata"]["name"]
    assert [subject["name"] for subject in manifest("RoleBinding", name)["subjects"]] == [account]
    assert manifest("Role", manifest("RoleBinding", name)["roleRef"]["name"])["rules"]
    mounts = {mount["mountPath"]: mount["name"] for mount in driver["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    environment = {variable["name"]: variable.get("value") for variable in driver["env"]}
    assert volumes[mounts[environment["SPARK_CONF_DIR"]]]["configMap"]["name"] == name
    template = Path(settings["spark.kubernetes.executor.podTemplateFile"])
    assert (str(template.parent), template.name in files) == (environment["SPARK_CONF_DIR"], True)
    claim = "spark.kubernetes.executor.volumes.persistentVolumeClaim.data"
    data = settings[f"{claim}.mount.path"]
    assert volumes[mounts[data]]["persistentVolumeClaim"]["claimName"] == settings[f"{claim}.options.claimName"]
    assert manifest("PersistentVolumeClaim", settings[f"{claim}.options.claimName"])
    for words in (driver["args"], driver["readinessProbe"]["exec"]["command"]):
        program, *names, _ = [word for word in words if not word.startswith("--")] + [""]
        command: Any = main
        for each in names:
            command = command.get_command(click.Context(command), each)
        given = [word.replace(data, str(tmp_path)) for word in words if word.startswith("--")]
        assert command.make_context(program, given).params["data"] == str(tmp_path)
        assert set(re.findall(r"\$\((\w+)\)", " ".join(words))) <= set(environment)


def test_the_image_starts_an_executor_as_spark_asks_for_it(tmp_path: Path) -> None:
    """Spark names the executor in variables; options of Java keep their spaces. Any other command is run."""
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    variables = ("DRIVER_URL", "EXECUTOR_ID", "EXECUTOR_CORES", "APPLICATION_ID", "EXECUTOR_POD_IP")
    variables += ("RESOURCE_PROFILE_ID", "EXECUTOR_POD_NAME")
    environment = {f"SPARK_{name}": name for name in variables} | {"SPARK_EXECUTOR_MEMORY": "1024m"}
    environment |= {"SPARK_JAVA_OPT_0": "-Da=b c", "SPARK_JAVA_OPT_1": "-Dd=e"}
    environment["PATH"] = f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin"
    entry = str(DEPLOY / "container" / "spark-entrypoint.sh")
    done = subprocess.run([entry, "executor"], env=environment, capture_output=True, text=True, timeout=60, check=True)
    words = done.stdout.splitlines()
    backend = words.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend")
    assert {"-Da=b c", "-Dd=e", "-Xmx1024m"} <= set(words[:backend])
    assert words[backend - 1].endswith("/pyspark/jars/*")
    given = dict(zip(words[backend + 1 :: 2], words[backend + 2 :: 2], strict=True))
    names = ("--driver-url", "--executor-id", "--cores", "--app-id", "--hostname", "--resourceProfileId", "--podName")
    assert given == dict(zip(names, variables, strict=True))
    other = subprocess.run([entry, "echo", "a  b"], env=environment, capture_output=True, text=True, timeout=60)
    assert other.stdout == "a  b\n"


def test_the_services_of_compose_fit_one_another_and_their_configuration() -> None:
    services = COMPOSE["services"]
    config = parse_broker_conf((DEPLOY / "compose" / "broker.conf").read_text(), "broker.conf").config
    servers = re.findall(r"http://([\w-]+):2379", config.metadata_store_url)
    brokers = {name: each for name, each in services.items() if name.startswith("broker-")}
    assert sorted(services) == sorted([*brokers, *servers])
    for name, each in services.items():
        assert set(each.get("depends_on", ())) <= set(services)
        named = {volume.partition(":")[0] for volume in each["volumes"]}
        assert all(volume in COMPOSE["volumes"] or (DEPLOY / "compose" / volume).exists() for volume in named)
        if name in servers:
            assert each["environment"]["ETCD_NAME"] == name
            assert f"{name}={each['environment']['ETCD_INITIAL_ADVERTISE_PEER_URLS']}" in (
                each["environment"]["ETCD_INITIAL_CLUSTER"].split(",")
            )
        else:
            assert each["hostname"] == name
            assert (DEPLOY / "compose" / each["build"]["context"] / each["build"]["dockerfile"]).exists()


def test_the_services_of_compose_with_bookies_fit_one_another_and_their_configuration() -> None:
    folder = DEPLOY / "compose-bookkeeper"
    compose: Any = yaml.safe_load((folder / "compose.yaml").read_text())
    services = compose["services"]
    config = parse_broker_conf((folder / "broker.conf").read_text(), "broker.conf").config
    bookies = [each for name, each in services.items() if name.startswith("bookie-")]
    assert len(bookies) >= config.managed_ledger_default_ensemble_size
    servers = config.bookkeeper_metadata_service_uri.partition("://")[2].partition("/")[0]
    assert servers.partition(":")[0] in services
    assert {each["environment"]["BK_metadataServiceUri"] for each in bookies} == {
        config.bookkeeper_metadata_service_uri
    }
    assert {each["environment"]["BK_advertisedAddress"] for each in bookies} <= set(services)
    assert config.max_message_size + 10_240 <= 5 << 20  # the packets that bookies accept by default
    for name, each in services.items():
        assert set(each.get("depends_on", ())) <= set(services)
        named = {volume.partition(":")[0] for volume in each["volumes"]}
        assert all(volume in compose["volumes"] or (folder / volume).exists() for volume in named)
        if name.startswith("broker-"):
            assert each["hostname"] == name
            assert each["read_only"] is True
            assert (each["cap_drop"], each["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
            assert (folder / each["build"]["context"] / each["build"]["dockerfile"]).exists()


def test_systemd_takes_every_unit(tmp_path: Path) -> None:
    """With a program that is there in place of the one that is not."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze on the PATH (Debian: apt-get install systemd)")
    units = sorted((DEPLOY / "systemd").glob("*.service"))
    for unit in units:
        program = re.search(r"^ExecStart=(\S+)", unit.read_text(), flags=re.MULTILINE)
        assert program is not None
        assert program[1] == "/opt/barycenter/.venv/bin/barycenter"
        (tmp_path / unit.name).write_text(unit.read_text().replace(program[1], shutil.which("true") or "/bin/true"))
    command = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / unit.name) for unit in units)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout + found.stderr) == (0, "")


def test_the_page_names_what_there_is() -> None:
    folders = {path.parent if path.parent != DEPLOY else path for path in DEPLOY.rglob("*") if path.is_file()}
    for folder in folders:
        assert str(folder.relative_to(ROOT)) in PAGE
    for named in re.findall(r"deploy/[\w./*-]+\w", PAGE):
        assert list(ROOT.glob(named)), named
