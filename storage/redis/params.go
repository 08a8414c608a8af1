package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

// The environment's variables that hold what shouldn't stand in a URL. A URL that has a user or a password of its own
// goes first.
const (
	userVariable     = "MILLRACE_REDIS_USER"
	passwordVariable = "MILLRACE_REDIS_PASSWORD"

	// Sentinels have users and passwords of their own.
	sentinelUserVariable     = "MILLRACE_REDIS_SENTINEL_USER"
	sentinelPasswordVariable = "MILLRACE_REDIS_SENTINEL_PASSWORD"
	passwordFile             = "MILLRACE_REDIS_PASSWORD_FILE" // names a file that holds the password, as secrets are mounted
)

// params are what a store URL says.
type params struct {
	server  client.Options
	prefix  string
	wait    int  // replicas that must have a change
	durable bool // durable=no is false
	wake    bool
	bell    bool   // rings and publications alone
	files   string // the folder of large files, absolute; empty for none
}

// place names the store without a secret.
func (p params) place() string {
	at := strings.Join(p.server.Addrs, ",")
	if p.server.Socket != "" {
		at = p.server.Socket
	}
	if p.server.Master != "" {
		at += "/" + p.server.Master
	}
	if p.server.DB != 0 {
		at += "/" + strconv.Itoa(p.server.DB)
	}
	return at + " " + p.prefix
}

const knownParams = "prefix=NAME, db=NUMBER, wait=REPLICAS, durable=yes|no, ca=FILE, files=FOLDER, bell=yes|no, wake=on|off"

const wantURL = "want one like redis://HOST:PORT/?prefix=NAME, redis+unix:///PATH?prefix=NAME or redis+sentinel://HOST:PORT,HOST:PORT/MASTER?prefix=NAME"

