# The forwarder in a container, with neither shell nor package manager.
#
#   docker build -t namewire .
#   docker run -d --name namewire -p 6363:6363/udp -p 6363:6363/tcp -v namewire-run:/run/nfd namewire
#   docker exec namewire /usr/bin/namewire status
#
# Applications in other containers mount the volume namewire-run and find /run/nfd/nfd.sock there.
# A configuration: -v $PWD/namewire.toml:/etc/namewire.toml:ro, and `run --config /etc/namewire.toml`
# behind the name of the image.
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends build-essential cmake \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    cargo build --release --locked --package namewire \
    && mkdir -p /out/usr/bin /out/run/nfd \
    && strip --strip-unneeded target/release/namewire -o /out/usr/bin/namewire

FROM gcr.io/distroless/cc-debian12:nonroot
# The program stays root's: who runs it cannot change it. The directory of the socket is that of nonroot, 65532.
COPY --from=build /out/usr/ /usr/
COPY --from=build --chown=65532:65532 /out/run/ /run/
# As NFD: UDP and TCP, WebSocket where the configuration enables it.
EXPOSE 6363/udp 6363/tcp 9696/tcp
VOLUME /run/nfd
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s CMD ["/usr/bin/namewire", "status"]
ENTRYPOINT ["/usr/bin/namewire"]
CMD ["run", "--socket", "/run/nfd/nfd.sock"]
