package azuretest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// domain is where the accounts of a server with identities are. The SDK reads an account's name from its host, so a
// path can't tell it.
const domain = "localhost"

// LaunchOAuth is Launch with a server that speaks HTTPS only, with a certificate made for it, and takes identities. It
// believes all that a token says; see [Token]. An account's key is good there, too. Use [Server.Client]: nothing else
// finds the server's accounts and trusts its certificate.
func LaunchOAuth() (*Server, error) {
	dir, err := os.MkdirTemp("", "azuretest")
	if err != nil {
		return nil, fmt.Errorf("azuretest: make a certificate: %w", err)
	}
	defer os.RemoveAll(dir) // a server that listens has read them
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	roots, err := makeCertificate(cert, key)
	if err != nil {
		return nil, fmt.Errorf("azuretest: make a certificate: %w", err)
	}
	s, err := launch("--inMemoryPersistence", "--oauth", "basic", "--cert", cert, "--key", key)
	if err != nil {
		return nil, err
	}
	s.roots = roots
	return s, nil
}

// makeCertificate writes a certificate that has signed itself, and its key.
func makeCertificate(cert, key string) (*x509.CertPool, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	about := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "azuretest"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{domain, "*.blob." + domain, "*.queue." + domain, "*.table." + domain},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return roots, errors.Join(
		os.WriteFile(cert, text, 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
}

// Client returns a client that finds the accounts of a server with identities, and trusts the server's certificate.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.Transport()} }

// Transport returns a transport for [Server.Client]. The caller closes its connections.
func (s *Server) Transport() *http.Transport {
	var d net.Dialer
	return &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: s.roots},
		MaxIdleConnsPerHost: 256,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(address)
			if err == nil && strings.HasSuffix(host, "."+domain) {
				address = net.JoinHostPort("127.0.0.1", port)
			}
			return d.DialContext(ctx, network, address)
		},
	}
}

// address is an account's address at a service of a server with identities.
func address(server, service, account string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server + "/" + account
	}
	return u.Scheme + "://" + account + "." + service + "." + domain + ":" + u.Port()
}

// Token returns a token of nobody in particular, which a server of [LaunchOAuth] takes for every account, and its end.
// It has no signature.
func Token() (token string, end time.Time, err error) {
	now := time.Now()
	end = now.Add(time.Hour)
	claims, err := json.Marshal(map[string]any{
		"aud": "https://storage.azure.com",
		"iss": "https://sts.windows.net/11111111-1111-1111-1111-111111111111/",
		"iat": now.Add(-time.Minute).Unix(),
		"nbf": now.Add(-time.Minute).Unix(),
		"exp": end.Unix(),
		"oid": "22222222-2222-2222-2222-222222222222", // of this and the next, the server makes delegation keys
		"tid": "11111111-1111-1111-1111-111111111111",
		"sub": "azuretest",
		"ver": "1.0",
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("azuretest: make a token: %w", err)
	}
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + part(claims) + ".", end, nil
}
