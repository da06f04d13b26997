#!/bin/sh
# Run an executor if Spark's driver asks for one, by the argument `executor` and variables SPARK_*; else the command given.
set -eu
[ "${1:-}" = executor ] || exec "$@"

jars="$(python3 -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')"
set -- -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" -cp "${SPARK_CLASSPATH:-}:$jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
# options of Java, SPARK_JAVA_OPT_0 and so on, whose values may hold spaces
number=0
while option="$(printenv "SPARK_JAVA_OPT_$number")"; do
    set -- "$option" "$@"
    number=$((number + 1))
done
exec java "$@"
