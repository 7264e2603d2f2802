# syntax=docker/dockerfile:1
# An image with the runner, git and an SSH client for private modules, curl, with which generated wrappers
# report their own failures, and one version of Terraform.
#
# Each platform is built on a machine of its own kind: OpenSSL and libgit2 are C, and cross compilers
# for them would be a second tool chain to keep. Where the binary is there already, as in a release,
# a directory that holds out/butler-runner takes the place of the first stage:
#   docker buildx build --build-context build=DIRECTORY .
# The digests are those of the images' indexes, so that they hold for all platforms.

FROM rust:1.95-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1 AS build
WORKDIR /source
COPY . .
# What `--version` says; .git is not in the image's context.
ARG BUTLER_RUNNER_COMMIT
ARG SOURCE_DATE_EPOCH
RUN make build && install -D target/*/release/butler-runner /out/butler-runner

FROM debian:bookworm-20260713-slim@sha256:7b140f374b289a7c2befc338f42ebe6441b7ea838a042bbd5acbfca6ec875818
# Upgraded, because what is pinned above gets no corrections by itself.
RUN apt-get update \
    && apt-get upgrade -y \
    && apt-get install -y --no-install-recommends ca-certificates curl git openssh-client \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/butler-runner /usr/local/bin/butler-runner
COPY --chmod=0755 packaging/entrypoint.sh /usr/local/bin/docker-entrypoint.sh
# A release names the newest stable version of the day. Verified like any other download, and kept outside the home directory, which may be a mount.
# The record beside it says which version it is, so runs do not start it to ask; it has to be readable for that.
ARG TERRAFORM_VERSION=1.11.4
RUN terraform="$(butler-runner tool install --cache-dir /opt/butler-runner "${TERRAFORM_VERSION}")" \
    && chmod -R a+rX /opt/butler-runner \
    && ln -s "${terraform}" /usr/local/bin/terraform \
    && terraform version
# The cache is a directory of its own, so that it can be a volume where the root is read-only. Where
# it cannot be written, the runner takes a directory below /tmp. Other users may look at home, too.
RUN useradd --uid 65532 --user-group --create-home --home-dir /home/runner runner \
    && chmod 0755 /home/runner \
    && install -d -o runner -g runner /home/runner/.butler-runner /workspace \
    && install -d -m 0700 -o runner -g runner /data
# /data is the data directory of `serve`: mount a volume there. It is not declared as one, because CI
# systems would get an empty volume for each job. A new volume takes over owner and mode.
ENV HOME=/home/runner \
    BUTLER_DATA=/data \
    BUTLER_DEFAULT_TOOL_VERSION=${TERRAFORM_VERSION} \
    BUTLER_NO_SELF_UPDATE="use the image of the version that you want"
USER 65532:65532
WORKDIR /workspace
ARG VERSION=0.0.0
ARG BUTLER_RUNNER_COMMIT=unknown
LABEL org.opencontainers.image.title="butler-runner" \
      org.opencontainers.image.description="Carries out Terraform and OpenTofu runs for a registry" \
      org.opencontainers.image.source="https://github.com/butlerdotdev/butler-runner" \
      org.opencontainers.image.documentation="https://github.com/butlerdotdev/butler-runner/blob/main/docs/packages.md" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="docker.io/library/debian:bookworm-20260713-slim" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${BUTLER_RUNNER_COMMIT}"
# Runs commands of butler-runner, and anything else as a program: pipelines start a shell in the image.
ENTRYPOINT ["docker-entrypoint.sh"]
