package redis

import (
	"strings"
	"testing"
)

// Law: no error about a URL shows a part of it that may be a password.
func TestLawNoErrorOfAURLShowsItsPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://ada:hunter2@host/", "redis://:hunter2@host/?prefix=", "redis://ada:hun?ter2@host/?prefix=app", "redis://ada:hunt/er2@host/?prefix=app",
		"redis://ada:hunt#er2@host/?prefix=app", "redis://hunt#er2@host/?prefix=app", "redis://ada:hunter2%zz@host/?prefix=app",
		"redis://ada:hunter2@host:port:port/?prefix=app", "redis://ada:hunter2@host/7?prefix=app", "redis://ada:hunter2@a,b/?prefix=app",
		"redis://ada:hunter2@host/?prefix=app&password=hunter2", "redis://ada:hunter2@host/?prefix=app&wait=hunter2", "redis://host/?prefix=app&db=hunter2",
		"redis+sentinel://ada:hunter2@host?prefix=app", "redis+unix://ada:hunter2@run/redis.sock?prefix=app", "hunter2://host/?prefix=app", "redis:hunter2", "redis:hunter2@host",
		"redis://ada:hunter2@host/?prefix=app&ca=x", "redis://ada:hunter2@/?prefix=app", "redis://ada:hunter2@host/?prefix=app&prefix=app", "redis://ada:hunter2@host/?%zz",
	} {
		p, err := parse(url)
		if err == nil {
			t.Errorf("%s: got %+v, want an error", url, p)
			continue
		}
		for _, part := range []string{"hunter2", "ter2", "er2", "hunt"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error shows %q: %v", url, part, err)
			}
		}
	}
}

func TestPlaceIsWithoutSecrets(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://ada:hunter2@host/?prefix=app":                           "host:6379 app",
		"redis://:hun%40ter%3F2@[::1]:7000/?prefix=app&db=3":             "[::1]:7000/3 app",
		"rediss+sentinel://ada:hunter2@a,b:7000/shop?prefix=app":         "a:26379,b:7000/shop app",
		"redis+unix://ada:hunter2@/run/redis.sock?prefix=app&durable=no": "/run/redis.sock app",
	} {
		p, err := parse(url)
		if err != nil || p.place() != want {
			t.Errorf("%s: got %q, %v; want %q", url, p.place(), err, want)
		}
		if p.server.Password == "" {
			t.Errorf("%s: the password is lost", url)
		}
	}
}
