# Everything that building and testing takes, on Debian 12. The two commands of README.md then install nothing but .venv:
#
#   docker build -t fp8moe . && docker run --rm -it -v "$PWD:/fp8moe" fp8moe scripts/quickstart.sh
FROM debian:bookworm
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git && rm -rf /var/lib/apt/lists/*
# scripts/setup.sh installs into the system, and into a .venv that the checkout of the user replaces.
COPY scripts/setup.sh scripts/common.sh /setup/scripts/
COPY test/requirements.txt /setup/test/
RUN /setup/scripts/setup.sh && rm -rf /setup /root/.cache /var/lib/apt/lists/*
# The checkout belongs to a user of the host.
RUN git config --system --add safe.directory /fp8moe
WORKDIR /fp8moe
