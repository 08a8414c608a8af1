# The sample's programs in one image, without a shell or a C library. They run as a user without rights, and write
# below /home/nonroot/data only: the SQLite file and, where no SMTP server is named, the mails. With a store and a mail
# server elsewhere the file system can be read-only.
#
#	docker build -t millrace .
#	docker run -p 8080:8080 -v millrace:/home/nonroot/data millrace     # web, with a worker in its process
#	docker run millrace worker -store 'azure://ACCOUNT?prefix=bistro'
#
# Mount a folder, as here, never the SQLite file alone: its log lies beside it, and would be deleted with the
# container. A file that is mounted alone is refused.
#
# The base images are named by tag, so a build takes their latest fixes. To build from the same bytes each time, add the
# digests, and renew them with each fix: docker buildx imagetools inspect golang:1.26 prints one, and FROM
# golang:1.26@sha256:DIGEST uses it; likewise for the other image.
#
# Nothing here needs BuildKit, so that `az acr build` can build it too.

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ENV CGO_ENABLED=0
RUN go build -trimpath -ldflags="-s -w" -o /out/ ./cmd/web ./cmd/worker ./cmd/millrace && mkdir /data

FROM gcr.io/distroless/static:nonroot
COPY --from=build /out/web /out/worker /out/millrace /usr/local/bin/
COPY --from=build --chown=65532:65532 /data /home/nonroot/data
WORKDIR /home/nonroot
# The user's number lets Kubernetes see that it isn't root.
USER 65532:65532
VOLUME /home/nonroot/data
EXPOSE 8080 9090
CMD ["web"]
