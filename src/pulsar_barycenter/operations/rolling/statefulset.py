"""Checks the StatefulSet of brokers in Kubernetes for what a roll needs, from the answers of `kubectl`.

A roll deletes one pod at a time, after it has moved the bundles away. For that the controller must not restart pods by
itself, a pod must have time to end, and its name must have an address before it is ready.

The judgement is pure; `read_statefulset` runs `kubectl`. Source: the API of Kubernetes, apps/v1 `StatefulSet` and v1
`Service`.
"""

import asyncio
import shlex
from collections.abc import Sequence
from typing import Annotated, Final, TypeVar

import msgspec

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.operations.executor import RefusedError

DEFAULT_NAMESPACE: Final = "default"
LEAST_GRACE_S: Final = 90
"""`brokerShutdownTimeoutMs` (60 s) and the end of the process."""
_MAX_BYTES: Final = 4 << 20
_TIMEOUT_S: Final = 30.0
_ON_DELETE: Final = "OnDelete"
_NO_ADDRESS: Final = "None"

T = TypeVar("T", bound=msgspec.Struct)


class _RollingUpdate(msgspec.Struct, frozen=True, rename="camel"):
    partition: int = 0


class _Strategy(msgspec.Struct, frozen=True, rename="camel"):
    type: str = "RollingUpdate"
    rolling_update: _RollingUpdate = _RollingUpdate()


class _Lifecycle(msgspec.Struct, frozen=True, rename="camel"):
    pre_stop: dict[str, object] = {}


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    lifecycle: _Lifecycle = _Lifecycle()
    readiness_probe: dict[str, object] = {}


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    containers: tuple[_Container, ...] = ()
    termination_grace_period_seconds: int = 30


