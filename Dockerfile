# A server for one run folder, mounted at /run/model-run. Build: docker build -t longtail .
FROM python:3.12-slim
COPY pyproject.toml constraints.txt README.md LICENSE /src/
COPY longtail /src/longtail
ARG TORCH_INDEX
RUN pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -c /src/constraints.txt '/src[serve,faiss,transformers]' \
    && useradd --create-home --uid 10001 longtail
USER longtail
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --start-period=60s \
    CMD python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=3)"
ENTRYPOINT ["longtail", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/run/model-run"]
