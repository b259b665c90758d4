# The quickstart on a machine with Python alone: docker build -t curlhttp . && docker run --rm curlhttp
# (or podman). The image has curlhttp, what it depends on, and a program; no compiler and no sources.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml hatch_build.py pytest_curlhttp.py README.md LICENSE ./
COPY curlhttp curlhttp
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.13-slim
# hadolint ignore=DL3013
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links=/wheels curlhttp \
    && useradd --create-home --uid 1000 someone
USER 1000
WORKDIR /home/someone
COPY examples/quickstart.py ./
CMD ["python", "quickstart.py"]