class _Template(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    replicas: Annotated[int, msgspec.Meta(ge=0)] = 1
    service_name: str = ""
    update_strategy: _Strategy = _Strategy()
    template: _Template = _Template()


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    ready_replicas: int = 0


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = DEFAULT_NAMESPACE


class StatefulSet(msgspec.Struct, frozen=True):
    """The parts of a StatefulSet that a roll needs; fields that the manifest does not set have the defaults of
    Kubernetes.
    """

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    cluster_ip: Annotated[str, msgspec.Meta(max_length=256)] = msgspec.field(default="", name="clusterIP")
    publish_not_ready_addresses: bool = False


class Service(msgspec.Struct, frozen=True):
    """The parts of a Service that a roll needs."""

    metadata: _Metadata = _Metadata()
    spec: _ServiceSpec = _ServiceSpec()


class Lack(msgspec.Struct, frozen=True, kw_only=True):
    """What a StatefulSet lacks for a roll, and how to add it. `is_error` is True if a roll must not begin
    without it.
    """

    is_error: bool
    sentence: str
    mend: str


def lacks_of(found: StatefulSet, service: Service, brokers: Sequence[str]) -> tuple[Lack, ...]:
    """Return what a StatefulSet, its service and its pods lack for a roll, errors first. `brokers` are the brokers that
    the cluster lists.
    """
    lacks = [*_of_strategy(found), *_of_pods(found, brokers), *_of_template(found), *_of_service(found, service)]
    return tuple(sorted(lacks, key=lambda lack: not lack.is_error))


def restart_command(found: StatefulSet) -> str:
    """Return the template of the command that restarts a broker of this StatefulSet, for `hooks.CommandHooks`: it
    deletes the pod `{pod}`, which Kubernetes then creates again.
    """
    return f"kubectl --namespace {shlex.quote(found.metadata.namespace)} delete pod {{pod}}"


def _of_strategy(found: StatefulSet) -> list[Lack]:
    strategy, name = found.spec.update_strategy, found.metadata.name
    if strategy.type == _ON_DELETE or strategy.rolling_update.partition >= found.spec.replicas:
        return []
    patch = shlex.quote('{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}')
    return [
        Lack(
            is_error=True,
            sentence=f"{name} has the update strategy {strategy.type}: after a change of its template Kubernetes "
            "restarts pods by itself, with their bundles",
            mend=f"kubectl --namespace {found.metadata.namespace} patch statefulset {name} --patch {patch}",
        )
    ]


def _of_pods(found: StatefulSet, brokers: Sequence[str]) -> list[Lack]:
    lacks = []
    replicas, ready = found.spec.replicas, found.status.ready_replicas
    if ready < replicas:
        lacks.append(
            Lack(
                is_error=True,
                sentence=f"of {count_of(replicas, 'pod')} of {found.metadata.name}, {ready:,} are ready",
                mend="repair the others first: kubectl describe pod",
            )
        )
    pods = {f"{found.metadata.name}-{number}" for number in range(replicas)}
    strange = [broker for broker in brokers if broker.partition(":")[0].partition(".")[0] not in pods]
    if strange:
        lacks.append(
            Lack(
                is_error=True,
                sentence=f"{', '.join(strange[:10])} {'is' if len(strange) == 1 else 'are'} not named like a pod of "
                f"{found.metadata.name}, so {{pod}} would name another pod",
                mend="advertise the pods' names: advertisedAddress=POD.SERVICE.NAMESPACE.svc.cluster.local",
            )
        )
    return lacks


def _of_template(found: StatefulSet) -> list[Lack]:
    spec, lacks = found.spec.template.spec, []
    grace_s = spec.termination_grace_period_seconds
    if grace_s < LEAST_GRACE_S:
        lacks.append(
            Lack(
                is_error=False,
                sentence=f"terminationGracePeriodSeconds is {grace_s:,}: a broker that still has bundles is killed "
                "while it unloads them",
                mend=f"set it to at least {LEAST_GRACE_S}; to more if brokers are also ended without a roll",
            )
        )
    if not any(container.lifecycle.pre_stop for container in spec.containers):
        lacks.append(
            Lack(
                is_error=False,
                sentence="no container has a preStop hook: a pod that ends without a roll takes its bundles with it",
                mend="add one that calls POST /admin/v2/brokers/shutdown at the pod's own address, and waits",
            )
        )
    if not any(container.readiness_probe for container in spec.containers):
        lacks.append(
            Lack(
                is_error=False,
                sentence="no container has a readinessProbe: a pod gets clients before its broker serves",
                mend="probe GET /admin/v2/brokers/ready",
            )
        )
    return lacks


def _of_service(found: StatefulSet, service: Service) -> list[Lack]:
    lacks, name = [], found.spec.service_name
    if service.spec.cluster_ip != _NO_ADDRESS:
        lacks.append(
            Lack(
                is_error=True,
                sentence=f"the service {name!r} is not headless (clusterIP is {service.spec.cluster_ip!r}): pods have "
                "no names of their own",
                mend="make a service with clusterIP: None, and name it as serviceName",
            )
        )
    if not service.spec.publish_not_ready_addresses:
        lacks.append(
            Lack(
                is_error=True,
                sentence=f"the service {name!r} does not publish addresses of pods that are not ready: clients and the "
                "other brokers cannot resolve a broker that has just started",
                mend=f"kubectl --namespace {found.metadata.namespace} patch service {name} --patch "
                + shlex.quote('{"spec":{"publishNotReadyAddresses":true}}'),
            )
        )
    return lacks


async def read_statefulset(name: str) -> tuple[StatefulSet, Service]:
    """Return a StatefulSet, `NAME` or `NAMESPACE/NAME`, and its service.

    Raises:
        RefusedError: `kubectl` is not there, fails, or answers something else.
    """
    namespace, _, short = name.rpartition("/")
    where = ("--namespace", namespace) if namespace else ()
    found = decode_statefulset(await _kubectl(*where, "get", "statefulset", short, "--output", "json"))
    if not found.spec.service_name:
        return found, Service()
    where = ("--namespace", found.metadata.namespace)
    return found, decode_service(await _kubectl(*where, "get", "service", found.spec.service_name, "--output", "json"))


def decode_statefulset(answer: bytes) -> StatefulSet:
    """Return the StatefulSet in `answer`, the JSON that `kubectl` printed. Raises what `read_statefulset` does."""
    return _decoded(answer, StatefulSet)


def decode_service(answer: bytes) -> Service:
    """Return the Service in `answer`, the JSON that `kubectl` printed. Raises what `read_statefulset` does."""
    return _decoded(answer, Service)


def _decoded(answer: bytes, kind: type[T]) -> T:
    try:
        return decode_json(answer, kind)
    except msgspec.DecodeError as error:
        raise RefusedError(f"the answer of kubectl is not a {kind.__name__}: {error}") from error


async def _kubectl(*words: str) -> bytes:
    command = shlex.join(("kubectl", *words))
    try:
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise RefusedError(
            f"`{command}` cannot run: {error.strerror}; install kubectl, or leave --statefulset out"
        ) from None
    try:
        answer, said = await asyncio.wait_for(process.communicate(), _TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise RefusedError(
            f"`{command}` did not end within {_TIMEOUT_S:g} s; check which cluster the context of kubectl selects"
        ) from None
    if process.returncode != 0:
        lines = said.decode(errors="replace").strip().splitlines()
        raise RefusedError(f"`{command}` failed: {lines[-1][:300] if lines else f'status {process.returncode}'}")
    if len(answer) > _MAX_BYTES:
        raise RefusedError(f"the answer of `{command}` is larger than {_MAX_BYTES:,} bytes")
    return answer
