# One static binary and the example packs, without a shell and without root.
#
#   docker build --build-arg VERSION="$(git describe --tags --always)" -t switchboard .
#   docker run --rm -it switchboard chat /packs/club
#
# Whatever must outlive the container is in /data: mount a volume there.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/bot ./cmd/bot
# Of each example only what a pack is: the Go files beside it are compiled in already.
RUN mkdir -p /out/data /out/tmp /out/packs /out/etc \
 && for pack in examples/*/bot.yaml; do cp -R "$(dirname "$pack")" /out/packs/; done \
 && find /out/packs -name '*.go' -delete \
 && echo 'bot:x:65532:65532::/data:/sbin/nologin' > /out/etc/passwd

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/etc/passwd /etc/passwd
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build --chown=65532:65532 /out/tmp /tmp
COPY --from=build /out/packs /packs
COPY --from=build /out/bot /bot
USER 65532:65532
WORKDIR /data
VOLUME /data
ENTRYPOINT ["/bot"]
