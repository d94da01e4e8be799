# dslint alone, without torch and DeepSpeed:  docker build -t dslint .
#   docker run --rm -v "$PWD:/work:ro" dslint --gpus 8 configs/
FROM python:3.13-slim AS build
COPY pyproject.toml README.md LICENSE /src/
COPY dslint /src/dslint
COPY schemas /src/schemas
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-compile /wheels/*.whl \
 && useradd --no-create-home --uid 10001 dslint
USER dslint
WORKDIR /work
ENTRYPOINT ["dslint"]
CMD ["--help"]
