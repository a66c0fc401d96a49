# The binary alone on a base without a shell, run by a user without rights.
FROM rust:1-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends cmake make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --package braid && cp target/release/braid /braid

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /braid /usr/local/bin/braid
# The embedded store's directory; engines need none.
WORKDIR /data
EXPOSE 7070 7071
# Asks /readyz of the address that the settings name.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s CMD ["/usr/local/bin/braid", "ready"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/braid"]