var goodPrefix = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,49}$`)

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}

// parse reads a store URL. Its errors show no part of the URL that may hold a secret.
func parse(text string) (params, error) {
	p := params{durable: true, wake: true}
	form, rest, ok := strings.Cut(text, "://")
	if !ok {
		return params{}, bad("no server; %s", wantURL)
	}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "@") {
		return params{}, bad("user and password can't be read; write %%3F for ? in them, and %%40 for @ everywhere behind the server")
	}
	where := rest
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		where = rest[at+1:]
		user, err := url.Parse("redis://" + rest[:at+1] + "host")
		if err != nil || user.User == nil {
			return params{}, bad("user and password can't be read; write %%40 for @, %%3A for :, %%2F for / and %%23 for # in them")
		}
		p.server.Username = user.User.Username()
		p.server.Password, _ = user.User.Password()
	} else if err := p.readEnvironment(); err != nil {
		return params{}, err
	}
	if err := p.readServer(form, where); err != nil {
		return params{}, err
	}
	if err := p.readQuery(query); err != nil {
		return params{}, err
	}
	if p.bell && !p.wake {
		return params{}, bad("bell=yes with wake=off is a bell that nobody hears")
	}
	if p.bell && p.files != "" {
		return params{}, bad("bell=yes keeps nothing, so it has no parameter files")
	}
	if p.prefix == "" {
		return params{}, bad("no prefix; %s. The prefix tells this store's keys from those of other programs", wantURL)
	}
	return p, nil
}

// readEnvironment takes user and password from the environment.
func (p *params) readEnvironment() error {
	p.server.Username, p.server.Password = os.Getenv(userVariable), os.Getenv(passwordVariable)
	file := os.Getenv(passwordFile)
	if file == "" {
		return nil
	}
	if p.server.Password != "" {
		return bad("both %s and %s are set; want one of them", passwordVariable, passwordFile)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return bad("%s: %v", passwordFile, err)
	}
	if p.server.Password = strings.TrimRight(string(text), "\r\n"); p.server.Password == "" {
		return bad("%s: the file %s is empty", passwordFile, driver.Quote(file))
	}
	return nil
}

// readServer reads what stands between user and query.
func (p *params) readServer(form, where string) error {
	hosts, name, _ := strings.Cut(where, "/")
	switch form {
	case "redis+unix":
		if hosts != "" || name == "" {
			return bad("want the absolute path of a socket, as in redis+unix:///run/redis.sock?prefix=NAME")
		}
		p.server.Socket = path.Clean("/" + name)
		return nil
	case "redis+sentinel", "rediss+sentinel":
		if name == "" {
			return bad("the name by which sentinels know the master is missing; %s", wantURL)
		}
		if strings.Contains(name, "/") {
			return bad("the name by which sentinels know the master holds a slash; %s", wantURL)
		}
		p.server.Master = name
		p.server.SentinelUsername, p.server.SentinelPassword = os.Getenv(sentinelUserVariable), os.Getenv(sentinelPasswordVariable)
	case "redis", "rediss":
		if name != "" {
			return bad("%s stands behind the server; want db=NUMBER for a database; %s", driver.Quote(name), wantURL)
		}
		if strings.Contains(hosts, ",") {
			return bad("several servers need sentinels that know the master; %s", wantURL)
		}
	default:
		return bad("unknown form; %s", wantURL) // what stands there may be a secret
	}
	if strings.HasPrefix(form, "rediss") {
		p.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	port := "6379"
	if p.server.Master != "" {
		port = "26379"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := address(host, port)
		if err != nil {
			return err
		}
		p.server.Addrs = append(p.server.Addrs, addr)
	}
	return nil
}

// address adds the port that is usual to a host without one.
func address(host, port string) (string, error) {
	if host == "" {
		return "", bad("a server's name is missing; %s", wantURL)
	}
	strange := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_:[]%", r)
	}
	if _, given, err := net.SplitHostPort(host); err == nil && !strings.ContainsFunc(host, strange) {
		if n, err := strconv.ParseUint(given, 10, 16); err != nil || n == 0 {
			return "", bad("a server's port is no number from 1 to 65535; %s", wantURL)
		}
		return host, nil
	}
	addr := net.JoinHostPort(strings.Trim(host, "[]"), port)
	if _, err := url.Parse("redis://" + addr); err != nil || strings.ContainsFunc(host, strange) {
		return "", bad("a server's name can't be read; %s", wantURL)
	}
	return addr, nil
}

func (p *params) readQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return bad("the parameters can't be read; known are %s", knownParams)
	}
	for name, list := range values {
		if len(list) != 1 {
			return bad("parameter %s is given twice; known are %s", driver.Quote(name), knownParams)
		}
		if err := p.set(name, list[0]); err != nil {
			return err
		}
	}
	return nil
}

// set reads a parameter. No error shows a value that may be a secret.
func (p *params) set(name, value string) error {
	number := func(least, most int) (int, error) {
		n, err := strconv.Atoi(value)
		if err != nil || n < least || n > most {
			return 0, bad("parameter %s: want a number from %d to %d", name, least, most)
		}
		return n, nil
	}
	var err error
	switch name + "=" + value {
	case "durable=yes", "wake=on", "bell=no":
		return nil
	case "durable=no":
		p.durable = false
		return nil
	case "bell=yes":
		p.bell = true
		return nil
	case "wake=off":
		p.wake = false
		return nil
	}
	switch name {
	case "durable", "bell":
		return bad("parameter %s: want yes or no", name)
	case "wake":
		return bad("parameter wake: want on or off")
	case "prefix":
		if !goodPrefix.MatchString(value) {
			return bad("prefix %s: want 1 to 50 letters, digits, '.', '_' and '-', a letter or digit first", driver.Quote(value))
		}
		p.prefix = value
	case "db":
		p.server.DB, err = number(0, 1<<16)
	case "wait":
		p.wait, err = number(1, 100)
	case "ca":
		err = p.trust(value)
	case "files":
		if value == "" {
			return bad("parameter files: want the path of a folder")
		}
		if p.files, err = filepath.Abs(value); err != nil {
			return bad("parameter files: %v", err)
		}
	default:
		return bad("parameter %s is unknown; known are %s", driver.Quote(name), knownParams)
	}
	return err
}

// trust makes a file's certificates those that may have signed the server's.
func (p *params) trust(file string) error {
	if p.server.TLS == nil {
		return bad("parameter ca is for rediss: URLs, whose connections are encrypted")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return bad("parameter ca: %v", err)
	}
	p.server.TLS.RootCAs = x509.NewCertPool()
	if !p.server.TLS.RootCAs.AppendCertsFromPEM(text) {
		return bad("parameter ca: %w", errors.New("the file holds no certificate in PEM form"))
	}
	return nil
}
