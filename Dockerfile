# syntax=docker/dockerfile:1
# An image with the runner, git for private modules, and one version of Terraform.

FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY .ci/setup .ci/setup
COPY Makefile Cargo.toml Cargo.lock ./
COPY src src
RUN make build && install -D target/*/release/butler-runner /out/butler-runner

FROM debian:bookworm-slim
ARG TERRAFORM_VERSION=1.11.4
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git openssh-client \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/butler-runner /usr/local/bin/butler-runner
# Verified like any other download, and kept outside the home directory, which may be a mount.
RUN terraform="$(butler-runner tool install --cache-dir /opt/butler-runner "${TERRAFORM_VERSION}")" \
    && chmod -R a+rX /opt/butler-runner \
    && ln -s "${terraform}" /usr/local/bin/terraform \
    && terraform version
# The cache is a directory of its own, so that it can be a volume where the root is read-only. Where
# it cannot be written, the runner takes a directory below /tmp.
RUN useradd --uid 65532 --user-group --create-home --home-dir /home/runner runner \
    && install -d -o runner -g runner /home/runner/.butler-runner /workspace
ENV HOME=/home/runner \
    BUTLER_DEFAULT_TOOL_VERSION=${TERRAFORM_VERSION}
USER 65532:65532
WORKDIR /workspace
# No entry point: pipelines start a shell in the image, and Kubernetes names the command.
CMD ["butler-runner", "--help"]
