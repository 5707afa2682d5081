# Serves a model folder: the page and the HTTP API of `sightunseen serve`.
#   docker build -t sightunseen .
#   docker run --rm -p 8000:8000 -v "$PWD:/models:ro" sightunseen /models/model
# With features only (no photos), or a backbone in ONNX, leave PyTorch out: --build-arg EXTRAS=serve,onnx
FROM python:3.12-slim AS build
ARG EXTRAS=serve,photos,text,onnx
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src src
RUN python -m venv /venv && /venv/bin/pip install ".[$EXTRAS]"

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 sightunseen
COPY --from=build /venv /venv
USER sightunseen
ENV PATH=/venv/bin:$PATH SIGHTUNSEEN_CACHE=/tmp/sightunseen
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health/ready', timeout=4)"]
# The folder that contains the model is mounted, not the model itself: `serve --save` replaces the model folder as a whole.
ENTRYPOINT ["sightunseen", "serve", "--host", "0.0.0.0"]
CMD ["/models/model"]
