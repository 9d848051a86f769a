package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// writeCerts makes an authority, a certificate of the server and one of a
// client, and turns TLS on.
func (s *PostgresServer) writeCerts() error {
	s.Certs = filepath.Join(s.dir, "certs")
	if err := os.Mkdir(s.Certs, 0o755); err != nil { //nolint:gosec // the server runs as another user
		return err
	}
	ca, err := NewAuthority()
	if err != nil {
		return err
	}
	server, err := ca.Issue("localhost")
	if err != nil {
		return err
	}
	client, err := ca.Issue(PostgresUser)
	if err != nil {
		return err
	}
	for name, b := range map[string][]byte{
		"ca.pem": ca.PEM, "client.pem": client.PEM, "client.key": client.Key,
	} {
		if err := os.WriteFile(filepath.Join(s.Certs, name), b, 0o600); err != nil {
			return err
		}
	}
	for name, b := range map[string][]byte{"data/ca.pem": ca.PEM, "data/server.pem": server.PEM, "data/server.key": server.Key} {
		if err := s.write(name, string(b)); err != nil {
			return err
		}
	}
	s.cfg.Settings = append(s.cfg.Settings, "ssl=on", "ssl_ca_file=ca.pem", "ssl_cert_file=server.pem", "ssl_key_file=server.key")
	return nil
}

// Authority signs certificates for servers on the loopback address and for
// their clients.
type Authority struct {
	PEM  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Certificate is a certificate with its key, both as PEM.
type Certificate struct{ PEM, Key []byte }

// NewAuthority makes an authority that is valid for a day.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template("idem test authority")
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{PEM: encodePEM("CERTIFICATE", der), cert: cert, key: key}, nil
}

// Issue makes a certificate for a name, good for both sides of a connection.
func (a *Authority) Issue(name string) (*Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template(name)
	t.DNSNames, t.IPAddresses = []string{name}, []net.IP{net.IPv4(127, 0, 0, 1)}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Certificate{PEM: encodePEM("CERTIFICATE", der), Key: encodePEM("PRIVATE KEY", private)}, nil
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // never fails
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
