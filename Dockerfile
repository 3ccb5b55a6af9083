# A peer, or with another command the broker:
#   docker build -t herd .
#   docker run --network host herd                                            # the broker
#   docker run --network host -v $PWD/outputs:/runs herd python -m agent.experiment connect=IP:4431 group=go2
FROM python:3.11-slim
WORKDIR /herd
COPY pyproject.toml README.md LICENSE plot.py ./
COPY moolib moolib
COPY envs envs
COPY agent agent
COPY conf conf
COPY plots plots
RUN pip install --no-cache-dir "torch>=2.9,<2.14" --index-url https://download.pytorch.org/whl/cpu \
 && pip install --no-cache-dir -e .
WORKDIR /runs
STOPSIGNAL SIGTERM
EXPOSE 4431
CMD ["python", "-m", "moolib.broker"]
