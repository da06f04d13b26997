# The pipeline, as driver and as executor. From the root of the repository:
# docker build -t barycenter-pipeline -f deploy/container/pipeline.Dockerfile .
FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install --yes --no-install-recommends openjdk-17-jre-headless && rm -r /var/lib/apt/lists/*
COPY pyproject.toml README.md LICENSE /build/
COPY src /build/src
RUN pip install --no-cache-dir '/build[pipeline]' && rm -r /build \
    && useradd --uid 10001 --create-home barycenter \
    && install -d -o barycenter -g barycenter -m 0700 /var/lib/barycenter
COPY --chmod=0755 deploy/container/spark-entrypoint.sh /usr/local/bin/spark-entrypoint.sh
USER 10001
ENTRYPOINT ["/usr/local/bin/spark-entrypoint.sh"]
